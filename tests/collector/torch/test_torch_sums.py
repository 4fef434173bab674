"""Sums of gradients that autograd's engine makes: which, of which nodes."""

from __future__ import annotations

import json
import sys

import pytest
from live import Process, processes, recorded

PROGRAM = """
import json

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class NoSums(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if function is torch.ops.aten.add.Tensor:
            raise ArithmeticError("no sums")
        return function(*arguments, **(keywords or {}))


def number(tensor):
    return tensor.grad_fn._sequence_nr()


def uses(leaf):
    '''The nodes that the gradients of `once` and of `often` go through: `often` is used by three ops, one of which uses it twice.'''
    once = leaf * 2
    often = once.exp()
    used = [often.sin(), often.neg(), often * often]
    return used, (used[0] + used[1] + used[2]).sum()


made = []
leaf = torch.ones(4, 4, requires_grad=True)
for _ in range(3):
    used, loss = uses(leaf)
    made += [[number(used[2]), number(each)] for each in (used[1], used[0])]
    loss.backward()

used, loss = uses(leaf)
try:
    with NoSums():
        loss.backward()
except ArithmeticError as error:
    failed = str(error)

used, loss = uses(leaf)
made += [[number(used[2]), number(each)] for each in (used[1], used[0])]
loss.backward()

# Gradients that are none are added to nothing.
left, right = torch.unbind(leaf.exp())[:2]
left.sum().backward()
print(json.dumps({"made": made, "failed": failed}))
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], Process]:
    """The program's output, and its recorded process."""
    pytest.importorskip("torch", reason="torch is not installed")
    folder = tmp_path_factory.mktemp("sums")
    (folder / "program.py").write_text(PROGRAM)
    outcome = recorded([sys.executable, "program.py"], folder / "profile")
    assert outcome.status == 0, outcome.stderr
    process = next(process for process in processes(folder / "profile") if process.command[-1] == "program.py")
    return json.loads(outcome.stdout), process


def test_each_sum_has_the_node_that_gave_the_first_gradient_and_its_own(recording: tuple[dict[str, object], Process]) -> None:
    """Two gradients from one node make no sum."""
    printed, process = recording
    rows = process.table("gradient_sums").sort("begin_ns").select("first", "last").rows()
    assert [list(row) for row in rows] == printed["made"]


def test_an_error_in_a_sum_reaches_the_program(recording: tuple[dict[str, object], Process]) -> None:
    printed, _ = recording
    assert printed["failed"] == "no sums"


def test_sums_of_a_thread_come_one_after_another(recording: tuple[dict[str, object], Process]) -> None:
    _, process = recording
    rows = process.table("gradient_sums").sort("begin_ns")
    assert rows["autograd"].unique().to_list() == [0x8001]
    assert rows["thread"].n_unique() == 1
    assert (rows["begin_ns"] <= rows["end_ns"]).all()
    assert (rows["end_ns"].to_numpy()[:-1] <= rows["begin_ns"].to_numpy()[1:]).all()

"""Which module's call made each autograd node, in programs with a GPU too: a fake driver, and torch on the CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest
from cuda_scenes import around, needs_fakes
from live import Process, processes, recorded

PROGRAM = """
import json
import sys

from fake_gpu_driver import Gpu

gpu = Gpu()

import torch
from torch import nn

kernel = gpu.kernel("spin", 1000)
made = []


def note(module, *tensors):
    made.extend([module and id(module), tensor.grad_fn._sequence_nr()] for tensor in tensors)


class Launches(nn.Module):
    def forward(self, x):
        x = x * 2
        gpu.launch(kernel)
        note(self, x)
        return x


class Halves(nn.Module):
    def forward(self, x):
        halves = x.chunk(2)  # one node
        note(self, halves[0])
        return halves[0]


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(Launches(), Halves(), Halves(), Launches())

    def forward(self, x):
        x = x.view(-1)
        note(self, x)
        x = self.parts(x)
        y = x.view(-1)
        note(self, y)
        return y


gpu.launch(kernel)
model, leaf = Both(), torch.ones(4, 4, requires_grad=True)
for _ in range(3):
    loss = model(leaf).sum()
    note(None, loss)
    loss.backward()
gpu.wait()
print(json.dumps(made))
"""

Nodes = list[list[int | None]]
"""A module, None for none, and the number of a node that its call made."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Nodes, Process]:
    """The program's nodes, and its recorded process."""
    pytest.importorskip("torch", reason="torch is not installed")
    folder = tmp_path_factory.mktemp("nodes")
    (folder / "program.py").write_text(PROGRAM)
    drivers = Path(__file__).parents[2] / "e2e/programs"
    outcome = recorded([sys.executable, "program.py"], folder / "profile", cpu_rate=0, env=around() | {"PYTHONPATH": str(drivers)})
    assert outcome.status == 0, outcome.stderr
    process = next(process for process in processes(folder / "profile") if process.command[-1] == "program.py")
    return json.loads(outcome.stdout), process


@needs_fakes
def test_each_node_belongs_to_the_module_that_made_it(recording: tuple[Nodes, Process]) -> None:
    """Whether it launches or not, in calls that launch and in calls that do not."""
    printed, process = recording
    assert len(process.table("kernels")) == 1 + 2 * 3
    calls = process.table("layer_calls")
    address = dict(process.table("layers").select("id", "address").iter_rows())
    recorded_nodes: Nodes = []
    for _, number in printed:
        of = calls.filter(pl.col("sequence_begin") <= number, pl.col("sequence_end") > number)
        assert len(of) <= 1
        recorded_nodes.append([address[of["layer"][0]] if len(of) else None, number])
    assert recorded_nodes == printed


@needs_fakes
def test_each_row_covers_successive_nodes_of_one_call(recording: tuple[Nodes, Process]) -> None:
    _, process = recording
    calls = process.table("layer_calls").sort("begin_ns")
    assert len(calls) == 6 * 3
    assert calls["autograd"].unique().to_list() == [1]
    assert (calls["sequence_begin"].to_numpy()[1:] >= calls["sequence_end"].to_numpy()[:-1]).all()
    assert (calls["begin_ns"] <= calls["end_ns"]).all()
    assert (calls["end_ns"].to_numpy()[:-1] <= calls["begin_ns"].to_numpy()[1:]).all()

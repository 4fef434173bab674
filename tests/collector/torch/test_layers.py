"""Calls of torch modules in stacks: a stand-in for torch whose calls come through a function of the same name in a file of the same
name, so that each program knows which module's call lies where."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from live import EVERYTHING, Process, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import FrameKind
from interpreters import VERSIONS, interpreter

MODULE = """
import glob, os, time

class Module:
    def _wrapped_call_impl(self, *args):
        return self._call_impl(*args)

    def _call_impl(self, *args):
        return self.forward(*args)

    __call__ = _wrapped_call_impl

def samples_so_far():
    for table in glob.glob(f"{os.environ['AIFLAME_PROFILE']}/spool/{os.getpid()}.*/cpu_samples.table"):
        with open(table, "rb") as rows:
            return int.from_bytes(rows.read(32)[24:], "little")
    return 0  # a child of fork has no tables yet

def spin(samples=20, seconds=0):
    # Works until the process has so many more samples, and the thread has worked so long. How long samples take depends on the load of the
    # machine: the kernel may leave a thread without its timer's signal for 0.2 s of its time.
    end, least = time.process_time() + 20, time.thread_time() + seconds
    wanted = samples_so_far() + samples
    while (samples_so_far() < wanted or time.thread_time() < least) and time.process_time() < end:
        for _ in range(20):
            sum(range(200))
"""
CELL = MODULE.replace("return self.forward(*args)", "inner = lambda: self.forward(*args)\n        return inner()")
"""Calls as torch does: an inner function uses `self`."""


@dataclass(frozen=True, slots=True)
class Run:
    """The program's output, and its recorded processes."""

    said: Any
    processes: list[Process]

    @property
    def process(self) -> Process:
        return self.processes[0]


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if path is None:
        pytest.skip(f"no CPython {request.param} here")
    return path


def run(python: str, folder: Path, program: str, *, module: str = MODULE, file: str = "torch/nn/modules/module.py", **options: Any) -> Run:
    """Records a program that has Module and spin, and prints one line of JSON. No package is named torch: nothing of ours that knows the
    real one comes in."""
    path = folder / file
    path.parent.mkdir(parents=True)
    path.write_text(module)
    start = f"import json, sys\nsys.path.insert(0, {str(path.parent)!r})\nfrom {path.stem} import Module, spin\nimport _aiflame\n"
    source = folder / "program.py"
    source.write_text(start.replace("import _aiflame\n", "" if "features" in options else "import _aiflame\n") + textwrap.dedent(program))
    outcome = recorded([python, source], folder / "profile", **options)
    assert (outcome.status, outcome.stderr) == (0, "")
    recorded_processes = processes(folder / "profile")
    assert all(process.table("notes").is_empty() for process in recorded_processes)
    return Run(json.loads(outcome.stdout), recorded_processes)


Frame = tuple[FrameKind, Any]


def stacks(process: Process) -> list[list[Frame]]:
    """The frames of each sample, outermost first: (PYTHON, qualname), (LAYER, address of the module), (other kind, None)."""
    nodes = {row["id"]: (row["parent"], row["frame"]) for row in process.table("stacks").iter_rows(named=True)}
    codes = {row["id"]: str(row["qualname"]) for row in process.table("codes").iter_rows(named=True)}
    layers = {row["id"]: int(row["address"]) for row in process.table("layers").iter_rows(named=True)}
    result = []
    for node in process.table("cpu_samples")["stack"]:
        frames: list[Frame] = []
        while node:
            node, word = nodes[node]
            kind = FrameKind(word >> 60)
            named: str | int | None = None
            if kind is FrameKind.PYTHON:
                named = codes[word >> 32 & 0xFFFFFFF]
            elif kind is FrameKind.LAYER:
                named = layers[word & 0xFFFFFFFF]
            frames.append((kind, named))
        result.append(frames[::-1])
    return result


def layers(frames: list[Frame]) -> list[int]:
    return [value for kind, value in frames if kind is FrameKind.LAYER]


def functions(frames: list[Frame]) -> list[str]:
    """Without classes: 3.10 does not know them."""
    return [value.rpartition(".")[2] for kind, value in frames if kind is FrameKind.PYTHON]


NESTED = """
class A(Module):
    def forward(self):
        return self.inner()

class B(Module):
    def forward(self):
        return self.inner() if hasattr(self, "inner") else spin(40)

a, b, c = A(), B(), B()
a.inner, b.inner = b, c
a()
spin()
print(json.dumps([id(a), id(b), id(c)]))
"""


@pytest.fixture(scope="module")
def nested(python: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(python, tmp_path_factory.mktemp("nested"), NESTED)


@pytest.mark.parametrize("module", [MODULE, CELL], ids=["local", "cell"])
def test_each_call_is_followed_by_its_module(python: str, nested: Run, tmp_path: Path, module: str) -> None:
    """Two modules of one class, one inside the other: their calls differ only by the object."""
    seen = nested if module == MODULE else run(python, tmp_path, NESTED, module=module)
    inside = [frames for frames in stacks(seen.process) if functions(frames).count("forward") == 3]
    assert len(inside) > 10
    assert all(layers(frames) == seen.said for frames in inside)
    for frames in inside:
        for at, frame in enumerate(frames):
            if frame[0] is FrameKind.LAYER:
                assert functions([frames[at - 1]]) == ["_call_impl"]
    outside = [frames for frames in stacks(seen.process) if "forward" not in functions(frames) and "spin" in functions(frames)]
    assert outside and not any(layers(frames) for frames in outside)


def test_a_layer_is_a_row_with_address_and_class(nested: Run) -> None:
    rows = nested.process.table("layers")
    assert sorted(rows["address"]) == sorted(nested.said)
    types = dict(zip(rows["address"], rows["type"], strict=True))
    assert [types[address] for address in nested.said] == ["A", "B", "B"]


def test_without_meaning_there_are_no_layers(python: str, tmp_path: Path) -> None:
    seen = run(python, tmp_path, NESTED, features=EVERYTHING - Feature.MEANING)
    assert seen.process.table("layers").is_empty()
    assert not any(layers(frames) for frames in stacks(seen.process))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("torch/nn/modules/other.py", "", ""), ("torch/nn/modules/module.py", "_call_impl", "_call_implicit")],
    ids=["file", "function"],
)
def test_other_functions_and_other_files_are_no_layer_calls(python: str, tmp_path: Path, file: str, old: str, new: str) -> None:
    seen = run(python, tmp_path, NESTED, file=file, module=MODULE.replace(old, new) if old else MODULE)
    assert seen.process.table("layers").is_empty()


def test_threads_have_their_own_layers(python: str, tmp_path: Path) -> None:
    seen = run(
        python,
        tmp_path,
        """
        import threading

        def make(name):
            return type(name, (Module,), {"forward": eval(f"lambda self: {name}_spins()")})()

        def one_spins(): spin(60, 0.35)
        def two_spins(): spin(60, 0.35)

        modules = [make("one"), make("two")]
        threads = [threading.Thread(target=module) for module in modules]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(json.dumps([id(module) for module in modules]))
        """,
    )
    for name, address in zip(("one_spins", "two_spins"), seen.said, strict=True):
        inside = [frames for frames in stacks(seen.process) if name in functions(frames)]
        assert len(inside) > 1 and all(layers(frames) == [address] for frames in inside)


def test_a_generator_runs_inside_the_layer_that_resumes_it(python: str, tmp_path: Path) -> None:
    seen = run(
        python,
        tmp_path,
        """
        def steps():
            while True:
                spin(2)
                yield

        class Resumes(Module):
            def forward(self):
                for _ in range(24):
                    next(generator)

        generator = steps()
        one, two = Resumes(), Resumes()
        one.name, two.name = "one", "two"
        def first(): one()
        def second(): two()
        first(), second()
        print(json.dumps({"first": id(one), "second": id(two)}))
        """,
    )
    for name, address in seen.said.items():
        inside = [frames for frames in stacks(seen.process) if name in functions(frames) and "steps" in functions(frames)]
        assert len(inside) > 5 and all(layers(frames) == [address] for frames in inside)


def test_a_call_that_raised_is_over(python: str, tmp_path: Path) -> None:
    seen = run(
        python,
        tmp_path,
        """
        class Raises(Module):
            def forward(self):
                raise ValueError

        class Catches(Module):
            def forward(self):
                try:
                    self.raises()
                except ValueError:
                    spin(60)

        catches = Catches()
        catches.raises = Raises()
        catches()
        print(json.dumps(id(catches)))
        """,
    )
    inside = [frames for frames in stacks(seen.process) if "spin" in functions(frames)]
    assert len(inside) > 10 and all(layers(frames) == [seen.said] for frames in inside)


def test_an_object_of_another_class_at_an_address_is_another_layer(python: str, tmp_path: Path) -> None:
    seen = run(
        python,
        tmp_path,
        """
        class A(Module):
            def forward(self): spin()
        class B(A):
            pass
        module = A()
        module()
        module.__class__ = B
        module()
        print(json.dumps(id(module)))
        """,
    )
    rows = seen.process.table("layers").sort("id")
    assert rows["address"].to_list() == [seen.said] * 2
    assert rows["type"].to_list() == ["A", "B"]


def test_a_forgotten_module_gets_a_new_row(python: str, tmp_path: Path) -> None:
    seen = run(
        python,
        tmp_path,
        """
        class A(Module):
            def forward(self): spin()
        module = A()
        module()
        module()
        _aiflame.forget_layer(id(module))
        module()
        print(json.dumps(id(module)))
        """,
    )
    assert seen.process.table("layers")["address"].to_list() == [seen.said] * 2


def test_a_forked_child_has_layers_of_its_own(python: str, tmp_path: Path) -> None:
    seen = run(
        python,
        tmp_path,
        """
        import os
        class A(Module):
            def forward(self): spin()
        module = A()
        module()
        if os.fork() == 0:
            module()
            _aiflame.name_layer(id(module), id(module), "", "child")
            os._exit(0)
        os.wait()
        print(json.dumps(id(module)))
        """,
    )
    parent, child = seen.processes
    for process in (parent, child):
        assert process.table("layers")["address"].to_list() == [seen.said]
        assert any(layers(frames) == [seen.said] for frames in stacks(process))
    assert parent.table("layer_names").is_empty()
    assert child.table("layer_names")["type"].to_list() == ["child"]


TORCH = """
import json, sys, time
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(256, 256), nn.Linear(256, 256)
    def forward(self, x):
        return self.two(self.one(x))

model = nn.Sequential(Block(), Block())
called = {call}
x = torch.randn(512, 256)
called(x)
begin = time.process_time()
while time.process_time() - begin < 1.5:
    called(x)
print(json.dumps([[id(called)] if called is not model else []] + [
    [id(model), id(block), id(part)] for block in model for part in (block.one, block.two)]))
"""


def torch_program(folder: Path, call: str) -> tuple[list[list[int]], Process]:
    pytest.importorskip("torch", reason="torch is not installed")
    (folder / "program.py").write_text(TORCH.replace("{call}", call))
    outcome = recorded([sys.executable, "program.py"], folder / "profile")
    assert outcome.status == 0, outcome.stderr
    process = next(process for process in processes(folder / "profile") if process.command[-1] == "program.py")
    assert process.table("notes").is_empty()
    return json.loads(outcome.stdout), process


def test_torch_s_own_calls(tmp_path: Path) -> None:
    """Each sample in a Linear's forward is in one of the four, and the profile says in which: by its address, and by its name."""
    (_, *paths), process = torch_program(tmp_path, "model")
    inside = [layers(frames) for frames in stacks(process) if "Linear.forward" in [value for _, value in frames]]
    assert len(inside) > 10
    assert {tuple(seen) for seen in inside} == {tuple(path) for path in paths}
    rows = dict(process.table("layers").select("id", "address").iter_rows())
    names = {(rows[layer], path) for layer, path in process.table("layer_names").select("layer", "path").iter_rows()}
    assert {(paths[0][2], "0.one"), (paths[3][2], "1.two")} <= names


def test_a_compiled_module_s_call_is_its_wrapper_s(tmp_path: Path) -> None:
    """Inside it there are no calls of modules any more: Dynamo has made one function of them."""
    (outer, *_), process = torch_program(tmp_path, "torch.compile(model, backend='eager')")
    inside = [layers(frames) for frames in stacks(process) if "OptimizedModule.__call__" in [value for _, value in frames]]
    assert len(inside) > 10
    assert sum(seen == outer for seen in inside) > 0.8 * len(inside)

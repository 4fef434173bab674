"""Processes of a job: which ranks are in a collective operation, and which are elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from programs_to_dump import dumped, named, python, started

from aiflame.dump.described import Frame, _collective
from aiflame.dump.ranks import compared, job_of_process
from aiflame.dump.text import as_text

OPERATION = "import sys\ndef all_reduce():\n    sys.stdin.read()\n"
RANK = """
import os, sys
sys.path.insert(0, {folder!r})
from torch.distributed.distributed_c10d import all_reduce
def load():
    sys.stdin.read()
print("ready", flush=True)
load() if os.environ["RANK"] == "2" else all_reduce()
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Three ranks, of which one never comes to the operation, and another job."""
    module = tmp_path / "torch/distributed/distributed_c10d.py"
    module.parent.mkdir(parents=True)
    module.write_text(OPERATION)
    for folder in (module.parent, module.parent.parent):
        (folder / "__init__.py").touch()
    with ExitStack() as stack:
        pids = []
        for rank, run in (("0", "a"), ("1", "a"), ("2", "a"), ("0", "b")):
            monkeypatch.setenv("RANK", rank)
            monkeypatch.setenv("TORCHELASTIC_RUN_ID", f"{os.getpid()}{run}")
            pids.append(stack.enter_context(started(python(RANK.format(folder=str(tmp_path))))).pid)
        yield pids


def test_ranks_that_have_not_come_are_named(job: list[int]) -> None:
    assert job_of_process(job[1]) == job[:3]
    processes = [dumped(pid, lambda process: process.threads[0].wait.kind == "file") for pid in job[:3]]
    assert compared(processes) == [
        "ranks 0, 1 are in the collective operation all_reduce",
        "rank 2 is elsewhere: MainThread waits for data from a pipe (file 0) (read), in load() at <string>:6",
    ]
    assert compared(processes[:1]) == []
    assert compared(processes[2:] * 2) == ["no process is in a collective operation"]


def test_a_process_of_no_job_is_alone() -> None:
    with started([*python("print('ready', flush=True); input()")]) as program:
        alone = {name: value for name, value in os.environ.items() if "RANK" not in name and "SLURM" not in name}
        assert alone == dict(os.environ)
        assert job_of_process(program.pid) == [program.pid]


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        ("c10d::ProcessGroupNCCL::allreduce", "allreduce (NCCL)"),
        ("gloo::allgather", "allgather (gloo)"),
        ("ncclAllReduce", "AllReduce (nccl)"),
        ("MPI_Barrier", "Barrier (MPI)"),
        ("c10d::ProcessGroupGloo::runLoop", ""),
        ("MPI_Init", ""),
    ],
)
def test_native_functions_of_collective_operations(function: str, operation: str) -> None:
    assert _collective([Frame(function, "libtorch_cpu.so", 0, False)]) == operation


def test_hostile_names_of_threads_and_functions_do_not_reach_the_terminal() -> None:
    text = """
import threading
space = {}
exec(compile("def _f(gate): gate()", "\\x1b]0;title\\x07.py", "exec"), space)
thread = threading.Thread(target=space["_f"], args=(threading.Event().wait,), name="\\x1b[31mred\\n\\u202e", daemon=True)
thread.start()
print("ready", flush=True)
input()
"""
    with started(python(text)) as program:
        process = dumped(program.pid, lambda process: any(thread.wait.kind == "condition" for thread in process.threads))
        assert named(process, "\x1b[31mred\n\u202e").frames
        written = subprocess.run(
            [sys.executable, "-m", "aiflame", "dump", str(program.pid)], capture_output=True, check=True
        ).stdout.decode()
    assert "?[31mred??" in written
    assert "?]0;title?.py" in written
    assert not set("\x1b\x07\u202e") & set(written)
    assert any("\x1b" in line for line in as_text([process], native=False))

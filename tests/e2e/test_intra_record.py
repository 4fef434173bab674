"""`aiflame record --intra`, from the command line to the captures: a real Triton, drivers that are fakes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from recording import PROGRAMS, Recorder

from aiflame.intra import captures
from aiflame.profile.folder.door import Folder

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton")
PROGRAM = PROGRAMS / "intra_without_device.py"


def test_some_launches_use_the_instrumented_twin_and_its_records_are_kept(record: Recorder, tmp_path: Path) -> None:
    run = record(sys.executable, PROGRAM, options=("--intra", "loads,regions:^add$"), env={"TRITON_CACHE_DIR": str(tmp_path)})
    assert run.status == 0, run.stderr
    assert run.stdout.split() == ["twin", "twin", "plain", "twin", "plain"]
    folder = Folder.open(run.path).folder(captures.FOLDER)
    (pid,) = captures.pids(folder)
    recorded = captures.read(folder, pid)
    (kernel,) = recorded.kernels.values()
    assert kernel.name == "add" and [scope.name for scope in kernel.scopes] == ["kernel", "issue load x", "wait load x"]
    assert [launch.number for launch in recorded.launches] == [1, 2, 4]


def test_kernels_that_cannot_be_timed_are_noted(record: Recorder, tmp_path: Path) -> None:
    run = record(sys.executable, PROGRAM, options=("--intra", "mma"), env={"TRITON_CACHE_DIR": str(tmp_path)})
    assert run.status == 0 and run.stdout.split() == ["plain"] * 5
    assert [note for note in run.profile().store.notes() if "add stays as it is: the passes found nothing to time" in note]


def test_without_the_option_kernels_are_unchanged(record: Recorder, tmp_path: Path) -> None:
    run = record(sys.executable, PROGRAM, env={"TRITON_CACHE_DIR": str(tmp_path)})
    assert run.status == 0 and run.stdout.split() == ["plain"] * 5


def test_another_triton_is_refused_in_one_line_and_the_program_runs(record: Recorder, tmp_path: Path) -> None:
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text('__version__ = "3.5.1"\nfrom triton import compiler\n')
    (tmp_path / "triton" / "compiler.py").write_text("class CompiledKernel: ...\n")
    run = record(sys.executable, "-c", "import triton; print('ran')", options=("--intra", "auto"), env={"PYTHONPATH": str(tmp_path)})
    assert (run.status, run.stdout) == (0, "ran\n")
    notes = [note for note in run.profile().store.notes() if note.startswith("inside kernels")]
    assert notes == ["inside kernels: nothing is recorded: Triton 3.5.1 is not supported: use 3.6 to 3.9"]

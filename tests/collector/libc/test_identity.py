"""A process that becomes another user, or gets another root folder, is recorded on, and so are those that it starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import EVERYTHING, Process, library, plain, processes, recorded

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from built import built

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user or change its root folder")

NOT_REACHED = (
    "programs were started as another user or below another root folder, where they cannot reach the profile: they were not recorded"
)


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # for the user that it becomes
        yield Path(shutil.copy(built("programs/identity_scenes"), folder))


@pytest.fixture
def root(tmp_path: Path, program: Path) -> Path:
    """A root folder in which the program runs: with the libraries that it and the collector need, and nothing else."""
    folder = tmp_path / "root"
    listed = subprocess.run(["ldd", program, library()], capture_output=True, text=True, check=True).stdout
    for needed in [word for word in listed.split() if word.startswith("/") and not word.endswith(":")]:
        (folder / needed[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(needed, folder / needed[1:])
    shutil.copy(program, folder / "program")
    return folder


def cpu_seconds(process: Process) -> float:
    return float(process.table("cpu_samples")["weight"].sum()) / 999


@pytest.mark.parametrize("changes", ["u", "e", "r", "R", "n", "ru", "rc", "uc", "nruc"])
def test_the_process_itself_is_recorded_to_its_end(program: Path, root: Path, tmp_path: Path, changes: str) -> None:
    outcome = recorded([program, changes], tmp_path / "p")
    assert outcome == plain([program, changes], tmp_path)
    assert outcome.status == 0, outcome.stderr
    (process,) = processes(tmp_path / "p")
    assert len(process.table("process_ends")) == 1
    assert cpu_seconds(process) == pytest.approx(0.6 if "e" in changes else 0.4, abs=0.1)


@pytest.mark.parametrize("changes", ["uf", "rf", "nruf"])
def test_children_by_fork_are_recorded(program: Path, root: Path, tmp_path: Path, changes: str) -> None:
    outcome = recorded([program, changes], tmp_path / "p")
    assert outcome == plain([program, changes], tmp_path)
    assert outcome.status == 0, outcome.stderr
    _, child = processes(tmp_path / "p")
    assert len(child.table("process_ends")) == 1
    assert cpu_seconds(child) == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize("changes", ["ux", "nprx", "nprux", "nprufx"])
def test_programs_that_it_starts_are_recorded(program: Path, root: Path, tmp_path: Path, changes: str) -> None:
    start = "/program" if "r" in changes else str(program)
    outcome = recorded([program, changes, start, "f"], tmp_path / "p")
    assert outcome == plain([program, changes, start, "f"], tmp_path)
    assert (outcome.status, outcome.stderr) == (0, "")
    *_, last, child = processes(tmp_path / "p")
    assert last.command == child.command == [start, "f"]
    assert cpu_seconds(child) == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize("changes", ["rx", "ucx"])
def test_programs_that_cannot_be_recorded_are_noted(program: Path, root: Path, tmp_path: Path, changes: str) -> None:
    start = "/program" if "r" in changes else str(program)
    outcome = recorded([program, changes, start, ""], tmp_path / "p")
    assert outcome == plain([program, changes, start, ""], tmp_path)
    assert (outcome.status, outcome.stderr) == (0, "")
    (process,) = processes(tmp_path / "p")
    assert NOT_REACHED in process.table("notes")["text"].to_list()


def test_a_program_that_changes_nothing_has_no_descriptor_of_ours(program: Path, tmp_path: Path) -> None:
    listing = ["/bin/ls", "/proc/self/fd"]
    assert recorded([program, "x", *listing], tmp_path / "p").stdout == plain([program, "x", *listing], tmp_path).stdout


@pytest.mark.parametrize("changes", ["nx", "nfx"])
def test_a_program_that_records_another_is_no_part_of_that_recording(program: Path, root: Path, tmp_path: Path, changes: str) -> None:
    """Descriptors of the profile that it is recorded into are inherited, but the environment names another profile."""
    inner = tmp_path / "inner"
    (inner / "spool").mkdir(parents=True)
    started = ["/usr/bin/env", f"AIFLAME_PROFILE={inner}", str(program), "f"]
    with ControlPage.create(Folder.open(inner), cpu_rate=999, features=EVERYTHING):
        outcome = recorded([program, changes, *started], tmp_path / "p")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert [process.command for process in processes(inner)] == [[str(program), "f"]] * 2
    assert all(process.command[0] != str(program) or process.command[1] != "f" for process in processes(tmp_path / "p"))
    assert cpu_seconds(processes(inner)[1]) == pytest.approx(0.3, abs=0.1)

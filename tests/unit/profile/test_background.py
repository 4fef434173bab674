"""Notes that an earlier process leaves when it could not seal a profile."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from spool_files import busy_process, ended_profile

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.opening import open_profile
from aiflame.profile.sealing.background import leave_failure, take_failures


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return ended_profile(tmp_path / "a.aiflame", busy_process())


def test_nothing_is_said_of_a_profile_that_nobody_tried_to_seal(path: Path) -> None:
    assert take_failures(Folder.open(path)) == []


def test_a_failure_is_reported_once(path: Path) -> None:
    leave_failure(Folder.open(path), AiflameError("no space \x1b[2J left"))
    assert take_failures(Folder.open(path)) == [f"sealing {path} in the background failed (no space ?[2J left): it is done again now"]
    assert take_failures(Folder.open(path)) == []


def test_a_process_that_was_killed_while_it_sealed_is_reported(path: Path) -> None:
    (path / "seal.lock").write_text("0.4300")
    (line,) = take_failures(Folder.open(path))
    assert line.startswith(f"sealing {path} was broken off at 43%")
    open_profile(path)
    assert take_failures(Folder.open(path)) == []


def test_one_that_is_still_at_it_is_not(path: Path) -> None:
    (path / "seal.lock").write_text("0.4300")
    with (path / "seal.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert take_failures(Folder.open(path)) == []


def test_a_profile_that_is_gone_stays_gone(path: Path) -> None:
    folder = Folder.open(path)
    for below in sorted(path.rglob("*"), reverse=True):
        below.rmdir() if below.is_dir() else below.unlink()
    leave_failure(folder, AiflameError("no space left"))
    assert list(path.iterdir()) == []


@pytest.mark.parametrize("left", [b"", b"\xff" * 5000, b"a\nb"])
def test_whatever_a_stranger_leaves_is_one_short_line(path: Path, left: bytes) -> None:
    (path / "seal.failed").write_bytes(left)
    try:
        lines = take_failures(Folder.open(path))
    except AiflameError:
        return
    assert all("\n" not in line and len(line) < 3000 for line in lines)

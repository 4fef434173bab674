"""Findings about waits speak of the steady steps, where there are some, and of the whole run where a person asks for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from recording import PYTHON, Run, recorder
from torch_programs import needs_torch

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.listing import listing
from aiflame.api import Profile

pytestmark = needs_torch
PROGRAM = Path(__file__).parent / "programs/waits_around_steps.py"


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Profile]:
    """By where the program sleeps; both ways are recorded at the same time."""

    def record(where: str, folder: Path) -> Run:
        return recorder(folder)(PYTHON, PROGRAM, where, options=("--wall", "99"))

    with ThreadPoolExecutor() as pool:
        folders = [tmp_path_factory.mktemp(where) for where in ("before", "inside")]
        before, inside = pool.map(record, ("before", "inside"), folders)
    assert (before.status, inside.status) == (0, 0), before.stderr + inside.stderr
    return {"before": before.profile(), "inside": inside.profile()}


def sleep_of(profile: Profile, *, whole_run: bool) -> Finding | None:
    listed = listing(profile.store, 99, whole_run=whole_run)
    assert listed.summary.scope.whole_run == whole_run
    return next((one.finding for one in listed.findings if one.finding.kind == "waiting-sleep"), None)


def is_at(finding: Finding | None, mark: str) -> bool:
    if finding is None:
        return False
    line = int(finding.view.place.rpartition(":")[2])
    return PROGRAM.read_text().splitlines()[line - 1].endswith(f"# {mark}")


def test_a_wait_before_the_steps_is_none_of_theirs(profiles: dict[str, Profile]) -> None:
    profile = profiles["before"]
    assert sleep_of(profile, whole_run=False) is None
    assert is_at(sleep_of(profile, whole_run=True), "before")


def test_a_wait_in_the_steps_is_a_share_of_their_time(profiles: dict[str, Profile]) -> None:
    """Two thirds of each step where nothing else wants the CPU; less of the run, which has a start."""
    profile = profiles["inside"]
    steady, whole = (sleep_of(profile, whole_run=whole_run) for whole_run in (False, True))
    assert is_at(steady, "inside")
    assert steady is not None
    assert whole is None or whole.share < steady.share

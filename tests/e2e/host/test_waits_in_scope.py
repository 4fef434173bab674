"""Findings about waits speak of the steady steps, where there are some, and of the whole run where a person asks for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from recording import PYTHON, recorder
from torch_programs import needs_torch

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.listing import listing
from aiflame.api import Profile

pytestmark = [pytest.mark.timed, needs_torch]
Recorded = Callable[[str], Profile]
PROGRAM = Path(__file__).parent / "programs/waits_around_steps.py"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    @cache
    def record(where: str) -> Profile:
        run = recorder(tmp_path_factory.mktemp(where))(PYTHON, PROGRAM, where, options=("--wall", "99"))
        assert run.status == 0, run.stderr
        return run.profile()

    return record


def sleep_of(profile: Profile, *, whole_run: bool) -> Finding | None:
    listed = listing(profile.store, 99, whole_run=whole_run)
    assert listed.summary.scope.whole_run == whole_run
    return next((one.finding for one in listed.findings if one.finding.kind == "waiting-sleep"), None)


def is_at(finding: Finding | None, mark: str) -> bool:
    if finding is None:
        return False
    line = int(finding.view.place.rpartition(":")[2])
    return PROGRAM.read_text().splitlines()[line - 1].endswith(f"# {mark}")


def test_a_wait_before_the_steps_is_none_of_theirs(recorded: Recorded) -> None:
    profile = recorded("before")
    assert sleep_of(profile, whole_run=False) is None
    assert is_at(sleep_of(profile, whole_run=True), "before")


def test_a_wait_in_the_steps_is_a_share_of_their_time(recorded: Recorded) -> None:
    """Two thirds of each step, by the program's own clock where nothing else wants the CPU; less of the run, which has a start."""
    profile = recorded("inside")
    steady, whole = (sleep_of(profile, whole_run=whole_run) for whole_run in (False, True))
    assert is_at(steady, "inside")
    assert steady is not None
    assert whole is None or whole.share < steady.share

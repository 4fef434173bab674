"""An event loop that computes is named with its coroutine and its share. One that has time for everybody is silent."""

from __future__ import annotations

from pathlib import Path

import pytest
from recording import PYTHON, Recorder, all_findings

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.loops import LEAST_SHARE

PROGRAM = Path(__file__).parent / "programs/planted_loops.py"
COMPUTES = 2.0
"""Seconds of CPU time: a machine of 100 ticks a second takes 200 samples of it."""
SELDOM = 0.5
"""Of a program that hardly does: 6 s on the clock."""
NEAR_MISSES = ("computing_in_pieces", "computing_seldom", "computing_alone", "computing_in_a_thread")


def loops(record: Recorder, function: str, *options: str) -> tuple[float, list[Finding]]:
    """The share by the program's own account, and the findings."""
    run = record(PYTHON, PROGRAM, function, SELDOM if function == "computing_seldom" else COMPUTES, options=options)
    assert run.status == 0, run.stderr
    listed = all_findings(run.profile())
    return float(run.stdout), listed


def too_little(share: float, listed: list[Finding]) -> bool:
    """True if other programs have the CPUs: by its own account, the loop computes for so small a part of the time that it is not named."""
    return share < LEAST_SHARE + 0.03 and "loop-computes" not in {one.kind for one in listed}


@pytest.mark.parametrize("options", [(), ("--wall", "99"), ("--no-waits",)], ids=["looks", "wall", "neither"])
def test_a_loop_that_computes_is_named(record: Recorder, options: tuple[str, ...]) -> None:
    share, listed = loops(record, "computing", *options)
    if too_little(share, listed):
        return
    at, finding = next((at, one) for at, one in enumerate(listed) if one.kind == "loop-computes")
    assert at < 3
    assert finding.share == pytest.approx(share, abs=0.15)
    assert "answers() computes on its thread, most in digests() (planted_loops.py:" in finding.sentence
    file, _, line = finding.view.place.rpartition(":")
    assert PROGRAM.read_text().splitlines()[int(line) - 1].endswith("# planted") and file == str(PROGRAM)


def test_events_wait_as_other_coroutines_do(record: Recorder) -> None:
    share, listed = loops(record, "computing_beside_a_server")
    assert too_little(share, listed) or "loop-computes" in {one.kind for one in listed}


@pytest.mark.parametrize("function", NEAR_MISSES)
def test_a_near_miss_is_not_named(record: Recorder, function: str) -> None:
    assert "loop-computes" not in {one.kind for one in loops(record, function)[1]}

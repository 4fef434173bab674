"""Time stamps of OpenCL devices on CLOCK_MONOTONIC, for any clock of the device."""

from __future__ import annotations

import statistics
import subprocess

import pytest

from built import BUILT

PROGRAM = BUILT / "opencl_clock"

pytestmark = [
    pytest.mark.timed,
    pytest.mark.skipif(not PROGRAM.exists(), reason="opencl_clock is not built: run `make test`, or set AIFLAME_TEST_PROGRAMS"),
]


def commands(kind: str) -> list[tuple[int, int]]:
    """For each command, the error of its time, and how long enqueueing took."""
    lines = subprocess.run([PROGRAM, kind], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 1000
    return [(abs(int(off)), int(took)) for off, took in map(str.split, lines)]


@pytest.mark.parametrize("kind", ["raw", "timer"])
def test_a_clock_that_can_be_read_is_right_from_the_first_command_on(kind: str) -> None:
    """Within the drift of 200 millionths in 0.1 s. The median, since a read may be interrupted."""
    offsets = commands(kind)
    assert statistics.median(off for off, _ in offsets) < 25_000
    off, took = offsets[0]
    assert off < took / 10, "though it was enqueued at some moment of a long call"


@pytest.mark.parametrize("kind", ["own", "wrong timer"])
def test_any_other_clock_is_followed_within_the_time_that_enqueueing_takes(kind: str) -> None:
    assert all(off <= took for off, took in commands(kind))

"""How often a GPU is sampled: the plan's choice of a period, and its intervals under loads that we make up."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

PROGRAMS = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", Path(__file__).parents[2] / "build/dev/tests/collector"))
PROGRAM = PROGRAMS / "cuda_sampling_plan"

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="cuda_sampling_plan is not built: run `make test`, or set AIFLAME_TEST_PROGRAMS"
)

AUTO = 1
BUDGET = 50_000
"""samples a second"""
FINEST, COARSEST = 5, 31

BUSY, IDLE, LIGHT = "1000:1000", "1000:0", "1000:30"


@dataclass(frozen=True, slots=True)
class Gpu:
    multiprocessors: int
    clock_khz: int
    warps: int = 1
    """that a multiprocessor gives in each period"""

    def rate(self, period: int) -> float:
        """samples a second when it is busy everywhere"""
        return self.multiprocessors * self.clock_khz * 1000 / (1 << period)


H100 = Gpu(132, 1_980_000)
GPUS = [H100, Gpu(132, 1_980_000, warps=4), Gpu(108, 1_410_000), Gpu(28, 1_777_000), Gpu(1, 1_000), Gpu(1000, 4_000_000, warps=4)]


@dataclass(frozen=True, slots=True)
class Fetch:
    ms: float
    samples: int
    fill: int
    """thousandths of the buffer; 1000: it overflowed"""
    interval_ms: float


@dataclass(frozen=True, slots=True)
class Run:
    period: int
    buffer_bytes: int
    fetches: list[Fetch]


def run(gpu: Gpu, *phases: str, seconds: int = 60, setting: int = AUTO) -> Run:
    words = (gpu.multiprocessors, gpu.clock_khz, setting, gpu.warps, seconds, *phases)
    first, *lines = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=True).stdout.splitlines()
    period, buffer_bytes = first.split()
    fields = (line.split() for line in lines)
    return Run(int(period), int(buffer_bytes), [Fetch(float(ms), int(got), int(fill), float(wait)) for ms, got, fill, wait in fields])


def test_an_h100_is_sampled_every_2_to_the_23_cycles() -> None:
    assert run(H100, BUSY, seconds=0).period == 23


@given(gpu=st.builds(Gpu, st.integers(1, 5000), st.integers(1, 10_000_000)))
def test_the_period_is_the_finest_that_keeps_the_budget_on_a_busy_device(gpu: Gpu) -> None:
    period = run(gpu, IDLE, seconds=0).period
    assert FINEST <= period <= COARSEST
    assert gpu.rate(period) <= BUDGET
    assert period == FINEST or gpu.rate(period - 1) > BUDGET


@pytest.mark.parametrize("unknown", [Gpu(0, 0), Gpu(0, 1_980_000), Gpu(132, 0)], ids=str)
def test_a_device_that_says_nothing_of_itself_is_sampled_as_a_large_one(unknown: Gpu) -> None:
    assert Gpu(200, 2_200_000).rate(run(unknown, IDLE, seconds=0).period) <= BUDGET


@pytest.mark.parametrize("gpu", GPUS, ids=str)
@pytest.mark.parametrize(("setting", "period"), [(5, 5), (10, 10), (31, 31), (32, 31)])
def test_a_period_that_was_asked_for_is_used(gpu: Gpu, setting: int, period: int) -> None:
    assert run(gpu, BUSY, seconds=0, setting=setting).period == period


@pytest.mark.parametrize("gpu", GPUS, ids=str)
@pytest.mark.parametrize(
    "phases",
    [(BUSY,), (IDLE,), (LIGHT,), ("20:1000", "130:0"), ("10000:1000", "10000:30"), ("60000:0", "60000:1000")],
    ids=["busy", "idle", "light", "bursts", "phases of 10 s", "long idle, then busy"],
)
def test_whatever_comes_the_buffer_never_fills(gpu: Gpu, phases: tuple[str, ...]) -> None:
    told = run(gpu, *phases, seconds=300)
    assert max(fetch.fill for fetch in told.fetches) < 1000


@pytest.mark.parametrize("gpu", GPUS, ids=str)
def test_the_program_can_spare_the_buffer(gpu: Gpu) -> None:
    assert run(gpu, IDLE, seconds=0).buffer_bytes <= 64 << 20
    assert all(run(gpu, IDLE, seconds=0, setting=setting).buffer_bytes <= 512 << 20 for setting in (5, 12, 20, 31))


def test_windows_are_short_while_there_is_something_to_divide_and_long_when_idle() -> None:
    told = run(H100, "10000:1000", "10000:0", seconds=40)
    busy = [fetch.interval_ms for fetch in told.fetches if 1_000 < fetch.ms < 10_000 or 21_000 < fetch.ms < 30_000]
    idle = [fetch.interval_ms for fetch in told.fetches if 12_000 < fetch.ms < 19_000]
    assert busy
    assert idle
    assert all(100 <= interval <= 250 for interval in busy)
    assert all(interval == 500 for interval in idle)


def test_more_instructions_than_fit_make_windows_shorter() -> None:
    """With a fixed period of 2^19, a busy H100 gives 75,000 samples in 150 ms; our memory takes 16,384 instructions."""
    told = run(H100, BUSY, setting=19)
    assert {fetch.interval_ms for fetch in told.fetches[2:]} == {50}


def test_windows_are_as_short_as_can_be_where_a_fixed_period_overflows_the_buffer() -> None:
    told = run(H100, BUSY, setting=FINEST)
    assert max(fetch.fill for fetch in told.fetches) == 1000, "or it shows nothing"
    assert {fetch.interval_ms for fetch in told.fetches[2:]} == {50}

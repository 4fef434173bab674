"""How often a GPU is sampled: the plan's choices under loads that we make up. The device is given by what it would really yield."""

from __future__ import annotations

import itertools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", Path(__file__).parents[2] / "build/dev/tests/collector"))
PROGRAM = PROGRAMS / "cuda_sampling_plan"

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="cuda_sampling_plan is not built: run `make test`, or set AIFLAME_TEST_PROGRAMS"
)

AUTO = 1
BUDGET = 25_000
"""samples a second"""

BUSY, IDLE, LIGHT = "1000:1000", "1000:0", "1000:30"


@dataclass(frozen=True, slots=True)
class Gpu:
    multiprocessors: int
    clock_khz: int
    warps: int = 1
    """looked at by a multiprocessor in each period: the documentation leaves open whether each of its four schedulers is"""


H100 = Gpu(132, 1_980_000)
GPUS = [H100, Gpu(132, 1_980_000, warps=4), Gpu(108, 1_410_000), Gpu(28, 1_777_000), Gpu(1, 1_000), Gpu(1000, 4_000_000, warps=4)]


@dataclass(frozen=True, slots=True)
class Fetch:
    ms: float
    period: int
    samples: int
    fill: int
    """thousandths of the buffer; 1000: it overflowed"""
    interval_ms: float
    anew: bool


@dataclass(frozen=True, slots=True)
class Run:
    buffer_bytes: int
    fetches: list[Fetch]

    @property
    def changes(self) -> int:
        return sum(fetch.anew for fetch in self.fetches)

    def rate(self, from_s: float, to_s: float) -> float:
        """samples a second between two moments"""
        return sum(fetch.samples for fetch in self.fetches if from_s * 1000 < fetch.ms <= to_s * 1000) / (to_s - from_s)


def run(gpu: Gpu, *phases: str, seconds: int = 60, setting: int = AUTO, buffer_percent: int = 100) -> Run:
    words = (gpu.multiprocessors, gpu.clock_khz, setting, gpu.warps, buffer_percent, seconds, *phases)
    first, *lines = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=True).stdout.splitlines()
    fields = (line.split() for line in lines)
    fetches = [
        Fetch(float(ms), int(period), int(samples), int(fill), float(interval), anew == "1")
        for ms, period, samples, fill, interval, anew in fields
    ]
    return Run(int(first), fetches)


@pytest.mark.parametrize("gpu", [gpu for gpu in GPUS if gpu.multiprocessors > 1], ids=str)
def test_a_busy_device_settles_near_the_budget_after_a_change_or_two(gpu: Gpu) -> None:
    busy = run(gpu, BUSY, seconds=600)
    assert BUDGET / 4 <= busy.rate(20, 600) <= 2 * BUDGET
    assert busy.changes <= 2


def test_a_device_too_small_for_the_budget_is_sampled_as_finely_as_may_be() -> None:
    assert {fetch.period for fetch in run(Gpu(1, 1_000), BUSY).fetches} <= set(range(5, 16))


@pytest.mark.parametrize("gpu", GPUS, ids=str)
@pytest.mark.parametrize(
    "phases",
    [
        (BUSY,),
        (IDLE,),
        (LIGHT,),
        ("20:1000", "130:0"),
        ("10000:1000", "10000:30"),
        ("60000:1000", "60000:30"),
        ("600000:0", "600000:1000"),
        ("300000:2", "300000:1000"),
    ],
    ids=["busy", "idle", "light", "bursts", "phases of 10 s", "phases of a minute", "long idle", "long and light, then busy"],
)
def test_whatever_comes_the_buffer_never_fills_the_period_is_valid_and_changes_are_rare(gpu: Gpu, phases: tuple[str, ...]) -> None:
    told = run(gpu, *phases, seconds=3600)
    assert max(fetch.fill for fetch in told.fetches) < 1000
    assert all(5 <= fetch.period <= 31 for fetch in told.fetches)
    assert told.changes <= 10


def test_a_short_program_gets_more_samples_a_second_than_a_long_one() -> None:
    short = run(H100, BUSY, seconds=4)
    assert short.changes == 0
    assert short.rate(0, 4) > 1.5 * run(H100, BUSY, seconds=600).rate(20, 600)


def test_a_program_that_uses_little_of_the_device_is_sampled_more_finely_than_a_busy_one() -> None:
    light, busy = (run(H100, phase, seconds=300).fetches[-1].period for phase in (LIGHT, BUSY))
    assert light < busy


def test_a_long_light_stretch_after_a_busy_one_is_sampled_more_finely_again() -> None:
    told = run(H100, "60000:1000", "600000:30", seconds=660)
    while_busy = max(fetch.period for fetch in told.fetches if fetch.ms < 60_000)
    assert told.fetches[-1].period < while_busy


def test_load_that_comes_and_goes_convinces_it_less_and_less() -> None:
    """Ten minutes each: long enough to be believed at first."""
    hours = run(H100, "600000:1000", "600000:30", seconds=8 * 3600)
    first = sum(fetch.anew for fetch in hours.fetches if fetch.ms <= 2 * 3_600_000)
    assert hours.changes <= first + 2


def test_windows_are_short_while_there_is_something_to_divide_and_long_when_idle() -> None:
    told = run(H100, "10000:1000", "10000:0", seconds=40)
    busy = [fetch.interval_ms for fetch in told.fetches if 1_000 < fetch.ms < 10_000 or 21_000 < fetch.ms < 30_000]
    idle = [fetch.interval_ms for fetch in told.fetches if 12_000 < fetch.ms < 19_000]
    assert all(100 <= interval <= 250 for interval in busy)
    assert all(interval == 500 for interval in idle)


def test_more_instructions_than_fit_make_windows_shorter() -> None:
    """With a fixed period of 2^19, a busy H100 gives 75,000 samples in 150 ms; our memory takes 16,384 instructions."""
    told = run(H100, BUSY, setting=19)
    assert {fetch.interval_ms for fetch in told.fetches[2:]} == {50}


@pytest.mark.parametrize("setting", [5, 10, 20, 31])
def test_a_fixed_period_is_kept_whatever_comes(setting: int) -> None:
    told = run(H100, "5000:1000", "5000:0", "5000:10", setting=setting)
    assert {fetch.period for fetch in told.fetches} == {setting}


def test_a_fixed_period_that_overflows_its_buffer_is_started_anew_every_two_seconds_at_most() -> None:
    told = run(H100, BUSY, setting=5)
    assert max(fetch.fill for fetch in told.fetches) == 1000, "or it shows nothing"
    anew = [fetch.ms for fetch in told.fetches if fetch.anew]
    assert anew
    assert all(later - earlier >= 2000 for earlier, later in itertools.pairwise(anew))


def test_a_buffer_that_overflows_all_the_same_makes_the_period_coarser_until_it_does_not() -> None:
    """As if records were a hundred times larger than we think."""
    told = run(H100, BUSY, buffer_percent=1)
    assert max(fetch.fill for fetch in told.fetches) == 1000, "or it shows nothing"
    assert all(fetch.fill < 1000 for fetch in told.fetches if fetch.ms > 5_000)
    assert told.fetches[-1].period <= 26, "and no coarser than that takes"


def test_samples_that_the_device_drops_make_the_period_coarser() -> None:
    dropping, whole = (run(H100, phase, seconds=10).fetches[-1].period for phase in ("1000:1000:500", "1000:1000:0"))
    assert dropping > whole


@pytest.mark.parametrize("gpu", GPUS, ids=str)
def test_the_program_can_spare_the_buffer(gpu: Gpu) -> None:
    assert run(gpu, IDLE, seconds=1).buffer_bytes <= 64 << 20
    assert all(run(gpu, IDLE, seconds=1, setting=setting).buffer_bytes <= 512 << 20 for setting in (5, 12, 20, 31))


def test_short_light_stretches_are_not_believed() -> None:
    assert run(H100, "10000:1000", "10000:30", seconds=600).changes == 1, "the one from the head start to the budget"


def test_a_device_that_gives_more_than_expected_is_remembered() -> None:
    """Light for ten minutes, then busy at once: no more than eight times the budget even then."""
    told = run(Gpu(132, 1_980_000, warps=4), "60000:1000", "600000:10", seconds=662)
    at_once = max(fetch.samples for fetch in told.fetches if fetch.ms > 660_000)
    assert 0.15 * BUDGET < at_once <= 0.15 * 8 * BUDGET, "of one fetch, which is 0.15 s long"

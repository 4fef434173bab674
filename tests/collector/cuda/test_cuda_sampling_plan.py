"""How often a GPU is sampled and looked at: the plan's choice of a period, and its windows under loads that we make up."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from built import BUILT

PROGRAM = BUILT / "cuda_sampling_plan"

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
class Look:
    ms: float
    samples: int
    fill: int
    """thousandths of the buffer; 1000: it overflowed"""
    first: float
    last: float
    """when its samples were taken"""
    begin: float
    end: float
    """their window"""


@dataclass(frozen=True, slots=True)
class Run:
    period: int
    buffer_bytes: int
    decode_ms: int
    looks: list[Look]

    def windows(self) -> list[Look]:
        return [look for look in self.looks if look.samples]


def run(gpu: Gpu, *phases: str, seconds: int = 60, setting: int = AUTO) -> Run:
    words = (gpu.multiprocessors, gpu.clock_khz, setting, gpu.warps, seconds, *phases)
    first, *lines = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=True).stdout.splitlines()
    fields = (line.split() for line in lines)
    period, buffer_bytes, decode_ms = map(int, first.split())
    return Run(
        period, buffer_bytes, decode_ms, [Look(float(ms), int(got), int(fill), *map(float, times)) for ms, got, fill, *times in fields]
    )


def test_an_h100_is_sampled_every_2_to_the_23_cycles() -> None:
    assert run(H100, BUSY, seconds=0).period == 23


@given(gpu=st.builds(Gpu, st.integers(1, 5000), st.integers(1, 10_000_000)))
def test_the_period_is_the_finest_that_keeps_the_budget_on_a_busy_device(gpu: Gpu) -> None:
    period = run(gpu, IDLE, seconds=0).period
    assert FINEST <= period <= COARSEST
    assert gpu.rate(period) <= BUDGET
    assert period == FINEST or gpu.rate(period - 1) > BUDGET


@pytest.mark.parametrize("unknown", [Gpu(0, 0), Gpu(0, 1_980_000), Gpu(132, 0)], ids=str)
def test_an_unknown_device_is_sampled_like_a_large_one(unknown: Gpu) -> None:
    assert Gpu(200, 2_200_000).rate(run(unknown, IDLE, seconds=0).period) <= BUDGET


@pytest.mark.parametrize("gpu", GPUS, ids=str)
@pytest.mark.parametrize(("setting", "period"), [(5, 5), (10, 10), (31, 31), (32, 31)])
def test_a_period_that_was_asked_for_is_used(gpu: Gpu, setting: int, period: int) -> None:
    assert run(gpu, BUSY, seconds=0, setting=setting).period == period


LOADS = {
    "busy": (BUSY,),
    "idle": (IDLE,),
    "light": (LIGHT,),
    "bursts": ("20:1000", "130:0"),
    "seldom bursts": ("20:1000", "3333:0"),
    "phases of 10 s": ("10000:1000", "10000:30"),
    "long idle, then busy": ("60000:0", "60000:1000"),
}
loads = pytest.mark.parametrize("phases", LOADS.values(), ids=list(LOADS))


@pytest.mark.parametrize("gpu", GPUS, ids=str)
@loads
def test_the_buffer_never_fills_under_any_load(gpu: Gpu, phases: tuple[str, ...]) -> None:
    plan = run(gpu, *phases, seconds=300)
    assert plan.looks
    assert max(look.fill for look in plan.looks) < 1000


@pytest.mark.parametrize("gpu", GPUS, ids=str)
@pytest.mark.parametrize("setting", [AUTO, 12, 20])
@loads
def test_each_sample_was_taken_in_its_window(gpu: Gpu, phases: tuple[str, ...], setting: int) -> None:
    plan = run(gpu, *phases, seconds=150, setting=setting)
    assert plan.windows() or phases == (IDLE,) or gpu.multiprocessors == 1
    assert all(look.begin <= look.first and look.last <= look.end for look in plan.windows())


@pytest.mark.parametrize("gpu", GPUS, ids=str)
def test_the_program_can_spare_the_buffer(gpu: Gpu) -> None:
    assert run(gpu, IDLE, seconds=0).buffer_bytes <= 64 << 20
    assert all(run(gpu, IDLE, seconds=0, setting=setting).buffer_bytes <= 512 << 20 for setting in (5, 12, 20, 31))


def test_windows_are_little_longer_than_a_decoded_part() -> None:
    plan = run(H100, BUSY)
    assert plan.decode_ms == 200
    lengths = [look.end - look.begin for look in plan.windows()]
    assert len(lengths) >= 60_000 / 202 - 2, "a window for each decoding"
    assert all(200 <= length <= 275 for length in lengths)


def test_looks_are_rare_while_the_device_is_idle() -> None:
    """Twice or three times for each decoding while the device is busy; twice a second when it is idle."""
    plan = run(H100, "10000:1000", "10000:0", seconds=40)
    busy = [look for look in plan.looks if 1_000 < look.ms < 10_000]
    idle = [look for look in plan.looks if 15_000 < look.ms < 20_000]
    assert len(busy) <= 3 * 9_000 / 200
    assert 8 <= len(idle) <= 11
    again = next(look for look in plan.windows() if look.ms > 20_000)
    assert again.ms < 20_750
    assert again.end - again.begin <= 800


def test_a_period_so_fine_that_the_buffer_would_fill_is_decoded_more_often() -> None:
    coarse, fine, finest = (run(H100, BUSY, setting=setting) for setting in (20, 12, FINEST))
    assert (coarse.decode_ms, finest.decode_ms) == (200, 25)
    assert 25 < fine.decode_ms < 200
    assert max(look.fill for look in fine.looks) <= 150, "half of it, should a record take 128 bytes; here it takes 32"
    assert max(look.fill for look in finest.looks) == 1000, "nothing helps there: a note says that samples are missing"

"""How busy devices were, and their activity in each step: the true times are written down by the tests."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from examples import COSTLY
from hypothesis import given
from hypothesis import strategies as st
from profiles import ran, sealed
from small_program import SYMBOLS, InMemory
from stories import US, Story

from aiflame.analyze.device.occupancy import STATES, InSteps, occupancy
from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis

GPU, OTHER = "NVIDIA H200 [0]", "NVIDIA H200 [1]"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def kernel(begin: int, end: int, name: str = "sgemm", **more: object) -> dict[str, object]:
    return {"name": name, "device": GPU, "api": 2, "start_ns": begin, "end_ns": end, **more}


def copy(begin: int, end: int, **more: object) -> dict[str, object]:
    return {"kind": 1, "device": GPU, "api": 2, "start_ns": begin, "end_ns": end, **more}


def states(analysis: ProfileAnalysis) -> list[dict[str, int]]:
    return [
        {state: getattr(device, f"{state}_ns") for state in STATES} for device in occupancy(analysis, analysis.devices, analysis.per_step)
    ]


@pytest.mark.parametrize(
    ("kernels", "copies", "took"),
    [
        ([kernel(0, 10), kernel(5, 15), kernel(20, 30)], [], {"busy": 25, "communication": 0, "copies": 0, "idle": 5}),
        ([kernel(0, 10)], [copy(5, 12), copy(14, 20)], {"busy": 10, "communication": 0, "copies": 8, "idle": 2}),
        ([kernel(0, 10), kernel(5, 15, ALL_REDUCE)], [], {"busy": 10, "communication": 5, "copies": 0, "idle": 0}),
        ([kernel(0, 10, ALL_REDUCE)], [copy(5, 12)], {"busy": 0, "communication": 10, "copies": 2, "idle": 0}),
        ([kernel(5, 5), kernel(8, 10)], [], {"busy": 2, "communication": 0, "copies": 0, "idle": 0}),
    ],
    ids=["streams overlap", "copies beside kernels", "a collective beside kernels", "a copy beside a collective", "no length"],
)
def test_each_moment_counts_once_for_the_most_useful_that_went_on(
    tmp_path: Path, kernels: list[dict[str, object]], copies: list[dict[str, object]], took: dict[str, int]
) -> None:
    profile = sealed(tmp_path / "p.aiflame", symbols=SYMBOLS, **ran(*kernels), copies=copies)
    assert states(profile_analysis(profile)) == [took]


@COSTLY
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.sampled_from(["sgemm", ALL_REDUCE, "copy"])), min_size=1, max_size=8))
def test_the_four_are_those_of_single_moments(work: list[tuple[int, int, str]]) -> None:
    kernels = [kernel(begin, end, name) for begin, end, name in work if name != "copy"]
    copies = [copy(begin, end) for begin, end, name in work if name == "copy"]
    profile = InMemory({"processes": [{"pid": 1}], "symbols": SYMBOLS, **ran(*kernels), "copies": copies})
    expected = dict.fromkeys(STATES, 0)
    at = {
        name: {moment for begin, end, one in work if one == name for moment in range(begin, end)} for name in ("sgemm", ALL_REDUCE, "copy")
    }
    used = set().union(*at.values())
    for moment in range(min(used), max(used) + 1) if used else ():
        state = next((state for state, name in zip(STATES, at, strict=False) if moment in at[name]), "idle")
        expected[state] += 1
    assert states(profile_analysis(profile)) == ([expected] if used else [])


def test_devices_and_processes_stand_for_themselves(tmp_path: Path) -> None:
    work = ran(kernel(0, 10), kernel(0, 5, device=OTHER), kernel(90, 100, process=1))
    analysis = profile_analysis(
        sealed(
            tmp_path / "p.aiflame",
            processes=[{"pid": 7, "command": "a"}, {"process": 1, "pid": 8, "command": "b"}],
            symbols=SYMBOLS,
            **work,
        )
    )
    devices = [
        (one.process_name, one.device, one.whole_ns, one.busy_ns) for one in occupancy(analysis, analysis.devices, analysis.per_step)
    ]
    assert devices == [("a (7)", GPU, 10, 10), ("a (7)", OTHER, 5, 5), ("b (8)", GPU, 10, 10)]


def test_a_kernel_before_its_process_began_is_a_damaged_record(tmp_path: Path) -> None:
    profile = sealed(
        tmp_path / "p.aiflame", processes=[{"pid": 7, "start_ns": 1000}], symbols=SYMBOLS, **ran(kernel(0, 10), kernel(1000, 1010))
    )
    assert states(profile_analysis(profile)) == [{"busy": 10, "communication": 0, "copies": 0, "idle": 0}]


def test_a_program_without_a_device_has_no_occupancy(tmp_path: Path) -> None:
    analysis = profile_analysis(sealed(tmp_path / "p.aiflame", symbols=SYMBOLS))
    assert not analysis.ran_on_devices
    assert analysis.devices == []
    assert analysis.per_step.is_empty()


def steps(story: Story, path: Path) -> list[tuple[int, int, int, int, int]]:
    rows = profile_analysis(story.profile(path)).per_step
    return rows.select("step", *(pl.col(name) // US for name in ("begin_ns", "end_ns", "busy", "idle"))).rows()


def train(story: Story, begin: float) -> None:
    """A step of 100 µs on the host; its two kernels run from 20 to 50 and from 60 to 90 after its begin."""
    story.layer_work(begin + 10, begin + 20, begin + 50, "model")
    story.now = round((begin + 60) * US)
    story.backward()
    story.kernels[-1] |= {"start_ns": round((begin + 60) * US), "end_ns": round((begin + 90) * US)}
    story.during("optimizer", begin + 92, begin + 95)


def test_a_step_lasts_until_the_next_ones_first_work_and_the_last_until_its_own_end(tmp_path: Path) -> None:
    story = Story()
    for number in range(3):
        train(story, 1000 + 100 * number)
    assert steps(story, tmp_path) == [(0, 1020, 1120, 60, 40), (1, 1120, 1220, 60, 40), (2, 1220, 1290, 60, 10)]


def test_within_steps_the_first_and_the_gaps_between_them_are_left_out(tmp_path: Path) -> None:
    """Evaluation, long and idle, stands before the third step."""
    story = Story()
    train(story, 1000)
    train(story, 1100)
    story.sequence += 1
    story.now = round(5000 * US)
    story.forward("model", grad=False, start_ns=5000 * US, end_ns=5010 * US)
    train(story, 9000)
    analysis = profile_analysis(story.profile(tmp_path))
    (device,) = occupancy(analysis, analysis.devices, analysis.per_step)
    assert device.in_steps == InSteps(2, 140 * US, 120 * US, 0, 0, 20 * US)
    assert (device.whole_ns, device.busy_ns) == ((9090 - 1020) * US, 190 * US)


def test_one_step_is_none_that_repeats(tmp_path: Path) -> None:
    story = Story()
    train(story, 1000)
    analysis = profile_analysis(story.profile(tmp_path))
    assert [one.in_steps for one in occupancy(analysis, analysis.devices, analysis.per_step)] == [None]


def test_a_step_that_none_follows_at_once_ends_with_its_own_work(tmp_path: Path) -> None:
    """Evaluation after the second step."""
    story = Story()
    train(story, 1000)
    train(story, 1100)
    for number in range(3):
        story.sequence += 1
        story.now = round((1200 + 10 * number) * US)
        story.forward("model", grad=False, start_ns=(1200 + 10 * number) * US, end_ns=(1205 + 10 * number) * US)
    train(story, 1300)
    assert steps(story, tmp_path) == [(0, 1020, 1120, 60, 40), (1, 1120, 1190, 60, 10), (2, 1320, 1390, 60, 10)]

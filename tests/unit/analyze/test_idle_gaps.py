"""Why a device had nothing to do: each cause in a program that was written for it, and nothing but that cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import COSTLY
from hypothesis import given
from hypothesis import strategies as st
from small_program import SYMBOLS, InMemory, damaged
from stories import ITEM, LOOP, MAIN, US, Story

from aiflame.analyze.device.idle_causes import BETWEEN_LAUNCHES_NS, SOON_NS
from aiflame.analyze.device.idle_gaps import LONGEST
from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis


def groups(analysis: ProfileAnalysis) -> list[tuple[str, str, int, int]]:
    """cause, `file:line`, gaps, total in µs."""
    rows = analysis.gaps.groups.select("cause", "file", "line", "count", "total").rows()
    return [(cause, f"{file.rpartition('/')[2]}:{line}", count, total // US) for cause, file, line, count, total in rows]


def gap(story: Story, called: float, begin: float = 100, *frames: object, name: str = "second") -> None:
    """Work until 50, and from `begin` on, launched at `called`."""
    story.work(0, 10, 50, MAIN, name="first")
    story.work(called, begin, begin + 10, *(frames or (MAIN,)), name=name)


def test_work_that_was_launched_before_the_gap_waited_for_the_device(tmp_path: Path) -> None:
    story = Story()
    gap(story, called=20)
    assert groups(profile_analysis(story.profile(tmp_path))) == [("device", "train.py:12", 1, 50)]


def test_a_launch_soon_after_another_is_the_way_to_the_next_launch(tmp_path: Path) -> None:
    story = Story()
    gap(story, called=90)
    assert groups(profile_analysis(story.profile(tmp_path))) == [("launch", "train.py:12", 1, 50)]


def test_a_launch_long_after_the_one_before_is_other_work_of_the_program(tmp_path: Path) -> None:
    story = Story()
    late = BETWEEN_LAUNCHES_NS / US + 1
    gap(story, late, late + 10)
    assert groups(profile_analysis(story.profile(tmp_path))) == [("host", "train.py:12", 1, int(late - 40))]


def test_other_work_is_named_by_the_threads_samples_meanwhile(tmp_path: Path) -> None:
    """Samples before the gap, samples of another thread and the stack of the launching call do not count."""
    story = Story()
    other = story.thread("other")
    gap(story, 900, 1000)
    story.met(40, ("before", "/app/before.py", 1))
    for moment in (200, 300, 400):
        story.met(moment, MAIN, ("load", "/app/load.py", 7), ("dumps", "/usr/lib/python3.12/json/__init__.py", 9))
    story.met(500, ("log", "/app/log.py", 3))
    for moment in (510, 520, 530, 540):
        story.met(moment, ("elsewhere", "/app/else.py", 3), thread=other)
    for moment in (950, 960, 970, 980):
        story.met(moment, ("launching", "/app/launch.py", 3))
    assert groups(profile_analysis(story.profile(tmp_path))) == [("host", "load.py:7", 1, 950)]


def test_samples_of_wall_clock_time_count_before_those_of_cpu_time(tmp_path: Path) -> None:
    story = Story()
    gap(story, 900, 1000)
    story.met(200, LOOP, clock=1)
    for moment in (300, 400):
        story.met(moment, ITEM, clock=0)
    assert groups(profile_analysis(story.profile(tmp_path))) == [("host", "train.py:8", 1, 950)]


def test_waiting_for_data(tmp_path: Path) -> None:
    story = Story()
    gap(story, 95)
    story.during("data", 55, 92)
    story.met(70, LOOP, ("_next_data", "/x/site-packages/torch/utils/data/dataloader.py", 700))
    assert groups(profile_analysis(story.profile(tmp_path))) == [("data", "train.py:8", 1, 50)]


def test_data_that_took_less_than_half_of_the_gap_did_not_make_it(tmp_path: Path) -> None:
    story = Story()
    gap(story, 95)
    story.during("data", 55, 79)
    assert [cause for cause, *_ in groups(profile_analysis(story.profile(tmp_path)))] == ["launch"]


def test_data_that_another_thread_waited_for_did_not_make_it(tmp_path: Path) -> None:
    story = Story()
    other = story.thread("other")
    gap(story, 95)
    story.during("data", 50, 95, thread=other)
    assert [cause for cause, *_ in groups(profile_analysis(story.profile(tmp_path)))] == ["launch"]


def test_the_program_had_waited_for_the_device(tmp_path: Path) -> None:
    """The place where the program waited counts, not the launch that followed."""
    story = Story()
    story.waits(15, 53, ITEM)
    gap(story, 60)
    assert groups(profile_analysis(story.profile(tmp_path))) == [("sync", "train.py:31", 1, 50)]


def test_a_wait_that_was_over_before_the_gap_did_not_make_it(tmp_path: Path) -> None:
    story = Story()
    story.waits(15, 45, ITEM)
    gap(story, 60)
    assert [cause for cause, *_ in groups(profile_analysis(story.profile(tmp_path)))] == ["launch"]


def test_after_a_wait_a_program_that_does_something_of_its_own_is_to_blame_itself(tmp_path: Path) -> None:
    story = Story()
    story.waits(15, 53, ITEM)
    later = 53 + SOON_NS / US + 1
    gap(story, later, later + 10)
    assert [cause for cause, *_ in groups(profile_analysis(story.profile(tmp_path)))] == ["host"]


def test_a_copy_that_holds_its_thread_up_is_a_wait(tmp_path: Path) -> None:
    """No call that waits by its name: a copy from pageable memory."""
    story = Story()
    story.work(0, 5, 50, ITEM, name="DEVICE_TO_HOST")
    story.tables["launches"][-1]["end_ns"] = 55 * US
    story.work(70, 80, 90)
    assert groups(profile_analysis(story.profile(tmp_path))) == [("sync", "train.py:31", 1, 30)]


def test_a_kernel_whose_launch_took_long_is_no_wait(tmp_path: Path) -> None:
    """Its code was loaded first, say."""
    story = Story()
    story.work(0, 0, 10, ITEM)
    story.work(20, 60, 70, ITEM)
    story.tables["launches"][-1]["end_ns"] = 80 * US
    story.work(90, 100, 110)
    assert [cause for cause, *_ in groups(profile_analysis(story.profile(tmp_path)))] == ["launch"]


def test_an_optimizer_on_the_host(tmp_path: Path) -> None:
    story = Story()
    gap(story, 95)
    story.during("optimizer", 52, 97)
    assert [cause for cause, *_ in groups(profile_analysis(story.profile(tmp_path)))] == ["optimizer"]


def test_work_whose_launch_was_not_recorded(tmp_path: Path) -> None:
    story = Story()
    gap(story, 90)
    story.kernels[-1]["correlation"] = 77
    assert [cause for cause, *_ in groups(profile_analysis(story.profile(tmp_path)))] == ["unknown"]


def test_autograds_thread_works_for_the_one_that_waited(tmp_path: Path) -> None:
    story = Story()
    engine = story.thread("autograd")
    story.layer_work(0, 10, 50, "model")
    story.waits(15, 53, ITEM)
    story.now = 60 * US
    story.backward(thread=engine)
    story.kernels[-1] |= {"start_ns": 100 * US, "end_ns": 110 * US}
    assert groups(profile_analysis(story.profile(tmp_path))) == [("sync", "train.py:31", 1, 50)]


def test_gaps_of_one_cause_at_one_line_are_one_group(tmp_path: Path) -> None:
    story = Story()
    for number, length in enumerate((20, 40, 30)):
        begin = 1000 * number
        story.work(begin, begin + 10, begin + 900)
        story.waits(begin + 15, begin + 901, ITEM)
        story.work(begin + 902, begin + 900 + length, begin + 1010)
    analysis = profile_analysis(story.profile(tmp_path))
    row = analysis.gaps.groups.filter(cause="sync").row(0, named=True)
    assert (row["count"], row["total"], row["median"], row["longest"]) == (3, 90 * US, 30 * US, 40 * US)
    assert row["share"] == pytest.approx(90 / 3000)


def test_every_idle_moment_is_in_one_gap(tmp_path: Path) -> None:
    story = Story()
    for number in range(LONGEST + 50):
        story.work(10 * number, 10 * number + 2, 10 * number + 5 + number % 3)
    analysis = profile_analysis(story.profile(tmp_path))
    device = analysis.devices[0]
    assert analysis.gaps.groups["total"].sum() == int(device.every.end[-1] - device.every.begin[0]) - device.every.total()
    assert len(analysis.gaps.longest) == LONGEST
    assert analysis.gaps.longest["length"].is_sorted(descending=True)


def test_gaps_in_steps_are_shares_of_steps(tmp_path: Path) -> None:
    """Three steps, the first of which warms up: half of each is idle."""
    story = Story()
    for number in range(4):
        begin = 1000 * (number + 1)
        story.layer_work(begin, begin + 10, begin + 260, "model")
        story.now = (begin + 300) * US
        story.backward()
        story.kernels[-1] |= {"start_ns": (begin + 510) * US, "end_ns": (begin + 760) * US}
        story.during("optimizer", begin + 800, begin + 801)
    analysis = profile_analysis(story.profile(tmp_path))
    assert analysis.gaps.step_time == 1000 * US + 1000 * US + 750 * US
    assert analysis.gaps.groups["step_share"].sum() == pytest.approx(1250 / 2750)
    assert analysis.gaps.longest["step"].drop_nulls().unique().sort().to_list() == [0, 1, 2, 3]


TUNES = ("Autotuner._bench", "/venv/triton/runtime/autotuner.py", 30)


def test_the_layer_of_gaps_in_steps_is_theirs_and_not_that_of_start_up(tmp_path: Path) -> None:
    """Gaps of one cause and phase are one group. Most of its time lies before the steps, in autotuning."""
    story = Story()
    for at in range(0, 3000, 100):
        story.work(at + 90, at + 100, at + 150, MAIN, TUNES)
    for number in range(4):
        begin = 1000 * (number + 3)
        story.work(begin + 90, begin + 100, begin + 150, MAIN)
        story.work(begin + 190, begin + 200, begin + 250, MAIN)
        story.layer_work(begin + 191, begin + 260, begin + 290, "model")
        story.now = (begin + 300) * US
        story.backward()
        story.kernels[-1] |= {"start_ns": (begin + 300) * US, "end_ns": (begin + 760) * US}
        story.during("optimizer", begin + 800, begin + 801)
    groups = profile_analysis(story.profile(tmp_path)).gaps.groups.filter(cause="launch").sort("count")
    assert groups["layer"][-1] == "", "and not [autotuning]"
    assert groups["count"][-1] > 30


def test_nothing_ran(tmp_path: Path) -> None:
    analysis = profile_analysis(Story().profile(tmp_path, symbols=SYMBOLS))
    assert analysis.gaps.groups.is_empty()
    assert analysis.gaps.longest.is_empty()


@COSTLY
@given(
    st.fixed_dictionaries(
        {name: damaged(name) for name in ("kernels", "copies", "launches", "syncs", "regions", "region_ends", "cpu_samples")}
    )
)
def test_damaged_records_are_answered_all_the_same(tables: dict[str, list[dict[str, int]]]) -> None:
    processes = [{"pid": 1}, {"process": 1, "pid": 2}]
    analysis = profile_analysis(
        InMemory({"processes": processes, "symbols": SYMBOLS, "kernel_shapes": [{"name": "k", "device": "g"}], **tables})
    )
    idle = sum(int(one.every.end[-1] - one.every.begin[0]) - one.every.total() for one in analysis.devices)
    assert analysis.gaps.groups["total"].sum() == idle

"""Findings of idle time: waits for data and for the device, launches, the optimizer and other host code, copies, communication."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories import ITEM, LOOP, MAIN, US, Story, train
from story_findings import busy, found

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


# Idle time


def test_waiting_for_data_is_a_finding_with_its_share_of_steps_and_its_line(tmp_path: Path) -> None:
    """62% of each step runs; the first step, which is in no share, has other numbers."""
    story = Story()
    for number in range(5):
        train(story, number, work=620, idle=380, wait="data")
        story.met(1000 * (number + 1) + 100, LOOP)
    finding = found(story, tmp_path)["idle-data"]
    # The last step ends with its own work: no wait for a next one's data.
    share = 3 * 380 / (3 * 1000 + 620)
    assert finding.share == pytest.approx(share)
    assert finding.sentence == f"GPU idle {share:.0%} of each step, waiting for data at train.py:8"
    assert (finding.view.view, finding.view.table, finding.view.place) == ("tables", "idle", "/app/train.py:8")
    assert (finding.view.search, finding.view.column, finding.view.names) == ("^(data)$", "cause", ("data",))


def test_a_little_waiting_for_data_is_not_worth_a_word(tmp_path: Path) -> None:
    story = Story()
    for number in range(5):
        train(story, number, work=960, idle=40, wait="data")
    assert "idle-data" not in found(story, tmp_path)


def test_waiting_for_the_device_is_a_finding_with_its_line_and_call(tmp_path: Path) -> None:
    story = Story()
    for number in range(10):
        begin = 1000 * number
        story.work(begin, begin + 10, begin + 700)
        story.work(begin + 5, begin + 700, begin + 702, ITEM, "at::_ops::_local_scalar_dense::call", name="DEVICE_TO_HOST")
        story.waits(begin + 20, begin + 703, ITEM)
        story.work(begin + 800, begin + 902, begin + 1010)
    finding = found(story, tmp_path)["idle-sync"]
    assert finding.share == pytest.approx(0.2, abs=0.01)
    assert finding.sentence == (
        "The program waits for the GPU at train.py:31 (.item() or the like), 10 times, mostly for sgemm, and leaves it idle 20% of the time"
    )


def test_a_wait_after_which_the_device_has_work_is_not_worth_a_word(tmp_path: Path) -> None:
    story = Story()
    for number in range(10):
        begin = 1000 * number
        story.work(begin, begin + 10, begin + 700)
        story.waits(begin + 20, begin + 703, ITEM)
        story.work(begin + 5, begin + 700, begin + 1010)
    assert "idle-sync" not in found(story, tmp_path)


def test_many_tiny_kernels_wait_for_their_launches(tmp_path: Path) -> None:
    story = Story()
    for number in range(200):
        layer = "model/layers.0.attn" if number > 50 else "model/embed"
        story.layer_work(10 * number, 10 * number + 4, 10 * number + 7, "model", layer, name="vectorized_elementwise_kernel")
    finding = found(story, tmp_path)["launch-bound"]
    assert finding.share == pytest.approx(0.7, abs=0.01)
    assert finding.sentence == (
        "GPU idle 70% of the time between 200 kernels of 3 µs on average: it waits for launches, most in layers.*.attn;"
        " without these gaps it would be 3.3 times as fast at most"
    )


def test_in_steps_the_kernels_of_a_step_are_counted(tmp_path: Path) -> None:
    """The first step, which has a long one, does not count."""
    story, now = Story(), 1000.0
    for number in range(6):
        for _ in range(19):
            story.layer_work(now, now + 6, now + (500 if number == 0 else 10), "model", name="vectorized_elementwise_kernel")
            now += 500 if number == 0 else 10
        story.now = round(now * US)
        story.backward()
        story.kernels[-1] |= {"start_ns": round((now + 6) * US), "end_ns": round((now + 10) * US)}
        story.during("optimizer", now + 1, now + 2)
        now += 10
    finding = found(story, tmp_path)["launch-bound"]
    assert finding.sentence.startswith(
        "GPU idle 60% of each step between 20 kernels of 4 µs on average: it waits for launches, most in Part;"
    )


def test_kernels_that_fill_the_device_wait_for_nothing(tmp_path: Path) -> None:
    story = Story()
    for number in range(200):
        story.work(10 * number, 10 * number + 4, 10 * number + 14)
    assert not {kind for kind in found(story, tmp_path) if kind.startswith(("idle", "launch"))}


@pytest.mark.parametrize(("length", "speaks"), [(300, True), (20, False)])
def test_the_optimizers_python(tmp_path: Path, length: int, speaks: bool) -> None:
    story = Story()
    busy(story, 1000)
    story.during("optimizer", 1001, 1000 + length - 1)
    story.work(1000 + length - 3, 1000 + length, 2000)
    kinds = found(story, tmp_path)
    assert ("idle-optimizer" in kinds) == speaks
    if speaks:
        assert kinds["idle-optimizer"].sentence == "GPU idle 15% of the time while the optimizer's Python runs (train.py:12)"


def test_other_work_of_the_program_is_reported_with_its_sampled_line(tmp_path: Path) -> None:
    story = Story()
    busy(story, 1000)
    for moment in (1200, 1500, 1800):
        story.met(moment, MAIN, ("save", "/app/log.py", 40))
    story.work(2000, 2000, 3000)
    finding = found(story, tmp_path)["idle-host"]
    assert finding.sentence == "GPU idle 33% of the time while the program runs log.py:40"


# Copies and communication


def test_copies_that_no_kernel_overlaps(tmp_path: Path) -> None:
    story = Story()
    busy(story, 800)
    story.work(1, 800, 1000, LOOP, name="HOST_TO_DEVICE")
    finding = found(story, tmp_path)["copies"]
    assert finding.sentence == "The GPU waits for copies 20% of the time: most for [copy host→device] at train.py:8, 100 bytes in all"
    assert (finding.view.table, finding.view.column, finding.view.names) == ("copies", "short", ("[copy host→device]",))


def test_copies_beside_kernels_cost_nothing(tmp_path: Path) -> None:
    story = Story()
    busy(story, 1000)
    story.work(1, 100, 900, LOOP, name="HOST_TO_DEVICE")
    assert "copies" not in found(story, tmp_path)


@pytest.mark.parametrize(("begin", "speaks"), [(800, True), (500, False)], ids=["alone", "beside other kernels"])
def test_communication_that_nothing_overlaps(tmp_path: Path, begin: int, speaks: bool) -> None:
    story = Story()
    busy(story, 800)
    story.work(1, begin, begin + 200, MAIN, name=ALL_REDUCE)
    kinds = found(story, tmp_path)
    assert ("communication" in kinds) == speaks
    if speaks:
        assert kinds["communication"].sentence.startswith("The GPU does nothing but communicate 20% of the time: most of it is ")

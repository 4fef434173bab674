"""Findings: each kind speaks where it should, with its number and its evidence, and is silent where it should."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from small_program import SYMBOLS
from stories import ITEM, LOOP, MAIN, US, Story, train

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.overview.summary import summarize
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.tree import Kind
from aiflame.profile.folder.meta import Meta

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def found(story: Story, path: Path, limit: int = 99) -> dict[str, Finding]:
    profile = story.profile(path, **({} if story.tables["symbols"] else {"symbols": SYMBOLS}))
    known = Analysis(profile)
    listed = findings(known, summarize(known, Meta()), limit)
    assert [finding.recoverable for finding in listed] == sorted((finding.recoverable for finding in listed), reverse=True)
    json.dumps([asdict(finding) for finding in listed])
    return {finding.kind: finding for finding in listed}


def busy(story: Story, until: float, begin: float = 0, name: str = "sgemm", *layers: str) -> None:
    """One kernel without a gap, launched long before."""
    if layers:
        story.layer_work(begin, begin, until, *layers, name=name)
    else:
        story.work(begin, begin, until, MAIN, name=name)


# Idle time


def test_waiting_for_data_is_told_with_its_share_of_steps_and_its_line(tmp_path: Path) -> None:
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


def test_waiting_for_the_device_is_told_with_its_line_and_how(tmp_path: Path) -> None:
    story = Story()
    for number in range(10):
        begin = 1000 * number
        story.work(begin, begin + 10, begin + 700)
        story.work(begin + 5, begin + 700, begin + 702, ITEM, "at::_ops::_local_scalar_dense::call", name="DEVICE_TO_HOST")
        story.waits(begin + 20, begin + 703, ITEM)
        story.work(begin + 800, begin + 902, begin + 1010)
    finding = found(story, tmp_path)["idle-sync"]
    assert finding.share == pytest.approx(0.2, abs=0.01)
    assert (
        finding.sentence
        == "The program waits for the GPU at train.py:31 (.item() or the like), 10 times, and leaves it idle 20% of the time"
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
        "GPU idle 70% of the time between 200 kernels of 3 µs on average: it waits for launches, most in layers.*.attn"
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
    assert finding.sentence == "GPU idle 60% of each step between 20 kernels of 4 µs on average: it waits for launches, most in Part"


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


def test_other_work_of_the_program_is_told_with_the_line_that_it_was_met_at(tmp_path: Path) -> None:
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


# Kernels


def hot(story: Story) -> None:
    """gemm: 300 of 1000 in `mlp` of three layers, 100 in `attn`; the rest in many others."""
    now = 0
    for layer in range(3):
        for kernel in ("sgemm", "ampere_gemm"):
            busy(story, now + 50, now, kernel, "model", f"model/layers.{layer}", f"model/layers.{layer}.mlp")
            now += 50
    busy(story, now + 100, now, "sgemm", "model", "model/layers.0", "model/layers.0.attn")
    now += 100
    for name, length in {"layer_norm": 100, "softmax": 120, "radix_sort": 100, "flash_fwd": 100, "adam": 100, "embedding": 80}.items():
        busy(story, now + length, now, name)
        now += length


def test_the_hottest_family_is_told_with_its_layers_and_what_it_waits_for(tmp_path: Path) -> None:
    story = Story()
    hot(story)
    story.sampled("sgemm", {"selected": 500, "long_scoreboard": 60, "wait": 20}, line=41, file="/app/model.py")
    story.sampled("sgemm", {"long_scoreboard": 20}, line=7, file="/app/model.py")
    story.sampled("ampere_gemm", {"wait": 10}, line=99)
    finding = found(story, tmp_path)["hot-group"]
    assert finding.sentence == "30% of GPU time is gemm in layers.*.mlp; its top stall is long_scoreboard at model.py:41"
    assert finding.share == pytest.approx(0.3)
    assert (finding.view.view, finding.view.metric, finding.view.by, finding.view.search) == ("kernels", "gpu-stalls", "layer", "^mlp$")
    assert (finding.view.kernel, finding.view.place) == ("sgemm", "/app/model.py:41")


def test_without_samples_the_hottest_family_is_told_with_the_line_that_launched_it(tmp_path: Path) -> None:
    story = Story()
    hot(story)
    finding = found(story, tmp_path)["hot-group"]
    assert finding.sentence == "30% of GPU time is gemm in layers.*.mlp; most of it is launched at train.py:1"
    assert finding.view.view == "flame"


def test_where_one_kernel_is_the_better_half_of_a_family_it_is_told_itself(tmp_path: Path) -> None:
    story = Story()
    for number, (name, length) in enumerate({"sgemm": 300, "ampere_gemm": 200, "my_kernel": 250, "your_kernel": 250}.items()):
        busy(story, 1000 * number + length, 1000 * number, name)
    story.sampled("sgemm", {"barrier": 30, "selected": 70}, line=3)
    story.sampled("ampere_gemm", {"wait": 90}, line=4)
    finding = found(story, tmp_path)["hot-group"]
    assert finding.sentence == "30% of GPU time is the kernel sgemm; its top stall is barrier at kernels.cu:3"
    assert finding.view.kernel == "sgemm"


def test_kernels_of_no_known_family_stand_for_themselves(tmp_path: Path) -> None:
    story = Story()
    for number in range(10):
        busy(story, 100 * number + 100, 100 * number, f"kernel{number}_")
    assert found(story, tmp_path) == {}


def test_a_kernel_is_told_once(tmp_path: Path) -> None:
    story = Story()
    hot(story)
    story.sampled("sgemm", {"barrier": 90, "selected": 10}, line=3)
    kinds = found(story, tmp_path)
    assert "hot-group" not in kinds
    assert kinds["hot-stall"].sentence.startswith("sgemm takes 25% of GPU time; 90% of its samples are held up by barrier")


def test_time_that_is_spread_over_many_families_has_no_hottest(tmp_path: Path) -> None:
    story = Story()
    for number, name in enumerate(("sgemm", "layer_norm", "softmax", "radix_sort", "flash_fwd", "adam", "embedding", "philox", "conv2d")):
        busy(story, 100 * (number + 1), 100 * number, name)
    assert found(story, tmp_path) == {}


def test_a_kernel_whose_warps_wait_for_one_thing(tmp_path: Path) -> None:
    story = Story()
    hot(story)
    story.sampled("softmax", {"selected": 20, "barrier": 70, "wait": 10}, line=5)
    story.sampled("sgemm", {"selected": 80, "barrier": 20})
    finding = found(story, tmp_path)["hot-stall"]
    assert finding.sentence.startswith("softmax takes 12% of GPU time; 70% of its samples are held up by barrier (")
    assert finding.sentence.endswith("most at kernels.cu:5")
    assert finding.view.kernel == "softmax"
    assert finding.share == pytest.approx(0.12)


@pytest.mark.parametrize(
    "reasons",
    [{"barrier": 20}, {"selected": 70, "barrier": 30}, {"not_selected": 90, "barrier": 10}],
    ids=["too few samples", "mostly at work", "others were at work"],
)
def test_a_kernel_that_waits_for_nothing_much(tmp_path: Path, reasons: dict[str, int]) -> None:
    story = Story()
    hot(story)
    story.sampled("softmax", reasons)
    assert "hot-stall" not in found(story, tmp_path)


# What should be alike


def steps(story: Story, lengths: list[float]) -> None:
    begin = 10_000.0
    for length in lengths:
        story.layer_work(begin, begin, begin + length / 2, "model")
        story.now = round((begin + 1) * US)
        story.backward()
        story.kernels[-1] |= {"start_ns": round((begin + length / 2) * US), "end_ns": round((begin + length) * US)}
        story.during("optimizer", begin + 10, begin + 11)
        begin += length


def test_a_step_that_took_much_longer_than_the_others(tmp_path: Path) -> None:
    story = Story()
    steps(story, [5000, 100, 101, 99, 100, 102, 400, 100, 98, 100])
    finding = found(story, tmp_path)["slow-step"]
    assert finding.sentence == "Step 6 took 400 µs, 4.0 times the median step"
    assert finding.share == pytest.approx(300 / 1200)
    assert finding.view.search == r"^Step\.6$"


@pytest.mark.parametrize(
    "lengths",
    [[5000, *[100] * 9], [100, 60, 200, 80, 190, 120, 210, 90, 160, 100], [100, 100, 100, 400]],
    ids=["only the first", "steps that vary by nature", "too few"],
)
def test_no_step_stands_out(tmp_path: Path, lengths: list[float]) -> None:
    story = Story()
    steps(story, lengths)
    assert "slow-step" not in found(story, tmp_path)


def layers(story: Story, lengths: Mapping[str, float]) -> None:
    now = 0.0
    for path, length in lengths.items():
        parts = path.split(".")
        outer = "model/" + ".".join(parts[:2])
        busy(story, now + length, now, f"kernel_{now}", "model", outer, f"model/{path}")
        now += length


SISTERS = ["layers.*.attn", "layers.*.attn.qkv", "layers.*.attn2", "layers.*", "xlayers.*.attn", "layers.3.attn"]


def test_a_layer_that_takes_longer_than_its_sisters_is_told_by_its_innermost_part(tmp_path: Path) -> None:
    story = Story()
    layers(story, {f"layers.{n}.{part}": 100 for n in range(5) for part in ("attn", "mlp")} | {"layers.3.attn": 400})
    finding = found(story, tmp_path)["slow-layer"]
    assert finding.sentence == "layers.3.attn takes 4.0 times what its sisters take: 31% of GPU time, they 7.7% each"
    assert (finding.view.table, finding.view.by) == ("layers", "layer")
    assert (finding.view.column, finding.view.names) == ("group", ("layers.*.attn",))
    assert [text for text in SISTERS if re.search(finding.view.search, text)] == ["layers.*.attn", "layers.*.attn.qkv"]


def test_layers_that_take_the_same_or_differ_a_little_or_have_no_sisters(tmp_path: Path) -> None:
    story = Story()
    layers(story, {f"layers.{n}.attn": 100 + 20 * n for n in range(5)} | {"blocks.0.mlp": 100, "blocks.1.mlp": 900, "head": 3000})
    assert "slow-layer" not in found(story, tmp_path)


# Programs without a device


def cpu(story: Story, *samples: tuple[int, tuple[object, ...]]) -> None:
    moment = 10
    for count, frames in samples:
        for _ in range(count):
            story.met(moment, *frames, clock=0)
            moment += 1


def test_the_hottest_line_and_function_of_a_program_on_the_cpu(tmp_path: Path) -> None:
    story = Story()
    line = ("work", "/app/math.py", 4)
    cpu(story, (45, (MAIN, line, "sgemm_kernel")), (15, (MAIN, line, "conv")), (40, (MAIN,)))
    kinds = found(story, tmp_path)
    assert kinds["hot-line"].sentence == "60% of CPU time is spent at math.py:4 and in what it calls"
    assert kinds["hot-line"].view.search == "^work$"


def test_a_function_that_is_nearly_all_of_its_line_is_told_alone(tmp_path: Path) -> None:
    """The line would say the same; a function that is called from several lines is told beside a line."""
    story = Story()
    cpu(story, (60, (MAIN, ("work", "/app/math.py", 4), "sgemm_kernel")), (40, (MAIN,)))
    (finding,) = [one for one in found(story, tmp_path / "one").values() if one.view.place == "/app/math.py:4"]
    assert finding.sentence == "60% of CPU time is in sgemm_kernel, called from math.py:4"
    assert finding.view.search == "^sgemm_kernel$"
    story = Story()
    lines = [("work", "/app/math.py", line) for line in (4, 5, 6)]
    cpu(story, *((20, (MAIN, line, "sgemm_kernel")) for line in lines), (40, (MAIN,)))
    kinds = found(story, tmp_path / "several")
    assert kinds["hot-function"].sentence == "60% of CPU time is in sgemm_kernel, called from math.py:4"
    assert kinds["hot-line"].sentence == "40% of CPU time is spent at train.py:12 and in what it calls"


def test_a_program_that_spends_its_time_everywhere(tmp_path: Path) -> None:
    story = Story()
    cpu(story, *((10, ((f"f{n}", "/app/f.py", n), f"native{n}")) for n in range(1, 11)))
    assert found(story, tmp_path) == {}


def test_few_samples_tell_nothing(tmp_path: Path) -> None:
    story = Story()
    cpu(story, (40, (MAIN, "sgemm_kernel")))
    assert found(story, tmp_path) == {}


@pytest.mark.parametrize(("waiting", "speaks"), [(40, True), (10, False)])
def test_threads_that_wait_for_each_other(tmp_path: Path, waiting: int, speaks: bool) -> None:
    story = Story()
    cpu(story, (waiting, (MAIN, "gomp_team_barrier_wait_end")), *((10, ((f"f{n}", "/app/f.py", n),)) for n in range(1, 7)))
    kinds = found(story, tmp_path)
    assert ("waiting" in kinds) == speaks
    if speaks:
        assert kinds["waiting"].sentence == "40% of CPU time is threads that wait for each other in OpenMP, most at train.py:12"
        assert kinds["waiting"].view.search == r"^\[OpenMP wait\]$"


def test_a_mark_at_the_end_of_a_stack_says_what_it_waits_on(tmp_path: Path) -> None:
    story = Story()
    cpu(story, (60, (MAIN, "[OpenMP wait]")))
    for row in story.tables["symbols"]:
        if row["name"] == "[OpenMP wait]":
            row["kind"] = int(Kind.WAIT)
    assert found(story, tmp_path)["waiting"].share == 1.0


# All together


def test_nothing_is_said_of_nothing(tmp_path: Path) -> None:
    assert found(Story(), tmp_path) == {}


def test_only_the_biggest_are_told(tmp_path: Path) -> None:
    story = Story()
    for number in range(5):
        train(story, number, work=620, idle=380, wait="data")
    story.sampled("sgemm", {"barrier": 60, "selected": 40}, line=5)
    every = found(story, tmp_path / "all")
    assert len(every) > 1
    assert list(found(story, tmp_path / "one", limit=1)) == list(every)[:1] == ["idle-data"]

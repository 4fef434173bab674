"""Two recordings compared by warp samples and by bytes copied: the amounts of a step, and their noise."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from stories import DEVICE, US, VENDOR, Story

from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis
from aiflame.analyze.diff import per_step
from aiflame.analyze.diff.comparison import Comparison, Difference, at_one_period, compare
from aiflame.analyze.diff.per_step_samples import averaged
from aiflame.attribute.trees.build import tree
from aiflame.render.terminal.diff_table import print_comparison

STEP = 200
"""µs"""
MLP = ("model", "model/layers.0", "model/layers.0.mlp")
REASONS = ("wait", "long_scoreboard", "wait_not_issued")


def sampled(
    path: Path, steps: int, load: float, *, window: int = 1, period: int = 20, noise: float = 0.1, seed: int = 0, warm: int = 10
) -> ProfileAnalysis:
    """Steps of 200 µs, half of them sgemm, whose warps wait 20 samples a step, and `load` samples for a load; one in four issued nothing.
    A window of sampling is so many steps long. The first one has `warm` times as many."""
    chance = random.Random(seed)
    story = Story()
    for number in range(steps):
        now = STEP * (number + 1)
        story.layer_work(now, now + 1, now + 100, *MLP, name="sgemm")
        story.work(now + 10, now + 100, now + 150, name="softmax")
        story.now = round((now + 20) * US)
        story.backward()
        story.kernels[-1] |= {"start_ns": (now + 150) * US, "end_ns": (now + STEP - 1) * US, "name": "backward_kernel"}
        story.during("optimizer", now + 30, now + 31)
    tables = story.tables
    tables["gpu_functions"] = [{"cubin": 7, "name": "sgemm"}]
    tables["stall_reasons"] = [{"name": VENDOR + name, "index": at} for at, name in enumerate(REASONS)]
    for number in range(-(-steps // window)):
        begin = STEP * (number * window + 1) * US
        tables["gpu_windows"].append(
            {"device": DEVICE, "begin_ns": begin, "end_ns": begin + window * STEP * US, "samples": 1, "period_log2": period}
        )
        many = (warm if number == 0 else 1) * min(window, steps - number * window)
        for reason, count in enumerate((20, load, 5)):
            row = {"window": number + 1, "function": 1, "offset": 16 * (1 + number % 2), "reason": reason + 1}
            tables["gpu_samples"].append({**row, "count": round(many * count * (1 + noise * chance.uniform(-1, 1)))})
    return profile_analysis(story.profile(path))


def by(comparison: Comparison, name: str) -> Difference:
    return next(one for one in comparison.differences if one.by == name)


def test_stall_reasons_are_compared_by_step(tmp_path: Path) -> None:
    comparison = compare(sampled(tmp_path / "a", 20, 40), sampled(tmp_path / "b", 30, 80, seed=1), "gpu-stalls")
    assert [one.by for one in comparison.differences] == ["kernel", "stall", "layer", "line"]
    stalls = by(comparison, "stall")
    assert stalls.differing()["name"].to_list() == ["long_scoreboard"]
    assert stalls.rows.row(0, named=True)["difference"] == pytest.approx(40, rel=0.1)
    assert by(comparison, "layer").differing().select("name").rows() == [("layers.0.mlp",)]
    kernels = by(comparison, "kernel")
    assert kernels.differing()["name"].to_list() == ["sgemm"]
    assert (kernels.base_steps, kernels.new_steps) == (19, 29)
    assert kernels.note == "mean step of 19 before and 29 now, samples divided over the steps of their window by time"
    assert kernels.rows.row(0, named=True)["base"] == pytest.approx(60, rel=0.1)


def test_latency_counts_cycles_in_which_nothing_was_issued(tmp_path: Path) -> None:
    comparison = compare(sampled(tmp_path / "a", 20, 40), sampled(tmp_path / "b", 20, 80), "gpu-latency")
    rows = by(comparison, "kernel").rows
    assert rows["name"].to_list() == ["sgemm"]
    assert rows["base"][0] == pytest.approx(5, rel=0.1)
    assert rows["beyond"].to_list() == [False]


def test_steps_that_share_a_window_are_no_sign_of_how_steps_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """41 steps in 11 windows: the 40 compared ones are 10 values, of which each is four steps, and the interval is twice as wide."""
    base, new = (sampled(tmp_path / name, 41, 40, window=4, noise=0.3, seed=at, warm=1) for at, name in enumerate("ab"))

    def interval() -> tuple[float, tuple[int, int]]:
        kernels = by(compare(base, new, "gpu-stalls"), "kernel")
        (low, high) = kernels.rows.select("low", "high").row(0)
        return high - low, (kernels.base_steps, kernels.new_steps)

    wide, steps = interval()
    assert steps == (40, 40)
    monkeypatch.setattr(per_step, "steps_a_window", lambda analysis: 1)
    assert wide == pytest.approx(2 * interval()[0], rel=0.3)


def test_with_few_windows_the_noise_is_not_known_however_many_steps_there_are(tmp_path: Path) -> None:
    comparison = compare(sampled(tmp_path / "a", 25, 40, window=10), sampled(tmp_path / "b", 25, 80, window=10), "gpu-stalls", "kernel")
    kernels = by(comparison, "kernel")
    assert kernels.rows["beyond"].to_list() == [None]
    assert kernels.note.endswith("by time; the noise cannot be estimated from fewer than 4 windows of sampling")


def test_without_steps_all_samples_are_compared(tmp_path: Path) -> None:
    def plain(path: Path, count: int) -> ProfileAnalysis:
        story = Story()
        story.work(0, 0, 100, name="sgemm")
        story.sampled("sgemm", {"wait": count})
        return profile_analysis(story.profile(path))

    stalls = by(compare(plain(tmp_path / "a", 10), plain(tmp_path / "b", 15), "gpu-stalls"), "stall")
    assert stalls.note.startswith("totals of the whole runs, since neither profile has steps")
    assert stalls.rows.select("name", "base", "new").rows() == [("wait", 10, 15)]


def test_runs_that_were_sampled_at_different_periods_are_made_comparable(tmp_path: Path) -> None:
    """At half the period a warp is sampled twice as often."""
    base, new = sampled(tmp_path / "a", 20, 40, period=19), sampled(tmp_path / "b", 20, 10, period=20)
    kernels = by(compare(base, new, "gpu-stalls"), "kernel")
    assert kernels.rows.select("name", "beyond").rows() == [("sgemm", False)]
    assert kernels.note.endswith("before × 0.5, since a sample stood for 2^19 cycles, and now for 2^20")
    was = tree(base.profile, "gpu-stalls")
    assert at_one_period(was, "gpu-stalls", (base.profile, new.profile)).total("gpu-stalls") == round(was.total("gpu-stalls") / 2)
    assert at_one_period(was, "gpu-stalls", (base.profile, base.profile)) is was


def test_bytes_are_exact_and_compared_by_copy_and_line(tmp_path: Path) -> None:
    def copying(path: Path, size: int) -> ProfileAnalysis:
        story = Story()
        for number in range(10):
            now = 1000 * (number + 1)
            story.layer_work(now, now, now + 100, *MLP)
            story.work(now + 5, now + 100, now + 110, ("load", "/app/data.py", 7), name="HOST_TO_DEVICE")
            story.copies[-1]["bytes"] = size * (50 if number == 0 else 1)
            story.work(now + 6, now + 110, now + 120, ("save", "/app/data.py", 9), name="DEVICE_TO_HOST")
            story.copies[-1]["bytes"] = 8
            story.now = (now + 20) * US
            story.backward()
            story.kernels[-1] |= {"start_ns": (now + 150) * US, "end_ns": (now + 160) * US}
            story.during("optimizer", now + 30, now + 31)
        return profile_analysis(story.profile(path))

    comparison = compare(copying(tmp_path / "a", 1000), copying(tmp_path / "b", 4000), "bytes")
    copies = by(comparison, "copy")
    assert copies.differing().select("name", "base", "new").rows() == [("[copy host→device]", 1000, 4000)]
    assert copies.note == "median step of 9 before and 9 now"
    assert set(copies.rows["name"]) == {"[copy host→device]", "[copy device→host]"}
    assert by(comparison, "line").differing()["name"].to_list() == ["app/data.py:7"]


def test_less_than_a_sample_a_step_is_written_as_such(tmp_path: Path) -> None:
    """3 for a load in each window of ten steps."""
    base, new = (sampled(tmp_path / name, 41, 0.3, window=10, noise=0, warm=1) for name in "ab")
    comparison = compare(base, new, "gpu-stalls", "stall")
    console = Console(width=120, record=True)
    print_comparison(comparison, 10, everything=True, console=console)
    (line,) = [line for line in console.export_text().splitlines() if "long_scoreboard" in line]
    assert re.match(r" *0\.[23]\d{0,2} samples ", line)


# Steps as long as a window


@pytest.mark.parametrize(
    ("process", "together", "means"),
    [
        ([0] * 6, 1, [0, 1, 2, 3, 4, 5]),
        ([0] * 6, 2, [0.5, 2.5, 4.5]),
        ([0] * 6, 4, [2.5]),
        ([0] * 6, 100, [2.5]),
        ([0, 0, 0, 1, 1, 1], 2, [1, 4]),
        ([0, 0, 0, 0, 1, 1], 2, [0.5, 2.5, 4.5]),
    ],
)
def test_neighbours_of_a_process_are_averaged(process: list[int], together: int, means: list[float]) -> None:
    means_of_steps = averaged(np.arange(6, dtype=np.float64)[np.newaxis], np.array(process), together)
    assert means_of_steps.tolist() == [means]

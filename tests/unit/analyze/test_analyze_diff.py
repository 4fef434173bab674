"""Two recordings of one program: differences above the noise are reported, and none within it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from stories import US, Story

from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis
from aiflame.analyze.diff import per_step
from aiflame.analyze.diff.comparison import Comparison, Difference, compare, mean_interval, median_interval, to_json
from aiflame.errors import AiflameError
from aiflame.render.terminal.diff_table import print_comparison

MLP, ATTN = ("model", "model/layers.0", "model/layers.0.mlp"), ("model", "model/layers.0", "model/layers.0.attn")


def run(
    path: Path, steps: int, gemm: float = 100, softmax: float = 50, noise: float = 0.02, seed: int = 0, warm: float = 5000
) -> ProfileAnalysis:
    """A training: each step has gemm in `mlp` and softmax in `attn` of about these lengths (µs); the first takes `warm` more."""
    chance = random.Random(seed)
    story, now = Story(), 1000.0
    for number in range(steps):
        for name, layers, length in (("sgemm", MLP, gemm), ("softmax", ATTN, softmax)):
            took = length * (1 + noise * chance.uniform(-1, 1)) + (warm if number == 0 else 0)
            story.layer_work(now, now, now + took, *layers, name=name)
            now += took
        story.now = round((now - 20) * US)
        story.backward()
        story.kernels[-1] |= {"start_ns": round(now * US), "end_ns": round((now + 10) * US), "name": "backward_kernel"}
        now += 10
        story.during("optimizer", now - 15, now - 14)
    return profile_analysis(story.profile(path))


def by(comparison: Comparison, name: str) -> Difference:
    return next(one for one in comparison.differences if one.by == name)


def named(comparison: Comparison, name: str) -> list[str]:
    return by(comparison, name).differing()["name"].to_list()


def test_slower_kernels_layers_ops_and_lines_are_reported_for_any_number_of_steps(tmp_path: Path) -> None:
    comparison = compare(run(tmp_path / "a", 12), run(tmp_path / "b", 31, gemm=120, seed=1))
    assert [one.by for one in comparison.differences] == ["kernel", "op", "layer", "line"]
    assert named(comparison, "kernel") == ["sgemm"]
    assert named(comparison, "layer") == ["layers.0.mlp"]
    row = by(comparison, "kernel").rows.row(0, named=True)
    assert row["difference"] == pytest.approx(20 * US, rel=0.2)
    assert row["low"] < 20 * US < row["high"]
    assert row["beyond"] is True
    assert (by(comparison, "kernel").base_steps, by(comparison, "kernel").new_steps) == (11, 30)
    assert comparison.step is not None
    assert comparison.step.beyond is True


def test_two_runs_of_the_same_differ_by_noise_alone(tmp_path: Path) -> None:
    comparison = compare(run(tmp_path / "a", 30), run(tmp_path / "b", 30, seed=1))
    assert [named(comparison, one.by) for one in comparison.differences] == [[]] * 4
    assert len(by(comparison, "kernel").rows) == 3
    assert comparison.step is not None
    assert comparison.step.beyond is False


def test_a_difference_within_the_noise_is_none(tmp_path: Path) -> None:
    """This difference is as large as one that is reported where steps are alike."""
    comparison = compare(run(tmp_path / "a", 12, noise=0.9), run(tmp_path / "b", 12, gemm=120, noise=0.9, seed=1), by="kernel")
    assert named(comparison, "kernel") == []


def test_the_first_step_warms_up_and_does_not_count(tmp_path: Path) -> None:
    comparison = compare(run(tmp_path / "a", 12), run(tmp_path / "b", 12, warm=90_000, seed=1), by="kernel")
    assert named(comparison, "kernel") == []


def test_of_many_steps_some_count_evenly_spaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_step, "MOST_STEPS", 5)
    comparison = compare(run(tmp_path / "a", 12), run(tmp_path / "b", 31, gemm=120, seed=1), by="kernel")
    assert (by(comparison, "kernel").base_steps, by(comparison, "kernel").new_steps) == (5, 5)
    assert named(comparison, "kernel") == ["sgemm"]


def test_new_and_removed_rows_say_so(tmp_path: Path) -> None:
    base, new = plain(tmp_path / "a", sgemm=100, softmax=50), plain(tmp_path / "b", sgemm=100, layer_norm=5)
    rows = by(compare(base, new), "kernel").rows.select("name", "only").rows()
    assert rows == [("softmax", "base"), ("layer_norm", "new"), ("sgemm", "")]


def plain(path: Path, **lengths: float) -> ProfileAnalysis:
    """Kernels, one after another, without steps."""
    story, now = Story(), 0.0
    for name, length in lengths.items():
        story.work(now, now, now + length, name=name)
        now += length
    return profile_analysis(story.profile(path))


def test_without_steps_totals_are_compared_and_the_noise_is_not_known(tmp_path: Path) -> None:
    comparison = compare(plain(tmp_path / "a", sgemm=100, softmax=50), plain(tmp_path / "b", sgemm=130, softmax=50))
    difference = by(comparison, "kernel")
    assert not difference.per_step
    assert difference.note == "totals of the whole runs, since neither profile has steps; the noise cannot be estimated"
    assert difference.rows.select("name", "base", "new", "difference", "beyond").rows() == [
        ("sgemm", 100 * US, 130 * US, 30 * US, None),
        ("softmax", 50 * US, 50 * US, 0, None),
    ]
    assert named(comparison, "kernel") == ["sgemm"]
    assert comparison.step is None


def test_with_few_steps_the_noise_is_not_known(tmp_path: Path) -> None:
    comparison = compare(run(tmp_path / "a", 4), run(tmp_path / "b", 4, seed=1), by="kernel")
    difference = by(comparison, "kernel")
    assert difference.note == "median step of 3 before and 3 now; the noise cannot be estimated from fewer than 4 steps"
    assert difference.rows["beyond"].to_list() == [None] * 3


def test_samples_are_compared_by_their_means(tmp_path: Path) -> None:
    """A function with a sample in every third step has no median."""

    def sampled(path: Path, every: int) -> ProfileAnalysis:
        story = Story()
        for number in range(41):
            story.during("data", 1000 * number, 1000 * number + 1)
            with story.called("model", grad=True):
                pass
            story.tables["layer_calls"][-1] |= {"begin_ns": (1000 * number + 10) * US, "end_ns": (1000 * number + 20) * US}
            story.met(1000 * number + 100, ("train", "/app/train.py", 3), "work", clock=0)
            if number % every == 0:
                story.met(1000 * number + 200, ("train", "/app/train.py", 3), "rare", clock=0)
            story.during("optimizer", 1000 * number + 300, 1000 * number + 301)
        return profile_analysis(story.profile(path))

    comparison = compare(sampled(tmp_path / "a", 3), sampled(tmp_path / "b", 1), by="function")
    difference = by(comparison, "function")
    assert difference.note.startswith("mean step of 40 before and 40 now")
    assert named(comparison, "function") == ["rare"]
    assert difference.rows.row(0, named=True)["base"] == pytest.approx(5_000_000 / 3, rel=0.05)


# Errors


def test_programs_that_have_nothing_in_common(tmp_path: Path) -> None:
    base, new = plain(tmp_path / "a", sgemm=1), plain(tmp_path / "b", conv2d=1)
    with pytest.raises(AiflameError, match="nothing in common by kernel: compare two recordings of the same program"):
        compare(base, new, by="kernel")


@pytest.mark.parametrize(
    ("metric", "grouping", "says"),
    [
        ("wall-time", "", "the first profile has no wall-time, only gpu-time: for wall-time, record with --wall"),
        ("cpu-seconds", "", "unknown metric 'cpu-seconds': use cpu-time, wall-time, gpu-time, gpu-stalls, gpu-latency, bytes"),
        ("gpu-stalls", "", "the first profile has no gpu-stalls, only gpu-time: for gpu-stalls, record a CUDA program that"),
        ("gpu-time", "function", "cannot compare gpu-time by 'function': use kernel, op, layer, line, phase, family"),
    ],
)
def test_a_comparison_that_is_impossible_names_the_possible_ones(tmp_path: Path, metric: str, grouping: str, says: str) -> None:
    one = plain(tmp_path / "a", sgemm=1)
    with pytest.raises(AiflameError) as error:
        compare(one, one, metric, grouping)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


# Intervals


@pytest.mark.parametrize("interval", [median_interval, mean_interval])
@pytest.mark.parametrize("count", [4, 10, 100])
def test_centres_of_equal_runs_seldom_lie_apart(interval: object, count: int) -> None:
    """A thousand pairs of runs with skewed noise: fewer than one pair in fifty seems to differ; a shift by three deviations is seen."""
    chance = np.random.default_rng(7)
    runs = [np.rint(1000 * chance.lognormal(0, 0.3, (1000, count))).astype(np.int64) for _ in range(2)]
    (_, low, high), (_, other_low, other_high) = (interval(one) for one in runs)  # type: ignore[operator]
    apart = (high < other_low) | (other_high < low)
    assert apart.mean() < (0.05 if count == 4 else 0.02)
    _, shifted_low, _ = interval(runs[1] * 3)  # type: ignore[operator]
    assert (shifted_low > high).mean() > 0.9


def test_more_steps_make_the_interval_of_a_median_narrower() -> None:
    widths = [
        high - low for _, low, high in (median_interval(np.arange(count)[np.newaxis] * 1000 // count) for count in (5, 20, 100, 1000))
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 100


# For people and programs


def printed(comparison: Comparison, width: int = 100, rows: int = 10, everything: bool = False) -> list[str]:
    console = Console(width=width, record=True)
    print_comparison(comparison, rows, everything=everything, console=console)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_table_says_how_much_is_hidden_and_which_parts(tmp_path: Path) -> None:
    comparison = compare(run(tmp_path / "a", 12, noise=0), run(tmp_path / "b", 12, gemm=120, noise=0), by="kernel")
    assert printed(comparison) == [
        "Step: 160 µs before, 180 µs now (+12.5%)",
        "",
        "Before     Now  Difference          Kernel",
        "100 µs  120 µs      +20 µs  +20.0%  sgemm",
        "GPU time, median step of 11 before and 11 now; 2 within the noise (--all shows them)",
    ]
    assert [line.split()[-1] for line in printed(comparison, everything=True)[3:6]] == ["sgemm", "backward_kernel", "softmax"]


def test_a_narrow_terminal_has_the_difference(tmp_path: Path) -> None:
    comparison = compare(plain(tmp_path / "a", sgemm=100, softmax=50), plain(tmp_path / "b", sgemm=80, layer_norm=5), by="kernel")
    lines = printed(comparison, width=50)
    assert [line.split() for line in lines[1:4]] == [
        ["−50", "µs", "gone", "softmax"],
        ["−20", "µs", "−20.0%", "sgemm"],
        ["+5", "µs", "new", "layer_norm"],
    ]


def test_json_has_the_tables_values(tmp_path: Path) -> None:
    comparison = compare(run(tmp_path / "a", 12, noise=0), run(tmp_path / "b", 12, gemm=120, noise=0), by="kernel")
    answer = json.loads(to_json(comparison))
    assert answer["step"]["beyond"] is True
    (difference,) = answer["differences"]
    assert (difference["by"], difference["unit"], difference["base_steps"]) == ("kernel", "ns", 11)
    assert difference["rows"] == [
        {"name": "sgemm", "base": 1e5, "new": 1.2e5, "difference": 2e4, "low": 2e4, "high": 2e4, "beyond": True, "only": ""}
    ]
    assert len(json.loads(to_json(comparison, everything=True))["differences"][0]["rows"]) == 3

"""Findings of steps and layers that take longer than their like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from stories import US, Story
from story_findings import busy, found


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


def test_a_layer_that_takes_longer_than_its_sisters_is_named_by_its_innermost_part(tmp_path: Path) -> None:
    story = Story()
    layers(story, {f"layers.{n}.{part}": 100 for n in range(5) for part in ("attn", "mlp")} | {"layers.3.attn": 400})
    finding = found(story, tmp_path)["slow-layer"]
    assert finding.sentence == "layers.3.attn takes 4.0 times as much as its sisters: 31% of GPU time, they 7.7% each"
    assert (finding.view.table, finding.view.by) == ("layers", "layer")
    assert (finding.view.column, finding.view.names) == ("group", ("layers.*.attn",))
    assert [text for text in SISTERS if re.search(finding.view.search, text)] == ["layers.*.attn", "layers.*.attn.qkv"]


def test_layers_that_take_the_same_or_differ_a_little_or_have_no_sisters(tmp_path: Path) -> None:
    story = Story()
    layers(story, {f"layers.{n}.attn": 100 + 20 * n for n in range(5)} | {"blocks.0.mlp": 100, "blocks.1.mlp": 900, "head": 3000})
    assert "slow-layer" not in found(story, tmp_path)

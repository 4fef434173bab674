"""Findings from hardware counters: layers below their sisters, and kernels far from the limit of their device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from stories import Counted
from story_findings import found

STEPS, LAYERS = 8, 5
STEP_US = 10_000


def steps(story: Counted, took: Mapping[int, float], memory: Mapping[int, float], part: str = "mlp", usual: float = 0.83) -> None:
    """Each step runs a kernel of 500 µs at 83% of the memory's bandwidth in each layer; by its number another time and share."""
    for step in range(STEPS):
        now = float(STEP_US * (step + 1))
        for number in range(LAYERS):
            length = took.get(number, 500)
            outer = f"model/layers.{number}"
            story.layer_work(now - 10, now, now + length, "model", outer, f"{outer}.{part}", name="elementwise")
            story.count(memory=memory.get(number, usual))
            now += length
        story.during("optimizer", now - 5, now - 4)


def test_a_layer_that_reaches_less_of_the_bandwidth_than_its_sisters_is_named(tmp_path: Path) -> None:
    story = Counted()
    steps(story, took={3: 1000}, memory={3: 0.415})
    finding = found(story, tmp_path)["layer-below-limit"]
    # Six steps of 10 ms and the work of the last one; in each 500 µs that its sisters would not take.
    share = 7 * 500 / (6 * STEP_US + 3000)
    assert finding.share == pytest.approx(share, rel=0.02)
    assert finding.sentence.startswith("layers.3.mlp reaches 41% of the memory's bandwidth where its sisters reach 83%: could win ") or (
        finding.sentence.startswith("layers.3.mlp reaches 42% of the memory's bandwidth where its sisters reach 83%: could win ")
    )
    assert finding.sentence.endswith(f"could win {share:.0%} of each step")
    assert (finding.view.table, finding.view.column, finding.view.names) == ("layers", "layer", ("layers.3.mlp",))
    assert re.search(finding.view.search, "layers.*.mlp")


def test_short_kernels_are_not_accused_since_their_counts_are_less_exact(tmp_path: Path) -> None:
    story = Counted()
    for step in range(4 * STEPS):
        now = float(STEP_US * (step + 1))
        for number in range(LAYERS):
            for _ in range(20):
                length = 90 if number == 3 else 45
                outer = f"model/layers.{number}"
                story.layer_work(now - 10, now, now + length, "model", outer, f"{outer}.mlp", name="elementwise")
                story.count(memory=0.415 if number == 3 else 0.83)
                now += length
        story.during("optimizer", now - 5, now - 4)
    assert not {"layer-below-limit", "far-from-limit"} & set(found(story, tmp_path))


def test_it_stands_for_the_general_finding_about_a_slow_layer(tmp_path: Path) -> None:
    story = Counted()
    steps(story, took={3: 1250}, memory={3: 0.33})
    listed = found(story, tmp_path)
    assert "layer-below-limit" in listed
    assert "slow-layer" not in listed


def test_several_layers_are_counted(tmp_path: Path) -> None:
    story = Counted()
    steps(story, took={1: 1000, 3: 1000}, memory={1: 0.4, 3: 0.4})
    sentence = found(story, tmp_path)["layer-below-limit"].sentence
    assert sentence.startswith(
        "layers.3.mlp and 1 more of 5 layers.*.mlp reach 40% of the memory's bandwidth where their sisters reach 83%"
    )


@pytest.mark.parametrize(
    ("took", "memory", "usual"),
    [
        ({3: 780}, {3: 0.52}, 0.83),  # it reaches 63% of its sisters' share
        ({3: 560}, {3: 0.2}, 0.45),  # sisters are not near the limit either
        ({3: 60}, {3: 0.4}, 0.83),  # 0.3% of the steps
        ({}, {}, 0.83),
    ],
    ids=["a-little", "sisters-far", "short", "alike"],
)
def test_near_misses_are_silent(tmp_path: Path, took: dict[int, float], memory: dict[int, float], usual: float) -> None:
    story = Counted()
    steps(story, took, memory, usual=usual)
    assert "layer-below-limit" not in found(story, tmp_path)


def test_layers_without_sisters_are_not_compared(tmp_path: Path) -> None:
    story = Counted()
    for step in range(STEPS):
        now = float(STEP_US * (step + 1))
        for number, memory in ((0, 0.9), (1, 0.2)):
            story.layer_work(now - 10, now, now + 900, "model", f"model/layers.{number}", name="elementwise")
            story.count(memory=memory)
            now += 900
        story.during("optimizer", now - 5, now - 4)
    assert "layer-below-limit" not in found(story, tmp_path)


def kernels(story: Counted, memory: float, tensor: float = 0.0, length: float = 2000, launches: int = 3, others: float = 3000) -> None:
    for step in range(STEPS):
        now = float(STEP_US * (step + 1))
        for _ in range(launches):
            story.layer_work(now - 10, now, now + length, "model", name="far_kernel")
            story.count(memory=memory, tensor=tensor)
            now += length
        story.layer_work(now - 10, now, now + others, "model", name="near_kernel")
        story.count(memory=0.9)
        story.during("optimizer", now + others - 5, now + others - 4)


def test_a_kernel_far_from_its_limit_is_named_with_what_it_would_win(tmp_path: Path) -> None:
    story = Counted()
    kernels(story, memory=0.2, tensor=0.1)
    finding = found(story, tmp_path)["far-from-limit"]
    share = 7 * 6000 / (6 * STEP_US + 9000)
    assert finding.share == pytest.approx(share, rel=0.02)
    assert "far_kernel takes 61% of each step and reaches 20% of the memory's bandwidth, 10% of the tensor cores' rate" in finding.sentence
    assert "(21 launches at train.py:" in finding.sentence
    assert finding.sentence.endswith(f"at 80% of its limit it would win {share * 0.75:.0%}")
    assert finding.recoverable == pytest.approx(share * 0.75 / 2, rel=0.02)


@pytest.mark.parametrize(
    "given",
    [
        {"memory": 0.42},
        {"memory": 0.1, "tensor": 0.5},
        {"memory": 0.2, "length": 10, "launches": 300, "others": 900},  # too short to fill the device
        {"memory": 0.2, "length": 250, "others": 7000},  # 8% of the time
        {"memory": 0.2, "length": 6000, "launches": 1},  # seven launches are no habit
    ],
    ids=["nearer", "tensor", "short", "little", "few"],
)
def test_kernels_nearer_shorter_or_rarer_are_silent(tmp_path: Path, given: dict[str, float]) -> None:
    story = Counted()
    kernels(story, **given)  # type: ignore[arg-type]
    assert "far-from-limit" not in found(story, tmp_path)


def test_without_counters_neither_is_named(tmp_path: Path) -> None:
    story = Counted()
    steps(story, took={3: 1000}, memory={})
    story.tables["gpu_counters"] = []
    assert {"layer-below-limit", "far-from-limit"}.isdisjoint(found(story, tmp_path))

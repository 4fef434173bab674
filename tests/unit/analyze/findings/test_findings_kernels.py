"""Findings of kernels: the hottest family, the hottest kernel, and the stall of its warps."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories import VENDOR, Story
from story_findings import busy, found

from aiflame.analyze.findings.advice import OF_STALLS, fix
from aiflame.resolve.device.stall_reasons import MEANINGS, NO_STALLS, VENDORS


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


def test_the_hottest_family_is_a_finding_with_its_layers_and_stall_reason(tmp_path: Path) -> None:
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


def test_without_samples_the_hottest_family_is_a_finding_with_its_launching_line(tmp_path: Path) -> None:
    story = Story()
    hot(story)
    finding = found(story, tmp_path)["hot-group"]
    assert finding.sentence == "30% of GPU time is gemm in layers.*.mlp; most of it is launched at train.py:1"
    assert finding.view.view == "flame"


def test_a_kernel_that_is_most_of_its_family_is_named_itself(tmp_path: Path) -> None:
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


def test_a_kernel_is_reported_once(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("prefix", "reason", "issued", "remedy"),
    [
        pytest.param("eustall_", "sbid", "active", "shared local memory", id="Intel"),
        pytest.param("", "waitcnt", "selected", "tiles in LDS", id="AMD"),
    ],
)
def test_a_stall_in_another_vendors_words(tmp_path: Path, prefix: str, reason: str, issued: str, remedy: str) -> None:
    story = Story()
    hot(story)
    story.sampled("softmax", {issued: 20, reason: 80}, line=5)
    for row in story.tables["stall_reasons"]:
        row["name"] = prefix + row["name"].removeprefix(VENDOR)
    finding = found(story, tmp_path)["hot-stall"]
    begin = f"softmax takes 12% of GPU time; 80% of its samples are held up by {reason} ({MEANINGS[reason].partition(':')[0]})"
    assert finding.sentence.startswith(begin) and finding.sentence.endswith("most at kernels.cu:5")
    assert remedy in fix(finding)


@pytest.mark.parametrize("vendor", ["NVIDIA", "AMD", "Intel"])
def test_each_stall_that_says_where_to_look_has_a_remedy(vendor: str) -> None:
    """Not those that say no more than "other", and that of pixel shaders."""
    reasons = {reason for reason, of in VENDORS.items() if of == vendor} - NO_STALLS
    assert reasons - OF_STALLS.keys() <= {"misc", "none", "other", "other_wait", "internal_instruction", "tdr"}

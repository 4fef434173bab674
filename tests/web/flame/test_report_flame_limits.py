"""The flame graph of GPU time, coloured by how near kernels come to the limits of their device."""

from __future__ import annotations

from pathlib import Path

import pytest
from limited_training import ADD, GEMM, NORM, training
from report_flame import Flames

from aiflame.profile.tables.store import Profile
from aiflame.render.colors import limit_fills
from aiflame.render.report.facts_block import facts_makers

LIGHT = limit_fills("light")
BY_LAYER = "by=layer&color=limit"
CLASSES = ["below 20%", "20 to 40%", "40 to 60%", "60 to 80%", "80% or more", "no limit known"]


Blocks = dict[str, bytes]


def blocks(profile: Profile) -> Blocks:
    return {"facts.device": facts_makers(profile)["device"]()}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Blocks:
    """Eight steps: kernels of 1 ms at 75% of the tensor cores' rate, of 400 µs at 90% of the bandwidth, of 100 µs at 15%; and a copy."""
    story = training()
    story.work(36_000, 36_000, 36_100, name="HOST_TO_DEVICE")
    return blocks(story.profile(tmp_path_factory.mktemp("limits")))


def test_frames_have_the_colour_of_their_share_of_the_limit(flame: Flames, counted: Blocks) -> None:
    opened = flame(counted, BY_LAYER)
    for name, color in ((GEMM, LIGHT[3]), (ADD, LIGHT[4]), (NORM, LIGHT[0]), ("norm", LIGHT[0])):
        assert opened.bar(name)["color"] == color, name
    assert opened.bar("mlp")["color"] == LIGHT[3], "(1000 · 75% + 400 · 90%) of 1400 µs"


def test_the_tooltip_says_which_limit_and_what_could_be_won(flame: Flames, counted: Blocks) -> None:
    opened = flame(counted, BY_LAYER)
    assert "75% of the tensor cores' limit; could win 2 ms" in opened.hover(GEMM)
    assert "15% of the memory's limit; could win 680 µs" in opened.hover(NORM)
    assert "79% of the tensor cores' limit; could win 2.32 ms" in opened.hover("mlp")


def test_the_legend_is_the_scale_from_far_to_near_and_highlights(flame: Flames, counted: Blocks) -> None:
    opened = flame(counted, BY_LAYER)
    labels = [text.split("\n") for text in opened.page.locator(".flame-kind").all_inner_texts()]
    assert labels == [list(pair) for pair in zip(CLASSES, ["6.6%", "0.00%", "0.00%", "66.1%", "26.4%", "0.83%"], strict=True)]
    assert "of the device's limit:" in opened.text(".flame-legend")
    opened.kind("below 20%").click()
    assert {NORM, "norm"} <= {bar["name"] for bar in opened.bars() if not bar["dim"]}
    assert opened.bar(GEMM)["dim"]


def test_what_has_no_limit_is_grey(flame: Flames, counted: Blocks) -> None:
    opened = flame(counted, BY_LAYER)
    assert opened.bar("[copy host→device]")["color"] == LIGHT[5]
    assert "limit" not in opened.hover("[copy host→device]")
    assert "known for" not in opened.hover("mlp")


def test_a_frame_with_some_counted_kernels_says_for_how_much_it_is_known(flame: Flames, tmp_path: Path) -> None:
    """The copy of a ninth of the time stands beside kernels, below their process."""
    story = training()
    story.work(36_000, 36_000, 37_500, name="HOST_TO_DEVICE")
    opened = flame(blocks(story.profile(tmp_path)), BY_LAYER)
    assert "known for 88.9% of the time" in opened.hover("train.py (4711)")


def test_colours_are_chosen_in_the_menu_and_with_a_key(flame: Flames, counted: Blocks) -> None:
    opened = flame(counted, "by=layer")
    usual = opened.bar(NORM)["color"]
    assert usual not in LIGHT
    opened.view_menu("color", "limit")
    assert opened.bar(NORM)["color"] == LIGHT[0]
    assert opened.state()["color"] == "limit"
    opened.press("k")
    assert opened.bar(NORM)["color"] == usual


@pytest.mark.parametrize("state", ["&inverted=1", "&sandwich=mlp", "&by=step", "&detail=line"])
def test_graphs_that_are_made_otherwise_keep_the_colours(flame: Flames, counted: Blocks, state: str) -> None:
    opened = flame(counted, BY_LAYER + state)
    assert opened.bar(GEMM)["color"] == LIGHT[3]
    assert {bar["color"] for bar in opened.bars()} <= set(LIGHT)


def test_other_metrics_and_profiles_without_counters_have_no_such_colours(flame: Flames, tmp_path: Path, counted: Blocks) -> None:
    assert flame(counted, BY_LAYER + "&metric=dram-bytes").bar(NORM)["color"] not in LIGHT
    plain = flame(blocks(training(counters=False).profile(tmp_path)), BY_LAYER)
    assert plain.bar(NORM)["color"] not in LIGHT
    plain.page.click(".flame-menu-holder > button")
    assert not plain.page.get_by_text("by % of the device's limit").is_visible()


def test_compared_with_the_rest_changes_have_the_colours(flame: Flames, counted: Blocks) -> None:
    opened = flame(counted, BY_LAYER + "&steps=2-3&against=rest")
    assert {bar["color"] for bar in opened.bars()}.isdisjoint(LIGHT)

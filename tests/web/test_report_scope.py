"""FlameScope in a real browser: cells whose values are known, selections by every way there is, steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_facts import Leaf, Site, facts, kernel, process, python
from report_pages import Opener, Report, reports
from shared_pages import Pages

from aiflame.attribute.tree import Frame, Kind
from aiflame.render.colors import diff_fill

MS = 1_000_000


@pytest.fixture
def scope(pages: Pages, tmp_path: Path) -> Iterator[Opener]:
    with reports(pages, tmp_path, ".sc-canvas") as opener:
        yield opener


def site(name: str, layer: str, moments: dict[int, int], slots: dict[tuple[int, int], int] | None = None) -> Site:
    paths = {
        "process": process(),
        "code": python("main", f"run_{name}"),
        "kernel": kernel(name),
        "phase": (Frame("Forward", Kind.PHASE),),
        "layer": (Frame("layers.0", Kind.LAYER), Frame(layer, Kind.LAYER)),
    }
    return Site(paths, [Leaf({"gpu-time": sum(moments.values())}, (), 1)], moments=moments, slots=slots or {})


def three_seconds(**options: Any) -> dict[str, bytes]:
    """3000 bins of 1 ms: gemm fills the first half of each 100 ms, softmax a tenth of bins 250 to 259, nothing runs in 60 and 61. Twenty
    steps, all slots of each filled by gemm, but for the first half of step 12."""
    gemm = {bin_: MS for bin_ in range(3000) if bin_ % 100 < 50}
    slots = {(step, slot): 5000 for step in range(20) for slot in range(100) if not (step == 12 and slot < 50)}
    idle = Site({"process": process(), "alone": (Frame("[GPU idle]", Kind.GPU_IDLE),)}, [Leaf({"gpu-time": 1})], moments={60: MS, 61: MS})
    sites = [site("gemm", "mlp", gemm, slots), site("softmax", "attn", dict.fromkeys(range(250, 260), MS // 10)), idle]
    return {"facts.device": facts(sites, bins=3000, **options)}


def cell(report: Report, column: int, row: int) -> tuple[float, float]:
    """The middle of a drawn cell; row 0 is the lowest."""
    drawn = report.drawn()
    x = drawn["left"] + (column + 0.4) * drawn["cellWidth"]
    return x, drawn["top"] + drawn["plotHeight"] - (row + 0.5) * drawn["cellHeight"]


def test_three_seconds_are_thirty_columns_of_a_tenth(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope")
    drawn = report.drawn()
    assert (drawn["by"], drawn["shown"], drawn["rows"]) == ("time", 30, 50)


def test_a_cell_is_darker_the_more_ran_in_it_and_idle_time_is_nothing(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope")
    full, tenth, empty, idle = (sum(report.pixel(*cell(report, *at))) for at in ((4, 10), (2, 27), (4, 40), (0, 30)))
    assert full < tenth < empty
    assert idle == empty


def test_the_pointer_is_told_value_share_and_what_was_hottest(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope")
    report.move(*cell(report, 2, 27))
    report.page.wait_for_function("() => document.querySelector('.sc-tip').textContent.includes('softmax')")
    text = report.text(".sc-tip")
    assert "200 µs GPU time" in text
    assert "10.0% of the time of one GPU" in text
    assert "254 ms … 256 ms" in text
    assert "softmax: 100.0%" in text
    assert "layer layers.0.attn: 100.0%" in text


def test_a_logarithmic_scale_lifts_what_is_little(scope: Opener) -> None:
    linear = scope(three_seconds(), "#view=scope")
    before = sum(linear.pixel(*cell(linear, 2, 27)))
    linear.page.select_option("label:has-text('Colours') select", "log")
    linear.settle()
    assert linear.state()["scale"] == "log"
    assert sum(linear.pixel(*cell(linear, 2, 27))) < before


def test_a_drag_across_columns_selects_time(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope")
    report.drag(cell(report, 2, 25), cell(report, 3, 4))
    assert report.state()["range"] == "250-309"
    strip = report.text(".sc-strip")
    assert "250 ms … 310 ms" in strip
    # gemm ran for 10 ms of it, softmax for 1 ms
    assert "11 ms GPU time" in strip
    assert "90.9%" in strip
    assert "run_softmax" in strip
    assert "layers.0.mlp" in strip
    assert "250 ms … 310 ms selected: 11 ms GPU time" in report.said()


def test_a_drag_backwards_selects_the_same(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope")
    report.drag(cell(report, 3, 4), cell(report, 2, 25))
    assert report.state()["range"] == "250-309"


def test_two_clicks_are_begin_and_end(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope")
    report.click(*cell(report, 5, 0))
    report.settle()
    assert report.state()["range"] == "500-501"
    report.click(*cell(report, 6, 49))
    report.settle()
    assert report.state()["range"] == "500-699"


def test_the_keyboard_selects_and_opens(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope")
    report.page.focus(".sc-canvas")
    report.press("ArrowRight", "ArrowRight", "ArrowUp")
    assert "102 ms" in report.said()
    report.press("Shift+ArrowUp", "Shift+ArrowUp")
    assert report.state()["range"] == "102-107"
    report.page.keyboard.press("Enter")
    report.page.wait_for_function("() => location.hash.includes('view=flame')")
    assert report.state()["range"] == "102-107"
    assert report.state()["metric"] == "gpu-time"


def test_the_strip_opens_the_flame_graph_of_the_range(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope&range=250-309")
    report.page.click(".sc-open")
    report.page.wait_for_function("() => location.hash.includes('view=flame')")
    assert report.state()["range"] == "250-309"
    report.page.wait_for_function("() => document.querySelector('.view[data-of=flame]').textContent.includes('11 ms')")


def test_escape_clears(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope&range=250-259")
    report.press("Escape")
    assert "range" not in report.state()
    assert report.page.locator(".sc-open").count() == 0


def test_a_link_shows_the_same(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope")
    report.page.select_option("label:has-text('Column') select", str(1_000_000_000))
    report.settle()
    report.page.select_option("label:has-text('Rows') select", "20")
    report.settle()
    report.drag(cell(report, 0, 3), cell(report, 1, 5))
    address = report.page.evaluate("location.hash")
    strip = report.text(".sc-strip")
    report.page.mouse.move(1, 1)
    report.settle()
    picture = report.page.eval_on_selector(".sc-canvas", "canvas => canvas.toDataURL()")
    report.open(address)
    report.wait_for_picture()
    assert report.text(".sc-strip") == strip
    assert report.page.eval_on_selector(".sc-canvas", "canvas => canvas.toDataURL()") == picture
    assert report.drawn()["rows"] == 20


def test_rows_are_only_as_fine_as_the_bins(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope&column=100000000")
    offered = report.page.eval_on_selector_all("label:has-text('Rows') option", "all => all.map((one) => one.value)")
    assert offered == ["10", "20", "25", "50", "100"]
    report.page.select_option("label:has-text('Column') select", str(10_000_000))
    report.settle()
    assert report.drawn()["rows"] == 10


def test_a_step_that_differs_stands_out(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope&by=step")
    drawn = report.drawn()
    assert (drawn["by"], drawn["shown"]) == ("step", 20)
    usual, odd, late = (report.pixel(*cell(report, *at)) for at in ((11, 10), (12, 10), (12, 40)))
    assert usual == late != odd


def test_steps_are_selected_whole(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope&by=step")
    report.drag(cell(report, 3, 20), cell(report, 9, 5))
    assert report.state()["steps"] == "3-9"
    assert "range" not in report.state()
    assert "Steps 3 to 9" in report.text(".sc-strip")
    report.page.keyboard.press("Enter")
    report.page.wait_for_function("() => location.hash.includes('view=flame')")
    assert report.state()["steps"] == "3-9"


def test_a_cell_of_a_step_says_which(scope: Opener) -> None:
    report = scope(three_seconds(), "#view=scope&by=step")
    report.move(*cell(report, 7, 0))
    report.page.wait_for_function("() => document.querySelector('.sc-tip').textContent.includes('gemm')")
    assert "step 7, 0–2% of its 1 ms" in report.text(".sc-tip")


def test_columns_that_do_not_fit_are_drawn_together_until_one_zooms_in(scope: Opener) -> None:
    busy = dict.fromkeys(range(0, 50000, 7), 5 * MS)
    report = scope({"facts.device": facts([site("gemm", "mlp", busy)], bins=50_000, bin_ns=10 * MS)}, "#view=scope&column=100000000")
    assert report.drawn()["shown"] < 300
    assert "each the mean of" in report.text(".sc-window")
    report.wheel(600, 300, -2000)
    for _ in range(18):
        report.wheel(600, 300, -100)
    assert "each the mean of" not in report.text(".sc-window")
    low, high = map(int, report.state()["at"].split("-"))
    assert high - low < 200
    report.press("PageDown")
    assert int(report.state()["at"].split("-")[0]) > low
    report.press("0")
    assert "at" not in report.state()


def test_samples_are_a_metric_of_their_own(scope: Opener) -> None:
    stalls = Site(
        {"process": process(), "kernel": kernel("gemm")}, [Leaf({"gpu-stalls": 8, "gpu-time": 0})], moments=dict.fromkeys(range(20), 4)
    )
    report = scope({"facts.device": facts([stalls], metrics=("gpu-stalls", "gpu-time"), bins=3000)}, "#view=scope&metric=gpu-stalls")
    report.drag(cell(report, 0, 0), cell(report, 0, 4))
    assert "40 GPU samples" in report.text(".sc-strip")


def sampled(window_ns: int) -> dict[str, bytes]:
    """Steps of 1 ms, ten samples in each slot of step 4 and one in those of the others."""
    slots = {(step, slot): 10 if step == 4 else 1 for step in range(8) for slot in range(100)}
    moments = dict.fromkeys(range(20), 85)
    stalls = Site({"process": process(), "kernel": kernel("gemm")}, [Leaf({"gpu-stalls": 1700})], moments=moments, slots=slots)
    return {"facts.device": facts([stalls], metrics=("gpu-stalls",), bins=20, window_ns=window_ns)}


def test_samples_lie_in_steps_and_it_is_said_how(scope: Opener) -> None:
    report = scope(sampled(250_000), "#view=scope&metric=gpu-stalls&by=step")
    assert report.drawn()["shown"] == 8
    usual, most, other = (report.pixel(*cell(report, column, 10)) for column in (3, 4, 5))
    assert usual == other != most
    assert report.page.locator("label:has-text('By') option").all_inner_texts() == ["time", "steps (divided)"]
    assert report.text(".sc-numbers").split("\n") == ["0", "500/ms", "1,000/ms"]
    said = report.text(".sc-note")
    assert "the window of 250 µs that it came in, which may be a later one" in said
    assert "divided over its steps by the time that their kernel ran in each" in said
    assert "look alike" not in said
    report.click(*cell(report, 4, 10))
    report.settle()
    assert "1,000 GPU samples" in report.text(".sc-strip")


def test_steps_shorter_than_a_window_look_alike_and_that_is_said(scope: Opener) -> None:
    report = scope(sampled(20_000_000), "#view=scope&metric=gpu-stalls&by=step")
    assert "Steps take 1 ms: those that lie in one window look alike." in report.text(".sc-note")


def test_what_is_exact_needs_no_note(scope: Opener) -> None:
    assert scope(three_seconds(window_ns=MS), "#view=scope&by=step").text(".sc-note") == ""


@pytest.mark.parametrize("how", ["button", "key"])
def test_a_selection_is_compared_with_the_rest(scope: Opener, how: str) -> None:
    """60 ms of 3 s: softmax ran in them alone, gemm for 10 of them and for half of the rest."""
    report = scope(three_seconds(), "#view=scope&range=250-309")
    if how == "button":
        report.page.click(".sc-compare")
    else:
        report.page.keyboard.press("Shift+Enter")
    report.page.wait_for_selector(".flame-chip[data-key=against]")
    assert report.state() == {"view": "flame", "metric": "gpu-time", "range": "250-309", "against": "rest"}
    chips = [text.removesuffix("×").strip() for text in report.page.locator(".flame-chip").all_inner_texts()]
    assert chips[:2] == ["time 0.250 s – 0.310 s", "compared with the rest of the run, per second"]
    colors = "Object.fromEntries(document.querySelector('.flame').flame.chart.seen().map((bar) => [bar.name, bar.color]))"
    report.page.wait_for_function(f"() => '{diff_fill(6, 'light')}' === ({colors}).softmax")
    gemm = report.page.evaluate(colors)["gemm"]
    assert gemm == diff_fill(-5, "light")


def test_the_legend_has_numbers_and_both_themes_have_colours(scope: Opener) -> None:
    light = scope(three_seconds(), "#view=scope")
    dark = scope(three_seconds(), "#view=scope", color_scheme="dark")
    assert light.text(".sc-numbers").split("\n") == ["0", "1 ms", "2 ms"]
    empty, full = (light.pixel(*cell(light, 4, row)) for row in (40, 10))
    assert sum(full) < sum(empty)
    empty, full = (dark.pixel(*cell(dark, 4, row)) for row in (40, 10))
    assert sum(full) > sum(empty)
    dark.press("t")
    assert dark.pixel(*cell(dark, 4, 10)) == light.pixel(*cell(light, 4, 10))


def test_hostile_names_stay_text(scope: Opener) -> None:
    name = "<img src=x onerror=alert(1)></script>" + "y" * 100_000
    report = scope({"facts.device": facts([site(name, name, {5: MS})], bins=3000)}, "#view=scope&range=0-10")
    assert "<img src=x" in report.text(".sc-strip")
    assert report.page.locator("img").count() == 0


def test_a_report_without_moments_says_so(scope: Opener) -> None:
    report = scope({}, "#view=scope", picture=False)
    report.page.wait_for_selector(".sc-strip p")
    assert "Nothing in this report says when it ran" in report.text(".sc-strip")

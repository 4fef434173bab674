"""The report's timeline in a real browser: from the whole run to single kernels and back, with the facts of each."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from made_timelines import MS, ORIGIN, stream, training, waiting
from report_facts import Leaf, Site, facts, kernel, process
from report_pages import Opener, Report, reports
from shared_pages import Pages

from aiflame.attribute.timeline.tables import Making, TrackKind
from aiflame.render.report.timeline_block import timeline_block

STEP = "#view=timeline&time=0-10000000"
"""The first step, of 10 ms: 40 kernels, one each 250 µs, on stream 7."""


@pytest.fixture
def timeline(pages: Pages, tmp_path: Path) -> Iterator[Opener]:
    with reports(pages, tmp_path, ".tl-canvas") as opener:
        yield opener


@pytest.fixture(scope="module")
def run() -> dict[str, bytes]:
    """Six steps of 10 ms, but the fourth of 25 ms, each 1 ms after the other: 80 ms in all."""
    return {"timeline": timeline_block(training())}


def lane(report: Report, label: str) -> float:
    """Where it is drawn, from the top of the canvas."""
    drawn = report.drawn()
    row_y: float = next(row["y"] for row in drawn["rows"] if row["text"] == label)
    return row_y - float(drawn["top"])


def x_of(report: Report, time: float) -> float:
    drawn = report.drawn()
    width = report.page.eval_on_selector(".tl-canvas", "canvas => canvas.clientWidth")
    part = (time - drawn["begin"]) / (drawn["end"] - drawn["begin"])
    return float(drawn["gutter"] + part * (width - drawn["gutter"]))


def beginning(block: bytes, origin_ns: int) -> bytes:
    """The facts with another origin."""
    raw = gzip.decompress(block)
    (size,) = struct.unpack_from("<I", raw)
    head = json.loads(raw[4 : 4 + size])
    head["bins"]["origin_ns"] = origin_ns
    text = json.dumps(head).encode()
    return gzip.compress(struct.pack("<I", len(text)) + text + raw[4 + size :])


def shown(report: Report) -> tuple[float, float]:
    drawn = report.drawn()
    return drawn["begin"], drawn["end"]


def test_tracks_stand_below_their_owners(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, "#view=timeline")
    assert [row["text"] for row in report.drawn()["rows"]] == [
        "python train.py",
        "MainThread",
        "steps",
        "phases",
        "calls",
        "waits",
        "regions",
        "NVIDIA H200",
        "Stream 7",
        "Stream 14",
    ]
    assert shown(report) == (0, 80 * MS)


def test_what_ran_is_drawn_and_what_did_not_is_not(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, STEP)
    paper = report.pixel(x_of(report, 5.3 * MS), lane(report, "Stream 14"))
    assert report.pixel(x_of(report, 1.5 * MS), lane(report, "Stream 14")) != paper, "the copy"
    # A kernel begins 2 µs after its call, each 250 µs, and lasts 125 µs.
    assert report.pixel(x_of(report, 60_000), lane(report, "Stream 7")) != paper
    assert report.pixel(x_of(report, 190_000), lane(report, "Stream 7")) == paper


def test_the_pointer_is_told_of_a_kernel(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, STEP)
    report.move(x_of(report, 310_000), lane(report, "Stream 7"))
    report.page.wait_for_function("() => document.querySelector('.tl-tip').textContent.includes('launch')")
    text = report.text(".tl-tip")
    assert "gemm_bf16" in text
    assert "125 µs from 252 µs" in text
    assert "step 0 · layers.0.mlp" in text
    assert "ran 2 µs after its launch" in text


def test_a_click_tells_all_of_a_kernel(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, STEP)
    report.click(x_of(report, 310_000), lane(report, "Stream 7"))
    report.settle()
    details = report.text(".tl-details")
    for detail in ("gemm_bf16", "125 µs", "python train.py › NVIDIA H200 › Stream 7", "model.py:57 forward", "128", "layers.0.mlp"):
        assert detail in details
    assert "gemm_bf16, 125 µs, step 0, layer layers.0.mlp" in report.said()
    assert report.state()["slice"].isdigit()
    report.press("Escape")
    assert not report.page.is_visible(".tl-details")
    assert "slice" not in report.state()


def test_the_wheel_zooms_about_the_pointer(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, "#view=timeline")
    x = x_of(report, 40 * MS)
    report.wheel(x, 200, -400)
    begin, end = shown(report)
    assert end - begin < 60 * MS
    assert x_of(report, 40 * MS) == pytest.approx(x, abs=1)
    report.wheel(x, 200, 2000)
    assert shown(report)[1] - shown(report)[0] >= 80 * MS


def test_one_zooms_from_the_run_to_a_single_kernel(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, "#view=timeline")
    y = lane(report, "Stream 7")
    for _ in range(40):
        report.page.mouse.move(*report.at(x_of(report, 50_310_000), y))
        report.page.mouse.wheel(0, -120)
        report.page.wait_for_timeout(20)
    report.settle()
    begin, end = shown(report)
    assert end - begin < 100_000
    report.move(x_of(report, 50_310_000), y)
    report.page.wait_for_function("() => document.querySelector('.tl-tip').textContent.includes('from')")
    assert report.drawn()["pieces"] < 20


def test_a_drag_pans(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, "#view=timeline&time=20000000-30000000")
    report.drag((900, 250), (650, 250))
    begin, end = shown(report)
    assert end - begin == pytest.approx(10 * MS)
    assert begin > 21 * MS
    report.drag((400, 250), (650, 250))
    assert shown(report)[0] == pytest.approx(20 * MS, abs=100)


def test_keys_zoom_and_pan(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, "#view=timeline&time=20000000-30000000")
    report.press("d")
    begin, _ = shown(report)
    assert begin > 20 * MS
    report.press("a")
    assert shown(report)[0] == pytest.approx(20 * MS, abs=100)
    report.press("w")
    begin, end = shown(report)
    assert end - begin < 8 * MS
    report.press("s", "s")
    begin, end = shown(report)
    assert end - begin > 12 * MS
    report.press("0")
    assert shown(report) == (0, 80 * MS)
    assert "time" not in report.state()


def test_a_double_click_fits_the_step(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, "#view=timeline")
    report.page.mouse.dblclick(*report.at(x_of(report, 45 * MS), lane(report, "waits")))
    report.settle()
    begin, end = shown(report)  # the fourth step: 33 to 58 ms
    assert begin == pytest.approx(33 * MS, abs=2 * MS)
    assert end == pytest.approx(58 * MS, abs=2 * MS)


def test_a_drag_on_the_ruler_says_what_ran_in_it(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, STEP)
    # Ten kernels, the first, the fourth, the seventh and the tenth of which are attention; and the copy of 1 ms.
    report.drag((x_of(report, 0), 10), (x_of(report, 2.5 * MS), 10))
    begin, end = map(int, report.state()["mark"].split("-"))
    assert (begin, end) == pytest.approx((0, 2.5 * MS), abs=20_000)
    details = report.text(".tl-details")
    rows = {row[0]: row[1:] for row in (line.split("\t") for line in details.split("\n")) if len(row) == 4}
    assert rows["[copy host→device]"] == ["1 ms", "44.4%", "1"]
    assert rows["gemm_bf16"] == ["750 µs", "33.3%", "6"]
    assert rows["attention_fwd"] == ["500 µs", "22.2%", "4"]
    assert "2.25 ms on devices" in details
    assert "2.25 ms on devices" in report.said()


def test_a_selected_time_opens_as_bins_in_the_flame_graph(timeline: Opener, run: dict[str, bytes]) -> None:
    gemm = Site({"process": process(), "kernel": kernel("gemm")}, [Leaf({"gpu-time": 100})], moments=dict.fromkeys(range(100), MS))
    report = timeline({**run, "facts.device": beginning(facts([gemm]), ORIGIN - 10 * MS)}, "#view=timeline&mark=5000000-7500000")
    report.page.click(".tl-flame")
    report.page.wait_for_function("() => location.hash.includes('view=flame')")
    assert report.state()["range"] == "15-17"
    assert report.state()["metric"] == "gpu-time"


def test_arrow_keys_go_from_slice_to_slice(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, STEP)
    report.click(x_of(report, 310_000), lane(report, "Stream 7"))
    report.settle()
    first = int(report.state()["slice"])
    report.press("ArrowRight")
    assert int(report.state()["slice"]) == first + 1
    report.press("ArrowLeft", "ArrowLeft")
    assert int(report.state()["slice"]) == first - 1
    report.press("ArrowDown")
    assert "[copy host→device]" in report.said()
    report.press("Enter")
    begin, end = shown(report)
    assert (begin, end) == pytest.approx((MS, 2 * MS), abs=50_000)


def test_arrow_keys_in_quick_succession_each_go_one_slice_on(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, STEP)
    report.click(x_of(report, 310_000), lane(report, "Stream 7"))
    report.settle()
    first = int(report.state()["slice"])
    press_twice = """key => [1, 2].forEach(() => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })))"""
    report.page.evaluate(press_twice, "ArrowRight")
    report.page.wait_for_function("slice => new URLSearchParams(location.hash.slice(1)).get('slice') === slice", arg=str(first + 2))


def test_a_click_on_a_title_folds_it(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, "#view=timeline")
    report.click(60, lane(report, "MainThread"))
    report.settle()
    texts = [row["text"] for row in report.drawn()["rows"]]
    assert texts == ["python train.py", "MainThread", "NVIDIA H200", "Stream 7", "Stream 14"]
    address = report.page.evaluate("location.hash")
    report.open(address)
    report.wait_for_picture()
    assert [row["text"] for row in report.drawn()["rows"]] == texts


def test_a_link_shows_the_same(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, STEP)
    report.wheel(600, 200, -300)
    report.click(x_of(report, 4_810_000), lane(report, "Stream 7"))
    report.settle()
    report.page.mouse.move(1, 1)
    report.settle()
    seen = [report.text(".tl-details"), report.page.eval_on_selector(".tl-canvas", "canvas => canvas.toDataURL()")]
    report.open(report.page.evaluate("location.hash"))
    report.wait_for_picture()
    assert [report.text(".tl-details"), report.page.eval_on_selector(".tl-canvas", "canvas => canvas.toDataURL()")] == seen


def test_a_million_kernels_are_a_few_thousand_pieces(timeline: Opener) -> None:
    begin = ORIGIN + np.arange(1_000_000) * 1000
    report = timeline({"timeline": timeline_block(stream(begin, begin + 700, ["a", "b", "c"]))}, "#view=timeline")
    assert report.drawn()["pieces"] <= 1300
    assert report.page.evaluate("document.querySelectorAll('*').length") < 400
    report.move(600, lane(report, "Stream 7"))
    report.page.wait_for_function("() => document.querySelector('.tl-tip').textContent.includes('kernels')")
    assert "70% of it busy" in report.text(".tl-tip")


def test_busy_stretches_are_darker_than_idle_ones(timeline: Opener) -> None:
    begin = ORIGIN + np.arange(200_000) * 1000
    length = np.where(np.arange(200_000) < 100_000, 900, 100)
    report = timeline({"timeline": timeline_block(stream(begin, begin + length, ["a"]))}, "#view=timeline")
    y = lane(report, "Stream 7")
    assert sum(report.pixel(400, y)) < sum(report.pixel(1000, y))


def test_merged_slices_are_told_apart_from_single_ones(timeline: Opener) -> None:
    begin = ORIGIN + np.arange(50_000) * 1000
    report = timeline({"timeline": timeline_block(stream(begin, begin + 700, ["a"]), most=1000)}, "#view=timeline&slice=3")
    assert "50,000 slices: those shorter than" in report.text(".tl-hint")
    assert "slices, busy for" in report.text(".tl-details")


def test_both_themes_are_readable(timeline: Opener, run: dict[str, bytes]) -> None:
    light, dark = timeline(run, STEP), timeline(run, STEP, color_scheme="dark")
    at = x_of(light, 5.3 * MS), lane(light, "Stream 14")
    assert sum(light.pixel(*at)) > 600
    assert sum(dark.pixel(*at)) < 150
    dark.press("t")
    assert dark.pixel(*at) == light.pixel(*at)


def test_a_finger_pans_and_two_zoom(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline(run, "#view=timeline&time=20000000-30000000", has_touch=True)
    client = report.page.context.new_cdp_session(report.page)

    def touch(kind: str, *fingers: tuple[float, float]) -> None:
        points = [dict(zip("xy", report.at(*finger), strict=True), id=number) for number, finger in enumerate(fingers)]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", (800, 250))
    touch("touchMove", (700, 250))
    touch("touchMove", (600, 250))
    touch("touchEnd")
    report.settle()
    begin, end = shown(report)
    assert begin > 20.5 * MS
    assert end - begin == pytest.approx(10 * MS)
    touch("touchStart", (500, 250))
    touch("touchStart", (500, 250), (700, 250))
    touch("touchMove", (500, 250), (800, 250))
    touch("touchMove", (500, 250), (900, 250))
    touch("touchEnd")
    report.settle()
    assert shown(report)[1] - shown(report)[0] == pytest.approx(5 * MS, rel=0.05)


def test_hostile_names_stay_text(timeline: Opener) -> None:
    name = "<img src=x onerror=alert(1)></script>" + "y" * 100_000
    begin = ORIGIN + np.arange(3) * 1000
    report = timeline({"timeline": timeline_block(stream(begin, begin + 900, [name]))}, "#view=timeline&slice=1")
    assert "<img src=x" in report.text(".tl-details")
    assert report.page.locator("img").count() == 0


def test_a_timeline_without_slices_says_so(timeline: Opener) -> None:
    none = np.zeros(0, dtype=np.int64)
    report = timeline({"timeline": timeline_block(stream(none, none, ["a"]))}, "#view=timeline", picture=False)
    report.page.wait_for_selector(".tl-none")


def test_a_report_without_a_timeline_says_so(timeline: Opener) -> None:
    report = timeline({}, "#view=timeline", picture=False)
    report.page.wait_for_selector(".tl-none")


def with_counters() -> dict[str, bytes]:
    """The same run with its GPU's power, which is 100 W up to 40 ms and 400 W after that; and eight more counters of the machine."""
    making = Making()
    machine = making.track(TrackKind.MACHINE, -1, 0, "Machine")
    gpu = making.track(TrackKind.MACHINE, machine, 0, "NVIDIA H200 [0]")
    for at, label in enumerate(["power", *(f"counter {number}" for number in range(8))]):
        track = making.track(TrackKind.COUNTER, gpu, 0, label, unit="W")
        times = [ORIGIN, ORIGIN + 40 * MS]
        making.points(pl.DataFrame({"time_ns": times, "value": [100.0 + at, 400.0 + at]}).with_columns(track=pl.lit(track)))
    return {"timeline": timeline_block(training(), counted=making.finish())}


@pytest.fixture(scope="module")
def counted() -> dict[str, bytes]:
    return with_counters()


def test_counters_are_small_rows_at_the_top_the_most_telling_first(timeline: Opener, counted: dict[str, bytes]) -> None:
    report = timeline(counted, "#view=timeline")
    texts = [row["text"] for row in report.drawn()["rows"]]
    assert texts[:9] == [
        "NVIDIA H200 [0]", "power", *(f"counter {at}" for at in range(5)), "More counters (3)", "python train.py",
    ]  # fmt: skip
    paper = report.pixel(x_of(report, 10 * MS), lane(report, "power") - 4)
    assert report.pixel(x_of(report, 60 * MS), lane(report, "power") - 4) != paper, "400 W reach to the top, 100 W do not"


def test_counters_fold_away_and_more_of_them_open(timeline: Opener, counted: dict[str, bytes]) -> None:
    report = timeline(counted, "#view=timeline")
    report.click(20, lane(report, "More counters (3)"))
    report.settle()
    assert "counter 7" in [row["text"] for row in report.drawn()["rows"]]
    report.click(20, lane(report, "NVIDIA H200 [0]"))
    report.settle()
    assert "power" not in [row["text"] for row in report.drawn()["rows"]]
    assert report.state()["turned"] == "-2.-1"
    report.open(f"#view=timeline&turned={report.state()['turned']}")
    report.wait_for_picture()
    assert [row["text"] for row in report.drawn()["rows"]][:3] == ["NVIDIA H200 [0]", "More counters (3)", "NVIDIA H200 [0] (3)"]


def test_the_pointer_is_told_what_was_counted(timeline: Opener, counted: dict[str, bytes]) -> None:
    report = timeline(counted, "#view=timeline")
    report.move(x_of(report, 60 * MS), lane(report, "power"))
    report.page.wait_for_function("() => document.querySelector('.tl-tip').textContent.includes('power: 400 W')")
    report.move(x_of(report, 10 * MS), lane(report, "power"))
    report.page.wait_for_function("() => document.querySelector('.tl-tip').textContent.includes('power: 100 W')")


def test_a_wait_has_its_colour_and_the_legend_adds_up(timeline: Opener, run: dict[str, bytes]) -> None:
    report = timeline({"timeline": timeline_block(waiting())}, "#view=timeline")
    assert report.page.locator(".tl-legend li").all_inner_texts() == ["running 35.0%", "waiting 65.0%"]
    colors = report.page.eval_on_selector_all(".tl-legend i", "all => all.map((one) => one.style.backgroundColor)")
    assert len(set(colors)) == 2
    assert timeline(run, STEP).page.locator(".tl-legend").is_hidden()

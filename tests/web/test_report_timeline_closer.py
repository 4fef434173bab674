"""The timeline of a served report: a stretch under a closer look is read again, with everything that ran there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from made_timelines import MS, ORIGIN
from report_pages import PATIENCE_MS, Opener, Report, reports
from shared_pages import Pages
from test_report_timeline import lane, shown, x_of

from aiflame.attribute.timeline.tables import Making, SliceKind, Timeline, TrackKind
from aiflame.attribute.timeline.windows import TooMuch
from aiflame.render.report.server import Server
from aiflame.render.report.timeline_block import timeline_block

MANY = 60_000
PACE = 2000
CLOSE = "#view=timeline&time=20000000-20040000"
"""Twenty kernels, one each 2 µs, each of which lasts 1.4 µs and was called 600 ns before, of 60,000 in 120 ms. The first call is
the origin."""
KERNEL, CALL = 20.0213 * MS, 20.0261 * MS
"""A moment in one of them, and in a call."""
FAR = "#view=timeline&time=100000000-100040000"


def launched() -> Timeline:
    making = Making()
    process = making.track(TrackKind.PROCESS, -1, 0, "python train.py", number=4711)
    thread = making.track(TrackKind.THREAD, process, 0, "MainThread", thread=1, number=4711)
    device = making.track(TrackKind.DEVICE, process, 0, "NVIDIA H200")
    stream = making.track(TrackKind.STREAM, device, 0, "Stream 7", number=7)
    begin = ORIGIN + np.arange(MANY) * PACE
    kernels = pl.DataFrame({"begin_ns": begin, "end_ns": begin + 1400, "name": making.names(["gemm", "softmax"])[np.arange(MANY) % 2]})
    calls = pl.DataFrame({"begin_ns": begin - 600, "end_ns": begin - 400, "name": np.repeat(making.names(["cudaLaunchKernel"]), MANY)})
    step = pl.DataFrame({"begin_ns": [ORIGIN - 600], "end_ns": [begin[-1] + 1400], "name": making.names(["Step.0"])})
    flow = pl.Series("flow", np.arange(1, MANY + 1))
    making.slices(
        step.with_columns(track=pl.lit(thread), depth=pl.lit(0), kind=pl.lit(int(SliceKind.STEP))),
        calls.with_columns(flow, track=pl.lit(thread), depth=pl.lit(1), kind=pl.lit(int(SliceKind.CALL)), flows=pl.lit(1)),
    )
    making.slices(kernels.with_columns(flow, track=pl.lit(stream), depth=pl.lit(0), kind=pl.lit(int(SliceKind.KERNEL))))
    return making.finish()


class Made:
    """Stands for a report: a timeline that was made coarse, and its answers to requests for more."""

    title = "train.py"
    names = ("timeline",)

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.coarse = timeline_block(timeline, most=2000)
        self.asked: list[tuple[int, int]] = []
        self.answers = threading.Event()
        self.answers.set()
        self.fails = ""

    def first_screen(self) -> dict[str, object]:
        return {"title": self.title, "blocks": list(self.names)}

    def block(self, name: str) -> bytes:
        return self.coarse

    def closer(self, begin: int, end: int) -> bytes:
        self.asked.append((begin, end))
        self.answers.wait(60)
        if self.fails:
            raise TooMuch(self.fails)
        return timeline_block(self.timeline, window=(begin, end))


@pytest.fixture(scope="module")
def launches() -> Timeline:
    return launched()


@pytest.fixture
def source(launches: Timeline) -> Made:
    return Made(launches)


@pytest.fixture
def served(browser: Any, source: Made) -> Iterator[Callable[[str], Report]]:
    with Server(source) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        context = browser.new_context(viewport={"width": 1200, "height": 760}, color_scheme="light")
        context.set_default_timeout(PATIENCE_MS)
        report = Report(context.new_page(), server.address, ".tl-canvas")
        report.page.on("pageerror", lambda error: report.errors.append(str(error)))

        def open_at(state: str) -> Report:
            report.open(state)
            report.page.wait_for_selector(".tl-canvas[data-drawn]")
            return report

        yield open_at
        source.answers.set()
        context.close()
        server.stop()
        thread.join()
        assert report.errors == []


def note(report: Report) -> str:
    return report.text(".tl-closer") if report.page.is_visible(".tl-closer") else ""


def wait_for_note(report: Report, text: str) -> None:
    report.page.wait_for_function("text => document.querySelector('.tl-closer').textContent.includes(text)", arg=text)


def rows(report: Report) -> list[str]:
    return [row["text"] for row in report.drawn()["rows"]]


def tooltip(report: Report, time: float, where: str) -> str:
    """By the tooltip."""
    report.move(600, 5)
    report.page.wait_for_selector(".tl-tip", state="hidden")
    report.move(x_of(report, time), lane(report, where))
    report.page.wait_for_function("() => document.querySelector('.tl-tip').textContent.includes('from')")
    return report.text(".tl-tip")


def test_what_is_coarse_stays_until_it_was_read_closer(served: Callable[[str], Report], source: Made) -> None:
    source.answers.clear()
    report = served(CLOSE)
    wait_for_note(report, "reading closer…")
    assert "calls" not in rows(report)
    assert "kernels" in tooltip(report, KERNEL, "Stream 7"), "many as one"
    source.answers.set()
    report.settle()
    assert note(report) == ""
    assert rows(report) == ["python train.py", "MainThread", "steps", "calls", "NVIDIA H200", "Stream 7"]
    text = tooltip(report, KERNEL, "Stream 7")
    assert "1.4 µs from" in text
    assert "ran 600 ns after its launch" in text
    assert "cudaLaunchKernel" in tooltip(report, CALL, "calls")


def test_the_whole_run_is_shown_as_it_was_and_a_zoom_reads_closer_and_back(served: Callable[[str], Report], source: Made) -> None:
    report = served("#view=timeline")
    report.settle()
    assert (rows(report), source.asked) == (["python train.py", "MainThread", "steps", "NVIDIA H200", "Stream 7"], [])
    assert "60,001 slices" in report.text(".tl-hint")
    assert "without calls" in report.text(".tl-hint")
    x = x_of(report, 50 * MS)
    for _ in range(12):
        report.page.mouse.move(*report.at(x, lane(report, "Stream 7")))
        report.page.mouse.wheel(0, -120)
    report.settle()
    assert "calls" in rows(report)
    assert "merged" not in report.text(".tl-hint"), "all is shown here"
    report.press("0")
    assert "calls" not in rows(report)
    assert "merged" in report.text(".tl-hint")


def test_what_is_near_needs_no_other_answer_and_only_that_is_asked_for(served: Callable[[str], Report], source: Made) -> None:
    report = served(CLOSE)
    report.settle()
    ((begin, end),) = source.asked
    assert begin <= ORIGIN + 20_000_000 - 600
    assert end >= ORIGIN + 20_040_000
    assert end - begin < MANY * PACE * 0.6
    report.press("d", "d", "w")
    assert len(source.asked) == 1


def test_what_is_not_looked_at_any_more_is_given_up(served: Callable[[str], Report], source: Made) -> None:
    source.answers.clear()
    report = served(CLOSE)
    wait_for_note(report, "reading closer…")
    failed: list[str] = []
    report.page.on("requestfailed", lambda request: failed.append(request.url))
    report.page.evaluate("address => { location.hash = address; }", FAR)
    report.page.wait_for_function("() => JSON.parse(document.querySelector('.tl-canvas').dataset.drawn).begin > 90000000")
    for _ in range(100):
        if failed:
            break
        report.page.wait_for_timeout(50)
    assert "closer?begin=" in failed[0]
    source.answers.set()
    report.settle()
    assert "1.4 µs" in tooltip(report, 100.0213 * MS, "Stream 7")
    assert source.asked[-1][0] <= ORIGIN + 100_000_000 <= source.asked[-1][1]


def test_a_step_is_as_long_as_it_is_however_little_of_it_was_read(served: Callable[[str], Report]) -> None:
    report = served(CLOSE)
    report.settle()
    assert "120 ms from" in tooltip(report, 20.02 * MS, "steps")


def test_a_link_to_a_kernel_shows_it_once_it_was_read(served: Callable[[str], Report]) -> None:
    report = served(CLOSE)
    report.settle()
    report.click(x_of(report, KERNEL), lane(report, "Stream 7"))
    report.settle()
    details = report.text(".tl-details")
    assert "600 ns earlier" in details
    address = report.page.evaluate("location.hash")
    report.press("ArrowRight")
    other = report.text(".tl-details")
    assert other != details
    report.open(address)
    report.wait_for_picture()
    assert report.text(".tl-details") == details
    assert report.page.evaluate("location.hash") == address
    report.press("ArrowRight")
    assert report.text(".tl-details") == other


def test_a_selected_time_counts_kernels_that_were_read(served: Callable[[str], Report]) -> None:
    report = served(CLOSE)
    report.settle()
    report.drag((x_of(report, 20.0102 * MS), 10), (x_of(report, 20.0199 * MS), 10))
    counts = {row[0]: row[3] for row in (line.split("\t") for line in report.text(".tl-details").split("\n")) if len(row) == 4}
    assert (counts["gemm"], counts["softmax"]) == ("2", "3")


def test_what_cannot_be_read_is_one_line_and_the_picture_stays(served: Callable[[str], Report], source: Made) -> None:
    source.fails = "7,000,000 records are in this stretch of time"
    report = served(CLOSE)
    wait_for_note(report, "not read closer: 7,000,000 records")
    assert "kernels" in tooltip(report, KERNEL, "Stream 7")
    source.fails = ""
    report.press("w")
    assert "1.4 µs" in tooltip(report, KERNEL, "Stream 7")
    assert shown(report)[0] > 20 * MS


@pytest.fixture
def file(pages: Pages, tmp_path: Path) -> Iterator[Opener]:
    with reports(pages, tmp_path, ".tl-canvas") as opener:
        yield opener


def test_a_file_says_who_shows_single_kernels_and_only_where_it_cannot(file: Opener, launches: Timeline) -> None:
    report = file({"timeline": timeline_block(launches, most=2000)}, CLOSE)
    assert note(report) == "aiflame open shows single kernels here"
    report.press("0")
    assert note(report) == ""
    whole = file({"timeline": timeline_block(launches)}, CLOSE)
    assert note(whole) == ""
    assert "calls" in rows(whole)


def test_counters_are_read_closer_too(browser: Any) -> None:
    """Power is 100 W, but for one moment in each of 12,000 of 10 µs: of so many a whole run shows its highest and lowest alone."""
    timeline = launched()
    making = Making()
    machine = making.track(TrackKind.MACHINE, -1, 0, "Machine")
    track = making.track(TrackKind.COUNTER, making.track(TrackKind.MACHINE, machine, 0, "GPU"), 0, "power", unit="W")
    at = np.arange(12_000)
    making.points(pl.DataFrame({"time_ns": ORIGIN + at * 10_000, "value": 100.0 + at % 2}).with_columns(track=pl.lit(track)))
    counted = making.finish()

    class Counted(Made):
        def closer(self, begin: int, end: int) -> bytes:
            self.asked.append((begin, end))
            return timeline_block(self.timeline, window=(begin, end), counted=counted)

    source = Counted(timeline)
    source.coarse = timeline_block(timeline, counted=counted)
    with Server(source) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        context = browser.new_context(viewport={"width": 1200, "height": 760})
        report = Report(context.new_page(), server.address, ".tl-canvas")
        report.open("#view=timeline&time=20000000-20040000")
        report.wait_for_picture()
        report.page.wait_for_function("() => JSON.parse(document.querySelector('.tl-canvas').dataset.drawn).closer !== null")
        report.settle()
        for time, watts in ((20_004_000, 100), (20_014_000, 101), (20_024_000, 100)):
            report.move(x_of(report, time), lane(report, "power"))
            report.page.wait_for_function(f"() => document.querySelector('.tl-tip').textContent.includes('power: {watts} W')")
        context.close()
        server.stop()
        thread.join()
    assert source.asked

"""The tour of docs/tour.md: a newcomer finds the slow layer, line and stall from the first screen in three clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_visits import Opener, Visit
from slow_layer import KERNEL, LINE, REASON, SLOW, TEXT, profile

from aiflame.render.report.document import write


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tour")
    write(profile(folder), folder / "r.html", title="train.aiflame")
    return folder / "r.html"


def finding(visit: Visit, part: str) -> Any:
    return visit.page.locator(".finding", has_text=part)


def shows_the_line_and_the_stall(visit: Visit) -> None:
    """Source and SASS of the slow kernel: the slow line is in sight and has most samples, and the legend begins with the stall."""
    visit.page.wait_for_selector(f".kernel-room h2:has-text('{KERNEL}')")
    line = visit.page.locator(".pane[aria-label=Source] .line", has=visit.page.locator(f".line-name:text-is('{LINE}')"))
    assert line.locator("code").inner_text().strip() == TEXT.splitlines()[LINE - 1].strip()
    assert line.locator(".share").inner_text() == "82.5%"
    assert visit.page.viewport_size["height"] > line.bounding_box()["y"] > 0
    assert visit.text(".kernel-head").partition(REASON)[2].strip().startswith("80.5%")


def test_the_first_screen_names_layer_line_and_stall(visit: Opener, report: Path) -> None:
    page = visit(report)
    assert f"layers.{SLOW}.attn takes 7.6 times as much as its sisters" in page.text(".finding:nth-child(1)")
    sentence = finding(page, KERNEL).inner_text()
    assert f"held up by {REASON}" in sentence
    assert f"attention.py:{LINE}" in sentence


def test_findings_lead_to_the_layer_and_to_the_line_in_three_clicks(visit: Opener, report: Path) -> None:
    page = visit(report)
    finding(page, f"layers.{SLOW}.attn").locator("a").click()
    page.page.wait_for_selector("[data-of=tables] [role=row]")
    assert page.page.locator("[data-of=tables] [role=row]", has_text="layers.").first.inner_text().startswith(f"layers.{SLOW}.attn")
    page.click("nav a[data-view=overview]")
    finding(page, KERNEL).locator("a").click()
    shows_the_line_and_the_stall(page)


def test_the_flame_graph_leads_there_in_three_clicks_too(visit: Opener, report: Path) -> None:
    page = visit(report)
    page.page.locator(".panel .bar-row", has_text="layers.*.attn").first.click()
    page.page.wait_for_selector(".flame[data-settled]")
    script = """(name) => document.querySelector(".flame").flame.chart.seen()
      .filter((one) => one.name === name).map((one) => [one.x + one.width / 2, one.y + 8, one.width])"""
    ((x, y, width),) = page.page.evaluate(script, KERNEL)
    assert width > 100
    page.page.mouse.click(x, y)
    page.page.wait_for_selector(".flame[data-settled]")
    page.click(".flame-source")
    shows_the_line_and_the_stall(page)


def test_the_gpu_is_told_within_steps_and_over_the_whole_run(visit: Opener, report: Path) -> None:
    page = visit(report)
    first, second = page.texts(".device")
    assert "busy 93.0%" in first
    assert second.startswith("whole run, 44.2 ms")
    assert "within steady steps" in page.text(".occupancy .head")


def test_the_slowest_step_is_marked_where_one_is_slower(visit: Opener, report: Path, tmp_path: Path) -> None:
    """On the device a step lasts until the next one's first work: the wait for data before step 5 is in step 4."""
    assert "slowest after warm-up: Step 4, 2.02 ms (111% of the median)" in visit(report).text(".steps .head")
    write(profile(tmp_path, [20.0] * 6), tmp_path / "even.html")
    assert "slowest" not in visit(tmp_path / "even.html").text(".steps .head")

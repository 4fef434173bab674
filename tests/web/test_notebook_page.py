"""A notebook with a recorded cell, executed, as a page in a browser without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import kernel

nbconvert = pytest.importorskip("nbconvert", reason="the page of a notebook needs the packages nbconvert and ipykernel")
pytest.importorskip("ipykernel", reason="the page of a notebook needs the packages nbconvert and ipykernel")

CELLS = (
    "%load_ext aiflame",
    "def slow_lookup(items, count):\n    return sum(str(i) in items for i in range(count))",
    "%%aiflame -F 999\nslow_lookup(list(map(str, range(300))), 200_000)",
    "%%aiflame -F 999\ndef count_up():\n    return sum(range(20_000_000))\n\ncount_up()",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """nbconvert's own page of the notebook."""
    import nbformat

    folder = tmp_path_factory.mktemp("notebook_page")
    notebook = nbformat.v4.new_notebook()
    with kernel(folder) as running:
        for number, source in enumerate(CELLS, 1):
            shown = running.run(source)
            assert shown.status == "ok", shown
            outputs = [nbformat.v4.new_output("display_data", data=data) for data in shown.values]
            notebook.cells.append(nbformat.v4.new_code_cell(source, execution_count=number, outputs=outputs))
    nbformat.write(notebook, folder / "notebook.ipynb")
    html, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    (folder / "notebook.html").write_text(html, encoding="utf-8")
    return folder / "notebook.html"


@pytest.fixture
def opened(browser: Any, page: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    context.set_default_timeout(30_000)
    tab = context.new_page()
    tab.errors, tab.asked = [], []
    tab.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.on("request", lambda request: tab.asked.append(request.url))
    tab.goto(page.as_uri())
    yield tab
    context.close()


def test_each_recorded_cell_has_its_report_which_asks_for_nothing(opened: Any, page: Path) -> None:
    frames = opened.locator("iframe[sandbox]")
    assert frames.count() == 2
    for place, name in enumerate(("slow_lookup", "count_up")):
        report = opened.frame_locator("iframe[sandbox]").nth(place)
        report.locator("html[data-ready]").wait_for(state="attached")
        assert name in report.locator(".view:visible").inner_text()
    own = ("blob:", page.as_uri())
    foreign = [url for url in opened.asked if not url.startswith(own)]
    assert all("cdnjs.cloudflare.com" in url for url in foreign), "beside nbconvert's own libraries nothing is asked for"
    assert [error for error in opened.errors if "require" not in error and "MathJax" not in error] == []


def test_the_report_in_a_cell_goes_from_view_to_view_and_back(opened: Any) -> None:
    report = opened.frame_locator("iframe[sandbox]").first
    report.locator("nav a[data-view=flame]").click()
    report.locator(".flame-stage canvas").first.wait_for()
    report.locator("nav a[data-view=tables]").click()
    shown = report.locator("nav a[aria-current]")
    assert shown.inner_text() == "Tables"
    opened.evaluate("history.back()")
    report.locator("nav a[data-view=flame][aria-current]").wait_for()
    assert opened.url.startswith("file:") and "view=" not in opened.url
    assert opened.frame_locator("iframe[sandbox]").nth(1).locator("nav a[aria-current]").inner_text() == "Overview"


def test_the_findings_show_where_frames_are_removed(opened: Any) -> None:
    opened.evaluate("document.querySelectorAll('iframe').forEach((one) => one.remove())")
    assert "of CPU time" in opened.locator(".aiflame").first.inner_text()


def test_the_report_cannot_reach_the_notebook(opened: Any) -> None:
    report = opened.frame_locator("iframe[sandbox]").first
    report.locator("html[data-ready]").wait_for(state="attached")
    reach = "() => { try { return parent.document.title; } catch (error) { return error.name; } }"
    assert report.locator("body").evaluate(reach) == "SecurityError"


def test_a_recorded_cell_adds_little_to_the_notebook(page: Path) -> None:
    assert page.with_suffix(".ipynb").stat().st_size < 2 * 400_000

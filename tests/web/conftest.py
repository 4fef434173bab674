"""A real browser for the tests: headless Chromium, driven through Playwright's own protocol."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from report_flame import Opened as FlameGraphs
from report_flame import flames
from report_pages import reports
from report_profiles import training
from report_visits import Opener, visits
from shared_pages import Pages
from viewer import Viewer

from aiflame.render.report.document import write

BROWSERS = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The same browser each, with the cheapest first: those without a window's tabs and tools take a third less CPU time."""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need the Python package playwright")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"the browser tests need Chromium: none of {', '.join(BROWSERS)} is on the PATH")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def pages(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    opener = Pages(browser, tmp_path_factory.mktemp("pages"))
    yield opener
    opener.end()


@pytest.fixture
def flame(pages: Pages, tmp_path: Path) -> FlameGraphs:
    """Opens flame graphs of reports."""
    with reports(pages, tmp_path, ".flame-stage canvas") as opener:
        yield flames(opener)


@pytest.fixture
def visit(pages: Pages) -> Iterator[Opener]:
    """Opens whole reports."""
    with visits(pages) as opener:
        yield opener


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a training."""
    folder = tmp_path_factory.mktemp("report")
    write(training(folder), folder / "r.html")
    return folder / "r.html"


@pytest.fixture
def view(pages: Pages) -> Iterator[Callable[..., Viewer]]:
    """Opens a file, and fails the test if the page ever reports an error or asks for anything but that file."""
    opened: list[tuple[Viewer, set[str]]] = []

    def open_file(
        path: Path, state: str = "", *, before: str = "", ready: bool = True, also: Sequence[Path] = (), **options: Any
    ) -> Viewer:
        """`before`: a script that runs first. `ready`: wait for the flame graph's own. `also`: other files that may be read."""
        page = pages.open(30_000, **{"viewport": {"width": 1200, "height": 700}, "color_scheme": "light", **options})
        viewer = Viewer(page, path.as_uri())
        viewer.page.on("console", lambda message: viewer.errors.append(message.text))
        viewer.page.on("pageerror", lambda error: viewer.errors.append(str(error)))
        viewer.page.on("request", lambda request: viewer.requests.append(request.url.split("#")[0]))
        opened.append((viewer, {"about:blank", viewer.address, *(one.as_uri() for one in also)}))
        if before:
            viewer.page.add_init_script(before)
        if ready and not before and options.get("java_script_enabled", True):
            viewer.open(state)
        else:
            viewer.page.goto(viewer.address)
        return viewer

    yield open_file
    for viewer, allowed in opened:
        pages.close(viewer.page)
        assert viewer.errors == []
        assert set(viewer.requests) <= allowed

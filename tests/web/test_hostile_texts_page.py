"""Reports and pictures of profiles whose every text is hostile: nothing runs, nothing is asked for, and no view fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile_texts import PAYLOAD, SEEN, profiles
from report_visits import Opener

import aiflame
from aiflame.render.flame_svg import svg
from aiflame.render.report.document import write

VIEWS = ("overview", "flame", "scope", "timeline", "code", "tables")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return profiles(tmp_path_factory.mktemp("texts"))


@pytest.mark.parametrize("name", ["training", "kernels", "ranks", "spool"])
def test_in_a_report_they_are_text(visit: Opener, hostile: dict[str, Path], tmp_path: Path, name: str) -> None:
    write(aiflame.open(hostile[name]).store, tmp_path / "r.html", title="title" + PAYLOAD)
    seen = visit(tmp_path / "r.html")
    for view in (*VIEWS, *(("ranks",) if name == "ranks" else ())):
        if seen.page.locator(f"nav a[href*='view={view}']").count():
            seen.go(view)
        else:
            seen.open(f"#view={view}")
        seen.wait("document.querySelector('.view:not([hidden])').innerText.length > 20")
        counted = "document.querySelectorAll('main script, main img, main iframe, main a[href^=javascript]').length"
        assert seen.page.evaluate(f"[window.harmed ?? 0, {counted}]") == [0, 0], view
        assert seen.page.locator("#failed:not([hidden])").count() == 0, view
    assert SEEN in seen.page.title()


@pytest.mark.parametrize("name", ["training", "kernels", "spool"])
def test_in_a_picture_they_are_text(view: Callable[..., Any], hostile: dict[str, Path], tmp_path: Path, name: str) -> None:
    tree = aiflame.open(hostile[name]).tree()
    svg.write(tree, tree.metrics[0].name, tmp_path / "f.svg", title="title" + PAYLOAD, subtitle=PAYLOAD)
    seen = view(tmp_path / "f.svg")
    seen.open()
    assert any(SEEN in shown for shown in seen.names())
    assert seen.page.evaluate("[window.harmed ?? 0, document.getElementsByTagName('img').length]") == [0, 0]


@pytest.mark.parametrize("name", ["training", "kernels", "spool"])
def test_in_a_notebook_they_are_text(browser: Any, hostile: dict[str, Path], tmp_path: Path, name: str) -> None:
    html = aiflame.open(hostile[name])._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8><title>notebook</title>{html}", encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto((tmp_path / "notebook.html").as_uri())
    report = page.frame_locator("iframe")
    report.locator("html[data-ready]").wait_for(state="attached")
    assert page.evaluate("[window.harmed ?? 0, document.querySelectorAll('script, img, iframe').length]") == [0, 1]
    assert report.locator("body").evaluate("window.harmed ?? 0") == 0
    assert SEEN in page.locator(".aiflame b").inner_text() or SEEN in report.locator("body").inner_text()
    context.close()

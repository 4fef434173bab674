"""Pages that share a context of the browser do not know of each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shared_pages import Pages


@pytest.fixture
def place(tmp_path: Path) -> str:
    (tmp_path / "place.html").write_text("<!doctype html><title>place</title><p>text")
    return (tmp_path / "place.html").as_uri()


def test_a_page_finds_nothing_of_the_page_before_it(pages: Pages, place: str) -> None:
    first = pages.open(5000, color_scheme="dark")
    first.add_init_script("window.before = 1")
    first.goto(place + "#somewhere")
    first.evaluate("localStorage.setItem('theme', 'dark'); sessionStorage.setItem('theme', 'dark')")
    context = first.context
    pages.close(first)
    second = pages.open(5000, color_scheme="dark")
    second.goto(place)
    assert second.context is context
    assert second.evaluate("[localStorage.length, sessionStorage.length, window.before ?? 0, history.length]") == [0, 0, 0, 1]
    assert second.evaluate("[opener, name, document.referrer, document.hasFocus(), document.visibilityState]") == [
        None,
        "",
        "",
        True,
        "visible",
    ]
    pages.close(second)


def test_pages_that_are_open_at_once_share_nothing_and_neither_does_one_from_a_server(pages: Pages, place: str) -> None:
    opened = [pages.open(5000), pages.open(5000), pages.open(5000, of_file=False)]
    assert len({id(page.context) for page in opened}) == 3
    opened[0].goto(place)
    opened[0].evaluate("localStorage.setItem('theme', 'dark')")
    opened[1].goto(place)
    assert opened[1].evaluate("localStorage.length") == 0
    for page in opened:
        pages.close(page)


def test_few_contexts_are_kept(browser: Any, tmp_path: Path) -> None:
    own, before = Pages(browser, tmp_path, most_kept=1), len(browser.contexts)
    for scale in (2, 3):
        own.close(own.open(5000, device_scale_factor=scale))
    assert len(browser.contexts) == before + 1
    own.end()
    assert len(browser.contexts) == before


def test_each_page_has_its_own_size_colours_and_motion(pages: Pages, place: str) -> None:
    looks = (
        "[innerWidth, innerHeight, ...['(prefers-color-scheme: dark)', '(prefers-reduced-motion)'].map((one) => matchMedia(one).matches)]"
    )
    contexts = set()
    for width, dark in ((800, True), (300, False), (800, False)):
        scheme, motion = ("dark", "reduce") if dark else ("light", "no-preference")
        page = pages.open(5000, viewport={"width": width, "height": 400}, color_scheme=scheme, reduced_motion=motion)
        page.goto(place)
        assert page.evaluate(looks) == [width, 400, dark, dark]
        contexts.add(page.context)
        pages.close(page)
    page = pages.open(5000)
    page.goto(place)
    assert page.evaluate(looks) == [1280, 720, False, False]
    assert contexts == {page.context}
    pages.close(page)

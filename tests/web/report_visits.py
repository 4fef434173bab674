"""A whole report, opened from a file and looked at as a person would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from shared_pages import Pages

PATIENCE_MS = 20_000
COPIED = "if (navigator.clipboard) navigator.clipboard.writeText = async (text) => { window.copied = text; };"
"""Runs first: tests can read the copied text, although a browser without a window may have no clipboard."""
Opener = Callable[..., "Visit"]


@dataclass
class Visit:
    page: Any
    address: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    """Parts of errors that the test is about."""

    def open(self, state: str = "") -> None:
        if self.page.url != "about:blank":
            self.page.goto("about:blank")
        self.page.goto(self.address + state)
        self.page.wait_for_selector("html[data-ready]", timeout=PATIENCE_MS)

    def go(self, view: str) -> None:
        """To another view by the page's address, without loading it again."""
        self.page.evaluate("view => { location.hash = `#view=${view}`; }", view)
        self.wait(f"document.querySelector('.view:not([hidden])')?.dataset.of === '{view}'")

    def state(self) -> dict[str, str]:
        """The view's state in the address."""
        return dict(parse_qsl(self.page.evaluate("location.hash")[1:]))

    def wait_for_state(self, **state: str) -> None:
        """Until the address says so: it does a moment after the page."""
        in_address = (
            "state => Object.entries(state).every(([name, value]) => new URLSearchParams(location.hash.slice(1)).get(name) === value)"
        )
        self.page.wait_for_function(in_address, arg=state, timeout=PATIENCE_MS)

    def text(self, selector: str) -> str:
        text: str = self.page.inner_text(selector)
        return text

    def texts(self, selector: str) -> list[str]:
        texts: list[str] = self.page.locator(selector).all_inner_texts()
        return texts

    def click(self, selector: str) -> None:
        self.page.click(selector)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def wait(self, expression: str) -> None:
        """Until it is true in the page."""
        self.page.wait_for_function(f"() => {expression}", timeout=PATIENCE_MS)

    def view(self) -> str:
        """The one that is shown."""
        name: str = self.page.get_attribute(".view:not([hidden])", "data-of")
        return name

    def style(self, selector: str, name: str) -> str:
        value: str = self.page.eval_on_selector(selector, f"one => getComputedStyle(one).{name}")
        return value

    def request_failed(self, request: Any) -> None:
        """One that the page's policy forbids was never made."""
        if request.failure == "csp":
            self.requests.remove(request.url)

    def failed(self) -> str:
        """The line with the page's error."""
        self.page.wait_for_selector("#failed:not([hidden]) span", timeout=PATIENCE_MS)
        return self.text("#failed span")


@contextmanager
def visits(pages: Pages) -> Iterator[Opener]:
    """Opens files or addresses; fails the test if a page reports an error, or asks for anything but itself."""
    opened: list[Visit] = []

    def visit(
        where: Path | str, state: str = "", *, before: str = "", ready: bool = True, expected: tuple[str, ...] = (), **options: Any
    ) -> Visit:
        """`before`: a script that runs first; `ready`: wait until the first screen is there."""
        window = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light", **options}
        page = pages.open(PATIENCE_MS, of_file=isinstance(where, Path), **window)
        seen = Visit(page, where if isinstance(where, str) else where.as_uri(), expected=expected)
        seen.page.on("console", lambda message: seen.errors.append(message.text))
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on("request", lambda request: seen.requests.append(request.url.split("#")[0]))
        seen.page.on("requestfailed", seen.request_failed)
        opened.append(seen)
        if before:
            seen.page.add_init_script(before)
        if ready:
            seen.open(state)
        else:
            seen.page.goto(seen.address + state)
        return seen

    yield visit
    for seen in opened:
        pages.close(seen.page)
        assert [error for error in seen.errors if not any(part in error for part in seen.expected)] == []
        own = [url for url in seen.requests if url != "about:blank" and not url.startswith(("blob:", "data:"))]
        assert not [url for url in own if not url.startswith(seen.address)]

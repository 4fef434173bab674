"""Pages of one browser. To start a process of the browser takes longer than most tests: pages of files share one, unless they differ
in more than their size, colours and motion.

A page opened by Playwright gets a process for its empty document, which ends as soon as a file is loaded. One that a page of a file opens
starts in the process of that page: to open a report so takes 0.31 s of CPU time, and 0.47 s otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MEDIA = ("color_scheme", "reduced_motion")


@dataclass(frozen=True, slots=True)
class _Kept:
    context: Any
    empty: Any
    """An open page of an empty file: while it is open, the process of the context's files goes on."""


class Pages:
    """Opens pages, each as new as in a browser of its own: without a history, a pointer or anything that a page before it stored."""

    def __init__(self, browser: Any, folder: Path, most_kept: int = 4) -> None:
        """`most_kept`: contexts that may wait for their next page, each with a process."""
        self._browser, self._most_kept = browser, most_kept
        self._empty = folder / "empty.html"
        self._empty.write_text("<!doctype html><title>empty</title>")
        self._idle: dict[str, _Kept] = {}
        self._used: dict[Any, tuple[str, _Kept | None]] = {}

    def open(self, patience_ms: int, *, of_file: bool = True, **options: Any) -> Any:
        """A page with these options. Two that are open at the same time have two contexts, and so has a page from a server."""
        if not of_file:
            page = self._browser.new_context(**options).new_page()
            page.set_default_timeout(patience_ms)
            self._used[page] = "", None
            return page
        size, media = options.pop("viewport", None), {name: options.pop(name) for name in _MEDIA if name in options}
        key = repr(sorted(options.items()))
        kept = self._kept(key, options)
        page = _beside(kept.empty) if options.get("java_script_enabled", True) else kept.context.new_page()
        page.set_default_timeout(patience_ms)
        if size:
            page.set_viewport_size(size)
        if media:
            page.emulate_media(**media)
        self._used[page] = key, kept
        return page

    def close(self, page: Any) -> None:
        key, kept = self._used.pop(page)
        if kept is None or key in self._idle:
            page.context.close()
            return
        page.close()
        self._idle[key] = kept
        if len(self._idle) > self._most_kept:
            self._idle.pop(next(iter(self._idle))).context.close()

    def end(self) -> None:
        for kept in self._idle.values():
            kept.context.close()
        self._idle.clear()

    def _kept(self, key: str, options: dict[str, Any]) -> _Kept:
        kept = self._idle.pop(key, None)
        if kept is None:
            context = self._browser.new_context(**options)
            kept = _Kept(context, context.new_page())
            kept.empty.goto(self._empty.as_uri())
        if options.get("java_script_enabled", True):
            kept.empty.evaluate("localStorage.clear()")
        return kept


def _beside(opener: Any) -> Any:
    """A new page in this page's process, which it knows nothing of."""
    with opener.expect_popup() as opening:
        opener.evaluate("() => { window.open('about:blank').opener = null; }")
    return opening.value

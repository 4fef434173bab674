"""Pages of one browser. To start a process of the browser takes longer than most tests: pages of files with the same options share one.

A page opened by Playwright gets a process for its empty document, which ends as soon as a file is loaded. One that a page of a file opens
starts in the process of that page: to open a report so takes 0.31 s of CPU time, and 0.47 s otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        """A page in a context with these options. Two that are open at the same time have two contexts, and so has a page from a server."""
        key = repr(sorted(options.items()))
        kept = self._kept(key, options) if of_file else None
        context = self._browser.new_context(**options) if kept is None else kept.context
        page = context.new_page() if kept is None or not options.get("java_script_enabled", True) else _beside(kept.empty)
        page.set_default_timeout(patience_ms)
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

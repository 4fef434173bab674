"""Serves a report on 127.0.0.1, under a path with a random token.

Other programs on the machine can reach the port, and any web page can make a browser send requests to it. So the path begins with a random
token, and the Host must name this machine: a name of an attacker's that resolves to 127.0.0.1 would make the answers theirs to read. The
browser's headers about the asking page (Origin, Sec-Fetch-Site) must fit, too: a foreign page gets nothing even if it knows the token.
"""

from __future__ import annotations

import hmac
import json
import secrets
import select
import socket
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qsl, unquote

from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.timeline.windows import TooMuch
from aiflame.errors import AiflameError
from aiflame.render.report.document import Report
from aiflame.render.report.page import harmless, page, served_policy

HERE = "127.0.0.1"
NAMES = (HERE, "localhost")
"""Names of this machine that a request's `Host` may have, with any port, because tunnels change the port."""
PATIENCE_S = 60
"""A connection without a request is closed after this time."""
MOST_CONNECTIONS = 100
"""Each has a thread; a browser opens six."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_Request = socket.socket | tuple[bytes, socket.socket]


class Server:
    """Listens as soon as it is constructed."""

    def __init__(self, report: Report, port: int = 0) -> None:
        self._token = secrets.token_urlsafe(18)
        self._made = _Made(report)
        try:
            self._http = _Http((HERE, port), _handler(self._token, report.title, self._made))
        except OSError as error:
            raise AiflameError(
                f"cannot listen on port {port}: {(error.strerror or str(error)).lower()}: choose another with --port"
            ) from None

    @property
    def address(self) -> str:
        return f"http://{HERE}:{self._http.server_address[1]}/{self._token}/"

    def serve_forever(self) -> None:
        self._http.serve_forever()

    def stop(self) -> None:
        """Stops the server. Call it from another thread than the serving one."""
        self._http.shutdown()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: _Request, client_address: object) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: _Request, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a browser that leaves is not an error
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Made:
    """Keeps each part after it was made. Parts are made one at a time, so that several requests share one."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._known: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        """None: there is no such block."""
        if name in self._known:
            return self._known[name]
        with self._lock:
            if name not in self._known:
                if name == "summary":
                    self._known[name] = json.dumps(harmless(self._report.first_screen()), ensure_ascii=False).encode()
                elif name in self._report.names:
                    self._known[name] = self._report.block(name)
                else:
                    return None
            return self._known[name]

    def closer(self, begin: int, end: int, wanted: Callable[[], bool]) -> bytes | None:
        """A stretch of the timeline, which is not kept: a page requests another one with the next gesture. None: the page no longer waits
        for it."""
        with self._lock:
            return self._report.closer(begin, end) if wanted() else None


def _handler(token: str, title: str, parts: _Made) -> type[BaseHTTPRequestHandler]:
    text = "".join(page(title, None)).encode()
    allowed = f"{served_policy()}; frame-ancestors 'none'"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        default_request_version = "HTTP/1.0"  # answers to HTTP 0.9 have no headers
        server_version = "aiflame"
        sys_version = ""
        timeout = PATIENCE_S

        def parse_request(self) -> bool:
            """Refuses requests that no method answers, before a method is looked up."""
            if not super().parse_request():
                return False
            hosts = self.headers.get_all("Host", [])
            if len(hosts) != 1 or not _is_here(hosts[0]):
                self._refuse(HTTPStatus.FORBIDDEN, "this report is served to its own machine alone")
            elif self.command != "GET":
                self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "a report can only be read")
            elif "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
                self._refuse(HTTPStatus.BAD_REQUEST, "a request that only reads has no body")
            elif not self._from_its_own_page(hosts[0]):
                self._refuse(HTTPStatus.FORBIDDEN, "this report is served to its own page alone")
            else:
                return True
            return False

        def _from_its_own_page(self, host: str) -> bool:
            """True for requests from this page, or from a person: an address that is typed, or followed from elsewhere, is a navigation to
            the page."""
            origin, site = self.headers.get("Origin"), self.headers.get("Sec-Fetch-Site", "none")
            whole = self.headers.get("Sec-Fetch-Mode") == "navigate" and self.headers.get("Sec-Fetch-Dest") == "document"
            page = self.path.count("/") == 2 and self.path.endswith("/")
            return origin in (None, f"http://{host}") and (site in ("none", "same-origin") or (whole and page))

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """Refusals by the standard library: its own page would repeat the request, without the headers that protect an answer."""
            self._refuse(HTTPStatus(code), HTTPStatus(code).phrase)

        def do_GET(self) -> None:
            given, _, part = self.path.removeprefix("/").partition("/")
            part, _, query = part.partition("?")
            if not hmac.compare_digest(given.encode(), token.encode()) or self.path.count("/") < 2:
                self._refuse(HTTPStatus.NOT_FOUND, "no report here: open the whole address that aiflame open printed")
            elif part == "":
                self._send(HTTPStatus.OK, text, "text/html; charset=utf-8")
            elif part.startswith("blocks/"):
                self._block(unquote(part.removeprefix("blocks/")))
            elif part == "closer":
                self._closer(query)
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "the report has no such part")

        def _block(self, name: str) -> None:
            data, problem = _tried(lambda: parts.get(name))
            if data is not None:
                self._send(HTTPStatus.OK, data, "application/json" if name == "summary" else "application/octet-stream")
            elif problem:
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, problem)
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "the report has no such part")

        def _closer(self, query: str) -> None:
            """A page that has moved on has closed its connection."""
            stretch = _stretch(query)
            if stretch is None:
                self._refuse(HTTPStatus.BAD_REQUEST, "closer?begin=NS&end=NS: two whole numbers, the second the larger")
                return
            try:
                data, problem = _tried(lambda: parts.closer(*stretch, lambda: not self._left()))
            except TooMuch as error:
                self._refuse(HTTPStatus.BAD_REQUEST, str(error))
                return
            if data is not None:
                self._send(HTTPStatus.OK, data, "application/octet-stream")
            elif problem:
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, problem)
            else:
                self.close_connection = True

        def _left(self) -> bool:
            asked = select.poll()
            asked.register(self.connection, select.POLLIN)
            try:
                return bool(asked.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)
            except OSError:
                return True

        def _refuse(self, status: HTTPStatus, why: str) -> None:
            self.close_connection = True
            self._send(status, why.encode("utf-8", "replace"), "text/plain; charset=utf-8")

        def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
            self.send_response(status)
            for name, value in {**_HEADERS, "Content-Security-Policy": allowed, "Content-Type": kind}.items():
                self.send_header(name, value)
            if status == HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET")
            if self.close_connection:
                self.send_header("Connection", "close")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _is_here(host: str) -> bool:
    return host in NAMES or host.rpartition(":")[0] in NAMES


def _tried(make: Callable[[], bytes | None]) -> tuple[bytes | None, str]:
    """The data, or the reason why it cannot be made."""
    try:
        return make(), ""
    except TooMuch:
        raise
    except AiflameError as error:
        return None, str(error)
    except Exception as error:
        return None, f"this part of the report cannot be made: {type(error).__name__}: {error}".partition("\n")[0]


def _stretch(query: str) -> tuple[int, int] | None:
    """begin and end, each given once, as digits."""
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=8) if query.count("&") < 8 else []
    values = dict(pairs)
    if len(pairs) != 2 or set(values) != {"begin", "end"} or not all(value.isascii() and value.isdigit() for value in values.values()):
        return None
    if any(len(value) > len(str(LATEST)) for value in values.values()):
        return None
    begin, end = int(values["begin"]), int(values["end"])
    return (begin, end) if begin < end <= LATEST else None

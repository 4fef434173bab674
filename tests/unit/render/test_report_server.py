"""The served report: only to this machine, only to who has the address, only to read."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from report_profiles import training
from timeline_blocks import read

from aiflame.attribute.timeline.tables import SliceKind
from aiflame.cli import browser
from aiflame.errors import AiflameError
from aiflame.render.report.document import Report
from aiflame.render.report.server import Server


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Served:
    address: str

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def path(self) -> str:
        return urlsplit(self.address).path

    def ask(self, path: str = "", method: str = "GET", **headers: str) -> Answer:
        """A path of the report's own, or with `/` before it one of the server's."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path if path.startswith("/") else self.path + path, headers=headers)
        answer = connection.getresponse()
        found = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        connection.close()
        return found

    def raw(self, text: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(text)
            with contextlib.suppress(OSError):  # the server may have left already
                connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with running(Report(training(tmp_path_factory.mktemp("served")))) as served:
        yield served


class running:
    """A server in a thread of its own."""

    def __init__(self, report: Report) -> None:
        self._server = Server(report)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Served:
        self._thread.start()
        return Served(self._server.address)

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._thread.join()
        self._server.__exit__(None, None, None)


def test_the_page_comes_without_data_so_that_it_comes_at_once(served: Served) -> None:
    answer = served.ask()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b'id="summary">null</script>' in answer.body
    assert b'class="block"' not in answer.body


def test_all_that_the_first_screen_names_can_be_had(served: Served) -> None:
    answer = served.ask("blocks/summary")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    first = json.loads(answer.body)
    assert first["summary"]["command"] == "python train.py"
    for name in first["blocks"]:
        block = served.ask(f"blocks/{name}")
        assert (block.status, block.headers["content-type"]) == (200, "application/octet-stream")
        assert len(gzip.decompress(block.body)) > 4


@pytest.mark.parametrize("path", ["", "blocks/summary", "blocks/none", "/"])
def test_every_answer_has_the_headers_that_keep_it_in(served: Served, path: str) -> None:
    headers = served.ask(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["referrer-policy"], headers["cache-control"]) == (
        "nosniff",
        "no-referrer",
        "no-store",
    )
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert "python" not in headers["server"].lower()


def test_the_header_allows_what_the_page_allows(served: Served) -> None:
    answer = served.ask()
    in_page = re.search(rb'Content-Security-Policy" content="([^"]+)"', answer.body)
    assert in_page is not None
    assert answer.headers["content-security-policy"] == f"{in_page[1].decode()}; frame-ancestors 'none'"


def test_without_the_token_there_is_nothing(served: Served) -> None:
    token = served.path.strip("/")
    assert len(token) >= 22  # 128 bits and more
    wrong = ("/", "/index.html", "/blocks/summary", f"/{token[:-1]}/", f"/{token}x/", f"/{token}", "/%00/")
    for path in wrong:
        answer = served.ask(path)
        assert (answer.status, b"python train.py" in answer.body) == (404, False), path
    assert served.raw(b"GET /\xc3\xa9\xff/ HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "path",
    [
        "blocks/",
        "blocks/none",
        "blocks/../summary",
        "blocks/code.99999",
        "blocks/code.-1",
        "blocks/text.x",
        "blocks/%2e%2e%2fmeta.json",
        "../",
        "etc/passwd",
    ],
)
def test_what_the_report_has_not_is_not_found(served: Served, path: str) -> None:
    assert served.ask(path).status == 404


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:1", "localhost", "localhost:8080"])
def test_it_may_be_asked_by_this_machines_names_through_a_tunnel_too(served: Served, host: str) -> None:
    assert served.ask(Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example:{port}", "0.0.0.0:{port}", ""]
)
def test_a_name_that_was_made_to_lead_here_gets_nothing(served: Served, host: str) -> None:
    answer = served.ask(Host=host.format(port=served.port))
    assert (answer.status, b"python train.py" in answer.body) == (403, False)


def test_a_request_without_a_host_gets_nothing(served: Served) -> None:
    assert served.raw(f"GET {served.path} HTTP/1.0\r\n\r\n".encode()).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "CONNECT", "BREW"])
def test_it_can_only_be_read(served: Served, method: str) -> None:
    answer = served.ask(method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


FOREIGN = [
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "https://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"},
]
"""What browsers say when a page of another's asks."""


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("path", ["", "blocks/summary", "closer?begin=1&end=2"])
def test_a_page_of_anothers_gets_nothing_even_with_the_token(served: Served, path: str, headers: dict[str, str]) -> None:
    answer = served.ask(path, **{name: value.format(port=served.port) for name, value in headers.items()})
    assert (answer.status, b"python train.py" in answer.body) == (403, False)


@pytest.mark.parametrize(
    ("path", "status"), [("", 200), ("blocks/summary", 403), ("blocks/tables", 403), ("closer?begin=1&end=2", 403), ("x/", 403)]
)
def test_a_link_from_elsewhere_leads_to_the_page_and_to_nothing_that_is_computed(served: Served, path: str, status: int) -> None:
    """The page that `aiflame open` hands to a browser is a file."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert served.ask(path, **headers).status == status


def test_its_own_page_gets_all(served: Served) -> None:
    headers = {"Origin": f"http://127.0.0.1:{served.port}", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert served.ask("blocks/summary", **headers).status == 200


@pytest.mark.parametrize("more", ["Host: evil.example", "Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_request_of_two_meanings_is_refused(served: Served, more: str) -> None:
    second = f"GET {served.path}blocks/summary HTTP/1.1\r\nHost: localhost\r\n\r\n"
    request = f"GET {served.path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n\r\n{second}"
    answer = served.raw(request.encode())
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
    assert b"python train.py" not in answer
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/9.9",
        b"GET /<script>alert(1)</script> x y z",
        b"<script> HTTP/1.1",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1",
        b"GET http://evil.example/ HTTP/1.1",
        b"GET //evil.example/ HTTP/1.1",
        b"GET /\x00/../../etc/passwd HTTP/1.1",
    ],
    ids=range(7),
)
def test_what_is_refused_has_the_same_headers_and_repeats_nothing(served: Served, request_line: bytes) -> None:
    answer = served.raw(request_line + b"\r\nHost: localhost\r\n\r\n")
    assert re.match(rb"HTTP/1.1 (4\d\d|505) ", answer), answer[:100]
    assert b"default-src 'none'" in answer and b"X-Content-Type-Options: nosniff" in answer
    assert b"script>" not in answer and b"evil" not in answer


def test_many_or_long_headers_are_refused(served: Served) -> None:
    for headers in (b"x: y\r\n" * 200, b"x: " + b"y" * 70_000 + b"\r\n"):
        assert served.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n").startswith(b"HTTP/1.1 431 ")


def test_it_listens_on_loopback_alone(served: Served) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.port), timeout=60)
    listening = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    assert [line[1] for line in listening if line[1].endswith(f":{served.port:04X}") and line[3] == "0A"] == [f"0100007F:{served.port:04X}"]


def test_many_idle_connections_take_no_more_than_so_many_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiflame.render.report.server.MOST_CONNECTIONS", 4)
    with running(Report(training(tmp_path))) as served, contextlib.ExitStack() as open_:
        idle = [open_.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60)) for _ in range(8)]
        refused = [connection for connection in idle[4:] if connection.recv(1) == b""]
        assert len(refused) == 4
        idle[0].close()
        while True:  # the thread sees that its connection is closed
            with contextlib.suppress(OSError, http.client.HTTPException):
                if served.ask().status == 200:
                    break


def test_what_is_no_http_ends_without_noise(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    served.raw(b"\x16\x03\x01\x00\xa5\x01\x00\x00")
    served.raw(b"GET " + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")
    assert served.ask().status == 200
    assert capfd.readouterr() == ("", "")


def test_a_browser_that_leaves_is_nothing_to_tell(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, not closed
            connection.sendall(f"GET {served.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert served.ask().status == 200
    assert capfd.readouterr() == ("", "")


def test_a_block_is_made_once_however_many_ask(tmp_path: Path) -> None:
    report = Report(training(tmp_path))
    made: list[str] = []
    works = report.block

    def counted(name: str) -> bytes:
        made.append(name)
        return works(name)

    report.block = counted  # type: ignore[method-assign]
    with running(report) as served:
        asking = [threading.Thread(target=served.ask, args=("blocks/tables",)) for _ in range(8)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert made == ["tables"]


def test_a_block_that_cannot_be_made_is_one_line_and_may_be_asked_for_again(tmp_path: Path) -> None:
    report = Report(training(tmp_path))
    works = report.block

    def fails(name: str) -> bytes:
        report.block = works  # type: ignore[method-assign]
        raise AiflameError("tables/kernels is damaged: record again")

    report.block = fails  # type: ignore[method-assign]
    with running(report) as served:
        answer = served.ask("blocks/tables")
        assert (answer.status, answer.body) == (500, b"tables/kernels is damaged: record again")
        assert served.ask("blocks/tables").status == 200


def test_a_stretch_of_the_timeline_can_be_had_closer(served: Served) -> None:
    whole = read(served.ask("blocks/timeline").body)
    kernels = whole.rows(SliceKind.KERNEL)
    begin = whole.head["origin_ns"] + int(whole.times[0][kernels[0]]) + 10_000  # of 30 µs
    answer = served.ask(f"closer?begin={begin}&end={begin + 5000}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream")
    found = read(answer.body)
    assert (found.head["origin_ns"], found.head["length_ns"]) == (begin, 5000)
    assert found.names(found.rows(SliceKind.KERNEL)) == whole.names(kernels[:1])
    assert answer.body == served.ask(f"closer?end={begin + 5000}&begin={begin}").body


@pytest.mark.parametrize(
    "query",
    [
        *("", "begin=1", "end=2", "begin=&end=2", "begin=2&end=1", "begin=1&end=1", "begin=-1&end=2"),
        *("begin=a&end=b", "begin=1&end=2&end=3", "begin=1&end=2&more=3", "begin=%00&end=2", "begin=\u0661&end=9", "&" * 1000),
        *(f"begin=1&end={1 << 63}", f"begin=1&end={'9' * 5000}", "begin=+1&end=2", "begin=1_0&end=20", "begin=1.5&end=2"),
    ],
)
def test_a_stretch_that_is_none_is_refused_in_one_line(served: Served, query: str) -> None:
    answer = served.ask("closer?" + quote(query, safe="=&%+"))
    assert (answer.status, answer.body) == (400, b"closer?begin=NS&end=NS: two whole numbers, the second the larger")


def test_a_stretch_with_too_much_in_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiflame.render.report.document.MOST_AT_ONCE", 10)
    with running(Report(training(tmp_path))) as served:
        answer = served.ask("closer?begin=0&end=5000000000")
        assert answer.status == 400
        assert b"records are in this stretch of time: ask for a shorter one" in answer.body
        assert served.ask("closer?begin=0&end=1").status == 200


def test_a_stretch_needs_the_token_and_this_machines_name_too(served: Served) -> None:
    for path in ("/closer?begin=1&end=2", "/x/closer?begin=1&end=2"):
        assert served.ask(path).status == 404
    assert served.ask("closer?begin=1&end=2", Host="evil.example").status == 403
    assert served.ask("closer?begin=1&end=2", method="POST").status == 405


def test_what_nobody_waits_for_any_more_is_not_read(tmp_path: Path) -> None:
    report = Report(training(tmp_path))
    begun, go_on, read_closer = threading.Event(), threading.Event(), list[int]()

    def waits(name: str) -> bytes:
        begun.set()
        go_on.wait(60)
        return b"made"

    def closer(begin: int, end: int) -> bytes:
        read_closer.append(begin)
        return b"closer"

    report.block, report.closer = waits, closer  # type: ignore[method-assign]
    with running(report) as served:
        first = threading.Thread(target=served.ask, args=("blocks/tables",))
        first.start()
        assert begun.wait(60)
        with socket.create_connection(("127.0.0.1", served.port)) as left:
            left.sendall(f"GET {served.path}closer?begin=1&end=2 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        go_on.set()
        assert served.ask("closer?begin=3&end=4").body == b"closer"
        first.join()
    assert read_closer == [3]


def test_a_port_that_is_taken_is_one_line(served: Served, tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match=rf"cannot listen on port {served.port}: address already in use: choose another with --port"):
        Server(Report(training(tmp_path)), served.port)


def test_two_reports_have_different_tokens(tmp_path: Path) -> None:
    report = Report(training(tmp_path))
    with Server(report) as one, Server(report) as other:
        assert urlsplit(one.address).path != urlsplit(other.address).path


def test_the_command_prints_the_address_and_ends_quietly(tmp_path: Path) -> None:
    profile = training(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name not in browser.SCREENS}
    command = [sys.executable, "-m", "aiflame.cli.main", "open", str(profile.path), "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22,}/", address)
    assert Served(address).ask().status == 200
    process.send_signal(signal.SIGINT)
    rest, told = process.communicate(timeout=60)
    assert (process.returncode, rest, told.strip()) == (0, "", "")


def test_without_a_screen_no_browser_is_started_but_the_way_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in browser.SCREENS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("webbrowser.open", lambda *_: pytest.fail("started a browser"))
    (told,) = browser.show("http://127.0.0.1:4711/token/")
    assert "ssh -L 4711:127.0.0.1:4711" in told
    assert "token" not in told


def test_with_a_screen_the_browser_gets_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: queue.Queue[str] = queue.Queue()
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened.put)
    assert list(browser.show("http://127.0.0.1:4711/token/")) == []
    address = opened.get(timeout=60)
    assert address.startswith("file://")
    assert "token" not in address, "every user sees a browser's command line"
    page = Path(address.removeprefix("file://"))
    assert "http://127.0.0.1:4711/token/" in page.read_text()
    assert [oct(path.stat().st_mode & 0o777) for path in (page, page.parent)] == ["0o600", "0o700"]

"""The served report refuses all that does not come from this machine, has no token, wants to write, or is no request."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from report_profiles import training
from served_report import Served, running

from aiflame.render.report.document import Report
from aiflame.render.report.server import Server


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
def test_a_page_that_the_report_lacks_is_not_found(served: Served, path: str) -> None:
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
"""Headers that browsers send when another site's page asks."""


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
def test_refusals_have_the_same_headers_and_repeat_nothing(served: Served, request_line: bytes) -> None:
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


def test_the_header_and_the_page_have_the_same_policy(served: Served) -> None:
    answer = served.ask()
    in_page = re.search(rb'Content-Security-Policy" content="([^"]+)"', answer.body)
    assert in_page is not None
    assert answer.headers["content-security-policy"] == f"{in_page[1].decode()}; frame-ancestors 'none'"


def test_a_stretch_needs_the_token_and_this_machines_name_too(served: Served) -> None:
    for path in ("/closer?begin=1&end=2", "/x/closer?begin=1&end=2"):
        assert served.ask(path).status == 404
    assert served.ask("closer?begin=1&end=2", Host="evil.example").status == 403
    assert served.ask("closer?begin=1&end=2", method="POST").status == 405


def test_two_reports_have_different_tokens(tmp_path: Path) -> None:
    report = Report(training(tmp_path))
    with Server(report) as one, Server(report) as other:
        assert urlsplit(one.address).path != urlsplit(other.address).path

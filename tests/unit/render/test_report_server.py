"""The served report: its page, its blocks, closer stretches of its timeline, and the way a browser gets to it."""

from __future__ import annotations

import gzip
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from report_profiles import training
from served_report import Served, running
from timeline_blocks import read

from aiflame.attribute.timeline.tables import SliceKind
from aiflame.cli.support import browser
from aiflame.errors import AiflameError
from aiflame.render.report.document import Report
from aiflame.render.report.server import Server


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


def test_bytes_that_are_no_http_end_without_noise(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    served.raw(b"\x16\x03\x01\x00\xa5\x01\x00\x00")
    served.raw(b"GET " + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")
    assert served.ask().status == 200
    assert capfd.readouterr() == ("", "")


def test_a_browser_that_leaves_is_not_reported(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, not closed
            connection.sendall(f"GET {served.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert served.ask().status == 200
    assert capfd.readouterr() == ("", "")


def test_a_block_is_made_once_however_many_ask(tmp_path: Path) -> None:
    report = Report(training(tmp_path))
    built: list[str] = []
    works = report.block

    def counted(name: str) -> bytes:
        built.append(name)
        return works(name)

    report.block = counted  # type: ignore[method-assign]
    with running(report) as served:
        asking = [threading.Thread(target=served.ask, args=("blocks/tables",)) for _ in range(8)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert built == ["tables"]


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
    block = read(answer.body)
    assert (block.head["origin_ns"], block.head["length_ns"]) == (begin, 5000)
    assert block.names(block.rows(SliceKind.KERNEL)) == whole.names(kernels[:1])
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


def test_a_stretch_that_nobody_waits_for_any_more_is_not_read(tmp_path: Path) -> None:
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
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.strip()) == (0, "", "")


def test_without_a_screen_no_browser_starts_and_a_line_says_how_to_reach_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in browser.SCREENS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("webbrowser.open", lambda *_: pytest.fail("started a browser"))
    (hint,) = browser.show("http://127.0.0.1:4711/token/")
    assert "ssh -L 4711:127.0.0.1:4711" in hint
    assert "token" not in hint


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

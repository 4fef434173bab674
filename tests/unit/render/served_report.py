"""The server of a report, running in a thread, and the answers to requests."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

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
        reply = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        connection.close()
        return reply

    def raw(self, text: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(text)
            with contextlib.suppress(OSError):  # the server may have left already
                connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))


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

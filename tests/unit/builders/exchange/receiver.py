"""A receiver of profiles on this machine: it keeps each body once, by its id, and has any fault that a test asks for."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import socket
import ssl
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Receiver:
    url: str = ""
    faults: deque[str] = field(default_factory=deque)
    """The faults of the next requests; when there are none left, all is well."""
    always: dict[str, str] = field(default_factory=dict)
    """The fault that a body has each time it comes, by its id."""
    kept: dict[str, bytes] = field(default_factory=dict)
    """By id, unpacked."""
    heard: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """The path and the headers of each request."""
    port: int = 0
    release: threading.Event = field(default_factory=threading.Event)
    """Ends the requests that hang."""


FAULTS = ("500", "503", "429 later", "close at once", "close in the middle", "hang", "answer lost", "slow", "no http", "half an answer")


class _Handler(http.server.BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        receiver = self.receiver
        receiver.heard.append((self.path, dict(self.headers.items())))
        fault = receiver.always.get(self.headers["Idempotency-Key"]) or (receiver.faults.popleft() if receiver.faults else "")
        if fault == "close at once":
            return self._cut()
        length = int(self.headers["Content-Length"])
        if fault == "close in the middle":
            self.rfile.read(length // 2)
            return self._cut()
        if fault == "413 early":
            self._answer(413)
            self.wfile.flush()
            return self._cut()
        data = b"".join(self._slowly(length)) if fault == "takes its time" else self.rfile.read(length)
        if fault == "hang":
            receiver.release.wait(30)
            return self._cut()
        if fault == "no http":
            self.wfile.write(b"SSH-2.0-OpenSSH\r\n")
            return self._cut()
        if fault.isdecimal():
            return self._answer(int(fault))
        if fault == "429 later":
            return self._answer(429, {"Retry-After": "120"})
        if fault.startswith("lead to "):
            status, location = fault.removeprefix("lead to ").split(" ", 1)
            return self._answer(int(status), {"Location": location})
        receiver.kept.setdefault(self.headers["Idempotency-Key"], self._unpacked(data))
        if fault == "answer lost":
            return self._cut()
        if fault == "half an answer":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
            return self._cut()
        if fault == "drips":
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not receiver.release.wait(0.02):
                    self.wfile.write(b".")
            return None
        if fault == "slow":
            receiver.release.wait(0.05)
        return self._answer(200, {}, bytes.fromhex(fault.removeprefix("say ")) if fault.startswith("say ") else b"")

    def _slowly(self, length: int) -> Iterator[bytes]:
        while length:
            self.receiver.release.wait(0.05)
            part = self.rfile.read(min(length, 256 << 10))
            length -= len(part)
            yield part

    def _unpacked(self, data: bytes) -> bytes:
        return gzip.decompress(data) if self.headers["Content-Encoding"] == "gzip" else data

    def _answer(self, status: int, headers: dict[str, str] | None = None, content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Senders go away; that is no news."""


@contextlib.contextmanager
def running(receiver: Receiver | None = None, certificate: Path | None = None) -> Iterator[Receiver]:
    """`receiver`: one that ran before, at the same port."""
    receiver = receiver or Receiver()
    receiver.release.clear()
    server = _Server(("127.0.0.1", receiver.port), type("Handler", (_Handler,), {"receiver": receiver}))
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 << 10)  # so that a slow reader is felt
    receiver.port = server.server_port
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver.url = f"http{'s' if certificate is not None else ''}://localhost:{receiver.port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def new_certificate(file: Path, name: str = "localhost") -> Path:
    """A certificate that its own key has signed, and the key."""
    key = file.with_suffix(".key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(file)),
        ],
        check=True,
        capture_output=True,
    )
    file.write_bytes(file.read_bytes() + key.read_bytes())
    return file

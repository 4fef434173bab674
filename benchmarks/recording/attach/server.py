"""A server to attach to, under load; see turns.py. At SIGUSR1 it prints the longest time of a request, as its clients see it.

python server.py      (uvicorn, two clients of the standard library in processes of their own)"""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from multiprocessing.sharedctypes import Synchronized
from typing import Any

import uvicorn

PORT = 18471


def turn(size: int) -> None:
    total = 0
    for number in range(size * 1000):
        total += number * number


def light() -> None:
    turn(3)


def heavy() -> None:
    turn(9)


async def app(scope: dict[str, Any], receive: object, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    if scope["type"] == "http":
        light()
        heavy()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})


def client(longest: Synchronized[float]) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    connection = connected()
    while True:
        began = time.perf_counter()
        connection.request("GET", "/")
        connection.getresponse().read()
        longest.value = max(longest.value, time.perf_counter() - began)


def connected() -> http.client.HTTPConnection:
    """When the server has begun to listen."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", PORT)
        with contextlib.suppress(OSError):
            connection.connect()
            return connection
        time.sleep(0.05)


if __name__ == "__main__":
    shared = multiprocessing.get_context("spawn").Value("d", 0.0)
    for _ in range(2):
        multiprocessing.get_context("spawn").Process(target=client, args=(shared,), daemon=True).start()

    def answer(*_: object) -> None:
        print(f"{shared.value * 1e3:.3f}", flush=True)
        shared.value = 0.0

    signal.signal(signal.SIGUSR1, answer)
    threading.Timer(1, lambda: print("begun", flush=True)).start()
    uvicorn.run(app, port=PORT, log_level="error")

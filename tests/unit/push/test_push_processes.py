"""Processes that put bodies into one queue and send them at the same time, and one that is killed while it sends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from push_clock import body
from receiver import Receiver

from aiflame.push.destination import Destination
from aiflame.push.queue import Queue

HERE = Path(__file__).parents[3]
SENDER = f"""
import sys
sys.path[:0] = [{str(HERE / "src")!r}, {str(HERE / "tests/unit/builders/exchange")!r}]
from push_clock import body
from aiflame.push.destination import Destination
from aiflame.push.queue import Queue
from aiflame.push.sender import send
queue = Queue.to(Destination.of(sys.argv[1]))
for number in range(int(sys.argv[3])):
    queue.put(body(f"{{sys.argv[2]}} {{number}}".encode()))
    send(queue)
"""


def start(receiver: Receiver, name: str, bodies: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SENDER, receiver.url, name, str(bodies)])


def test_many_processes_send_each_body_once_and_leave_none(receiver: Receiver) -> None:
    processes = [start(receiver, name, 10) for name in ("a", "b", "c")]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert sorted(receiver.kept.values()) == sorted(f"{name} {number}".encode() for name in "abc" for number in range(10))
    assert len(receiver.heard) == 30
    (queue,) = Queue.all()
    assert (queue.waiting(), queue.counts().arrived) == ([], 30)


def test_a_sender_that_is_killed_loses_nothing_and_holds_nobody_up(receiver: Receiver) -> None:
    receiver.faults.append("hang")
    process = start(receiver, "a", 1)
    until = time.monotonic() + 60
    while not receiver.heard and time.monotonic() < until:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert len(Queue.to(Destination.of(receiver.url)).waiting()) == 1
    assert start(receiver, "b", 1).wait(60) == 0
    assert sorted(receiver.kept) == sorted(body(text).id for text in (b"a 0", b"b 0"))

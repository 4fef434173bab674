"""Spends CPU time in regions: `marked.py [inside PROFILE]`, recorded from outside or by itself. Prints the CPU time of each path."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import aiflame

spent: dict[str, int] = {}


PROFILE = Path(sys.argv[2] if sys.argv[1:] else os.environ["AIFLAME_PROFILE"])


def samples() -> int:
    """How many this process has so far."""
    for table in PROFILE.glob(f"spool/{os.getpid()}.*/cpu_samples.table"):
        with table.open("rb") as rows:
            return int.from_bytes(rows.read(32)[24:], "little")
    return 0


def spin(path: str, seconds: float, recorded: bool = True) -> None:
    """Ends with a sample, which has all the time before it: under load the kernel leaves a thread without its timer's signal for 0.2 s."""
    begin = time.thread_time_ns()
    while time.thread_time_ns() < begin + seconds * 1e9:
        pass
    before = samples()
    while recorded and samples() == before and time.thread_time_ns() < begin + 5e9:
        pass
    spent[path] = spent.get(path, 0) + time.thread_time_ns() - begin


@aiflame.region("forward", domain="model")
def forward(where: str) -> None:
    spin(f"{where}/forward", 0.2)


def steps() -> None:
    for _ in range(2):
        with aiflame.region("step"):
            forward("step")
            with aiflame.region("backward", category="grad", color=0xFF00FF00):
                spin("step/backward", 0.1)


def other() -> None:
    with aiflame.region("other thread"):
        forward("other thread")


with aiflame.region("around all"):
    with aiflame.record(sys.argv[2]) if sys.argv[1:] else nullcontext():
        steps()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        if sys.argv[1:]:
            late = aiflame.region("ends too late")
            late.__enter__()
    spin("around all", 0.1, recorded=not sys.argv[1:])
    if sys.argv[1:]:
        late.__exit__(None, None, None)
print(json.dumps(spent))

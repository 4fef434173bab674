"""Starts programs and dumps them until they are where they are going to stay."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aiflame.dump.described import Described, Thread, describe

HERE = Path(__file__).parent
PATIENCE_S = 60.0
"""A program may have to wait for a processor; how long it does decides nothing."""


@contextmanager
def started(command: Sequence[str], until: str = "ready") -> Iterator[subprocess.Popen[str]]:
    """A program that has printed a line that begins so, and ends with its input."""
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None
        assert program.stdout.readline().startswith(until)
        yield program
    finally:
        program.kill()
        program.communicate()


def python(text: str, *, executable: str = sys.executable) -> list[str]:
    return [executable, "-c", text]


def dumped(pid: int, when: Callable[[Described], bool]) -> Described:
    """The first dump for which this is true, or the last one."""
    until = time.monotonic() + PATIENCE_S
    while True:
        process = describe(pid)
        if when(process) or time.monotonic() > until:
            return process
        time.sleep(0.05)


def named(process: Described, name: str) -> Thread:
    (thread,) = (thread for thread in process.threads if thread.name == name)
    return thread


def functions(thread: Thread) -> list[str]:
    """Its Python functions, innermost first, without their classes: 3.10 does not keep them."""
    return [frame.function.rpartition(".")[2] for frame in thread.frames if frame.python]

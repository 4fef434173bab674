"""Numbers of processes in a namespace of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiflame.recorder.numbers import Numbers, namespace_of, number_inside

INSIDE = ("unshare", "--pid", "--fork", "--kill-child", *(() if os.getuid() == 0 else ("--user",)))


@pytest.fixture
def apart() -> Iterator[int]:
    """The number here of a process that is 1 in a namespace of its own."""
    process = subprocess.Popen([*INSIDE, "sh", "-c", "echo begun; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "begun\n":
            pytest.skip("this system makes no namespaces")
        yield int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    finally:
        process.communicate("\n")


def test_our_own_are_as_they_are() -> None:
    own = Numbers.of(os.getpid())
    assert not own.differ
    assert own.have(os.getpid())
    assert (own.here(os.getpid()), own.here(1 << 22), own.thread_here(os.getpid(), 5)) == (os.getpid(), 1 << 22, 5)
    assert number_inside(f"/proc/{os.getpid()}") == os.getpid()


def test_those_of_another_namespace_are_found(apart: int) -> None:
    numbers = Numbers.of(apart)
    assert numbers.differ
    assert (numbers.have(apart), numbers.have(os.getpid())) == (True, False)
    assert numbers.here(1) == apart
    assert (numbers.thread_inside(apart, apart), numbers.thread_here(apart, 1)) == (1, apart)
    assert (numbers.here(1 << 21), numbers.thread_here(apart, 1 << 21)) == (None, None)


def test_a_process_that_has_ended_has_none(apart: int) -> None:
    numbers = Numbers.of(apart)
    assert numbers.here(1) == apart
    os.kill(apart, signal.SIGKILL)
    until = time.monotonic() + 30
    while Path(f"/proc/{apart}").exists():
        assert time.monotonic() < until
        time.sleep(0.005)
    assert numbers.here(1) is None
    assert namespace_of(apart) == ""

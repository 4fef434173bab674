"""A thread's times and system call, from the kernel's files in `/proc/PID/task/TID`."""

from __future__ import annotations

import os
from pathlib import Path

from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """The system call in which a thread sleeps, from its line in `syscall`."""

    number: int
    arguments: tuple[int, ...]
    sp: int
    pc: int


def parse_call(line: bytes) -> Call | None:
    """None: the thread runs, or sleeps outside of a call."""
    number, *words = line.split()
    if not number.isdigit() or len(words) != 8:
        return None
    *arguments, sp, pc = (int(word, 16) for word in words)
    return Call(int(number), tuple(arguments), sp, pc)


def ready_ns(schedstat: bytes) -> int:
    """The time in which the thread ran or was ready to run."""
    on_cpu, for_cpu, _ = schedstat.split()
    return int(on_cpu) + int(for_cpu)


def read(path: str) -> bytes:
    """The first page of a file; files of a thread have no more."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def threads_of(pid: int) -> list[int]:
    """Ids of the threads of a process. OSError if it has ended."""
    return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]


class Thread:
    """The files of a thread that are read at each look. OSError if it has ended; PermissionError if its call is hidden from us."""

    def __init__(self, pid: int, tid: int) -> None:
        self._folder = f"/proc/{pid}/task/{tid}"
        self._schedstat = os.open(f"{self._folder}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._syscall = os.open(f"{self._folder}/syscall", os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            os.close(self._schedstat)
            raise

    def close(self) -> None:
        os.close(self._schedstat)
        os.close(self._syscall)

    def times(self) -> bytes:
        return os.pread(self._schedstat, 256, 0)

    def call(self) -> bytes:
        return os.pread(self._syscall, 512, 0)

    def is_stopped(self) -> bool:
        """True if a signal or a debugger has stopped it."""
        return read(f"{self._folder}/stat").rpartition(b")")[2].split(None, 1)[0] in (b"T", b"t")

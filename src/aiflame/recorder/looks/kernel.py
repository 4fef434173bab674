"""A thread's times and system call, by the kernel (`/proc/PID/task/TID`)."""

from __future__ import annotations

import os

from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """The system call in which a thread sleeps, by its line in `syscall`."""

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
    """The time for which it ran, or waited for a processor alone."""
    on_cpu, for_cpu, _ = schedstat.split()
    return int(on_cpu) + int(for_cpu)


def read(path: str) -> bytes:
    """The file's first page, which is all that files of a thread have."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


class Thread:
    """Files of a thread that are read at each look. OSError when it has ended; PermissionError where its call is hidden from us."""

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
        """By a signal, or a debugger."""
        return read(f"{self._folder}/stat").rpartition(b")")[2].split(None, 1)[0] in (b"T", b"t")

"""Numbers of processes and threads, which are others inside a container than for the recorder outside of it.

The collector writes down the numbers that its process has inside. The recorder finds the process by the number that it has here."""

from __future__ import annotations

import os
import time

_AGAIN_S = 0.2
"""The least number of seconds between two looks at all processes of this machine."""


def namespace_of(pid: int | str = "self") -> str:
    """The namespace of process ids in which a process lives; empty: it has ended, or we may not know."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115
    except OSError:
        return ""


def number_inside(path: str) -> int:
    """The number that the process or thread with this folder in /proc has in its own namespace. OSError: it has ended."""
    from aiflame.recorder.looks.kernel import read  # only `aiflame attach` needs it

    for line in read(f"{path}/status").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return int(path.rpartition("/")[2])


def number_in_container(pid: int) -> str:
    """For people: ` (1 in its container)`; empty where it is the same."""
    try:
        inside = number_inside(f"/proc/{pid}")
    except OSError:
        return ""
    return "" if inside == pid else f" ({inside} in its container)"


class Numbers:
    """Of the processes of one namespace. They are the recorder's own without a name of another one."""

    def __init__(self, namespace: str = "") -> None:
        self.namespace = "" if namespace == namespace_of() else namespace
        self._here: dict[int, int] = {}
        self._next_look = 0.0

    @classmethod
    def of(cls, pid: int) -> Numbers:
        return cls(namespace_of(pid))

    @property
    def differ(self) -> bool:
        return bool(self.namespace)

    def have(self, pid: int) -> bool:
        """Whether the process lives in this namespace."""
        return namespace_of(pid) == (self.namespace or namespace_of())

    def here(self, pid: int) -> int | None:
        """The number that a process has here. None: there is no such process any more."""
        if not self.differ:
            return pid
        if not self._is(self._here.get(pid, 0), pid) and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _AGAIN_S
            self._look()
        here = self._here.get(pid, 0)
        return here if self._is(here, pid) else None

    def thread_here(self, pid: int, tid: int) -> int | None:
        """The number here of a thread of the process that has the number `pid` here."""
        if not self.differ:
            return tid
        try:
            threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        except OSError:
            return None
        return next((int(thread) for thread in threads if self._inside(f"/proc/{pid}/task/{thread}") == tid), None)

    def thread_inside(self, pid: int, tid: int) -> int:
        """The number inside of a thread that has these numbers here. OSError: it has ended."""
        return number_inside(f"/proc/{pid}/task/{tid}") if self.differ else tid

    def _is(self, here: int, inside: int) -> bool:
        return here > 0 and self._inside(f"/proc/{here}") == inside and namespace_of(here) == self.namespace

    @staticmethod
    def _inside(path: str) -> int:
        try:
            return number_inside(path)
        except (OSError, ValueError):
            return 0

    def _look(self) -> None:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
        inside = [pid for pid in pids if namespace_of(pid) == self.namespace]
        self._here = {self._inside(f"/proc/{pid}"): pid for pid in inside}


OURS = Numbers()

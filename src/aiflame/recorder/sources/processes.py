"""The memory, threads and page faults of the recorded processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.telemetry_files import Header, Series
from aiflame.profile.spool.open_lives import Reader
from aiflame.recorder.numbers import OURS, Numbers
from aiflame.recorder.sources.base import Look

_MOST_PROCESSES = 256
_MOST_THREADS = 1024
"""The most threads that are read in all processes together: reading one takes 15 µs."""


class Recorded:
    """Finds the recorded processes: those with a folder in the spool, or with a record in `lives.table` that has no end."""

    def __init__(self, spool: Folder | None, numbers: Numbers = OURS) -> None:
        self._spool, self._numbers = spool, numbers
        self._lives = Reader()
        self._begun: set[str] = set()

    def pids(self) -> list[str]:
        if self._spool is None:
            return []
        self._begun |= {str(pid) for pid, _ in self._lives.unfinished(self._spool)}
        pids = {folder.partition(".")[0] for folder in self._spool.names()[-_MOST_PROCESSES:]} | set(list(self._begun)[:_MOST_PROCESSES])
        return sorted(pid for pid in pids if pid.isdecimal())

    def here(self, pid: str) -> str:
        """Its number for us; 0, which no process has: it has ended."""
        return str(self._numbers.here(int(pid)) or 0)

    def ended(self, pids: set[str]) -> None:
        self._begun -= pids


class Processes:
    """/proc/PID/statm"""

    name, every, thread = "process", 10, "system"

    def __init__(self, root: Path, spool: Folder | None, numbers: Numbers = OURS) -> None:
        self._proc, self._recorded = root / "proc", Recorded(spool, numbers)
        self._page = os.sysconf("SC_PAGE_SIZE")

    def begin(self) -> Header | None:
        return Header(self.name, (Series("pid {}", "resident memory", "bytes", self._page),), keyed=True)

    def look(self) -> list[Look]:
        now, pids = time.monotonic_ns(), self._recorded.pids()
        resident = {pid: pages for pid in pids if (pages := self._resident(pid)) is not None}
        self._recorded.ended(set(pids) - resident.keys())
        return [(now, int(pid), [pages]) for pid, pages in resident.items()]

    def _resident(self, pid: str) -> float | None:
        """None: the process has ended."""
        try:
            return float((self._proc / self._recorded.here(pid) / "statm").read_bytes().split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def end(self) -> None:
        pass


class Scheduling:
    """/proc/PID/task/TID/schedstat: the mean numbers of threads that ran, and that were ready but had no CPU, since the last reading, and
    how often one was given a CPU; and page faults (/proc/PID/stat)."""

    name, every, thread = "process", 4, "system"

    def __init__(self, root: Path, spool: Folder | None, numbers: Numbers = OURS) -> None:
        self._proc, self._recorded = root / "proc", Recorded(spool, numbers)
        self._seen: dict[str, dict[str, tuple[int, ...]]] = {}
        """For each thread of a process, its time on a CPU, its time waiting for one, and how often it was given one."""
        self._sums: dict[str, list[int]] = {}
        """Sums over all threads of a process, including those that have ended."""

    def begin(self) -> Header | None:
        if not (self._proc / "self/schedstat").exists():
            return None
        series = (
            Series("pid {}", "running threads", "threads", 1e-9, rate=True),
            Series("pid {}", "threads without a CPU", "threads", 1e-9, rate=True),
            Series("pid {}", "usable CPUs", "CPUs"),
            Series("pid {}", "page faults", "1/s", rate=True),
            Series("pid {}", "page faults from disk", "1/s", rate=True),
            Series("pid {}", "time in the kernel", "%", 100 / os.sysconf("SC_CLK_TCK"), rate=True),
            Series("pid {}", "turns on a CPU", "1/s", rate=True),
        )
        return Header(self.name, series, keyed=True)

    def look(self) -> Iterator[Look]:
        room = _MOST_THREADS
        for pid in self._recorded.pids():
            try:
                now, here = time.monotonic_ns(), self._recorded.here(pid)
                folder = self._proc / here
                (running, waited, turns), threads = self._times(pid, room)
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                cpus = len(os.sched_getaffinity(int(here)))
                minor, major, system = (float(fields[place]) for place in (7, 9, 12))
            except (OSError, ValueError, IndexError):
                self._recorded.ended({pid})
                self._seen.pop(pid, None)
                self._sums.pop(pid, None)
                continue
            room -= threads
            yield now, int(pid), [running, waited, cpus, minor + major, major, system, turns]

    def _times(self, pid: str, room: int) -> tuple[list[float], int]:
        """Sums over its threads, and the number of threads."""
        before, now = self._seen.get(pid, {}), {}
        sums = self._sums.setdefault(pid, [0, 0, 0])
        tasks = f"{self._proc}/{self._recorded.here(pid)}/task"
        for thread in os.listdir(tasks)[:room]:  # noqa: PTH208
            with suppress(OSError, ValueError):  # the thread has just ended
                read = tuple(map(int, _read(f"{tasks}/{thread}/schedstat").split()))
                old = before.get(thread, (0, 0, 0))
                if any(value < then for value, then in zip(read, old, strict=True)):  # another thread has its id now
                    old = (0, 0, 0)
                for place, (value, then) in enumerate(zip(read, old, strict=True)):
                    sums[place] += value - then
                now[thread] = read
        self._seen[pid] = before | now if len(now) == room else now
        return [float(one) for one in sums], len(now)

    def end(self) -> None:
        pass


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 128)
    finally:
        os.close(file)

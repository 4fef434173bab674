"""Memory of the machine and of the recorded processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.telemetry_files import Header, Series
from aiflame.profile.spool.open_lives import Reader
from aiflame.recorder.sources.base import NOTHING, Look, OpenFile

_FIELDS = (b"MemTotal:", b"MemAvailable:", b"Cached:", b"Dirty:", b"SwapTotal:", b"SwapFree:")
_MOST_PROCESSES = 256


class Memory:
    """/proc/meminfo"""

    name, every, thread = "memory", 4, "system"

    def __init__(self, root: Path) -> None:
        self._path = root / "proc/meminfo"
        self._file: OpenFile | None = None

    def begin(self) -> Header | None:
        try:
            self._file = OpenFile(self._path)
        except OSError:
            return None
        return Header(self.name, tuple(Series("", name, "bytes", 1024) for name in ("used", "available", "cached", "dirty", "swap used")))

    def look(self) -> list[Look]:
        assert self._file is not None
        now, fields = time.monotonic_ns(), dict.fromkeys(_FIELDS, NOTHING)
        for line in self._file.read().split(b"\n"):
            name, _, value = line.partition(b" ")
            if name in fields:
                fields[name] = float(value.split()[0])
        total, available, cached, dirty, swap, free = fields.values()
        return [(now, 0, [total - available, available, cached, dirty, swap - free])]

    def end(self) -> None:
        if self._file is not None:
            self._file.close()


class Processes:
    """/proc/PID/statm of each recorded process: those with a folder in the spool, or with a record of `lives.table` that has no end."""

    name, every, thread = "process", 10, "system"

    def __init__(self, root: Path, spool: Folder | None) -> None:
        self._proc, self._spool = root / "proc", spool
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._lives = Reader()
        self._begun: set[str] = set()

    def begin(self) -> Header | None:
        return Header(self.name, (Series("pid {}", "resident memory", "bytes", self._page),), keyed=True)

    def look(self) -> list[Look]:
        folders = self._spool.names() if self._spool is not None else []
        now = time.monotonic_ns()
        self._begun |= {str(pid) for pid, _ in self._lives.unfinished(self._spool)} if self._spool is not None else set()
        pids = {folder.partition(".")[0] for folder in folders[-_MOST_PROCESSES:]} | set(list(self._begun)[:_MOST_PROCESSES])
        resident = {pid: pages for pid in pids if pid.isdecimal() and (pages := self._resident(pid)) is not None}
        self._begun -= pids - resident.keys()
        return [(now, int(pid), [pages]) for pid, pages in resident.items()]

    def _resident(self, pid: str) -> float | None:
        """None: it has ended."""
        try:
            return float((self._proc / pid / "statm").read_bytes().split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def end(self) -> None:
        pass

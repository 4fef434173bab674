"""Memory: of the machine, and of the processes that are recorded."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from aiflame.profile.records import COMMIT, layout
from aiflame.profile.schema import HEADER_BYTES, LIVES, LIVES_FILE
from aiflame.profile.telemetry_format import Header, Series
from aiflame.recorder.sources.base import NOTHING, Kept, Look

_FIELDS = (b"MemTotal:", b"MemAvailable:", b"Cached:", b"Dirty:", b"SwapTotal:", b"SwapFree:")
_MOST_PROCESSES = 256


class Memory:
    """/proc/meminfo"""

    name, every, thread = "memory", 4, "system"

    def __init__(self, root: Path) -> None:
        self._path = root / "proc/meminfo"
        self._file: Kept | None = None

    def begin(self) -> Header | None:
        try:
            self._file = Kept(self._path)
        except OSError:
            return None
        return Header(self.name, tuple(Series("", name, "bytes", 1024) for name in ("used", "available", "cached", "dirty", "swap used")))

    def look(self) -> list[Look]:
        assert self._file is not None
        now, told = time.monotonic_ns(), dict.fromkeys(_FIELDS, NOTHING)
        for line in self._file.read().split(b"\n"):
            name, _, value = line.partition(b" ")
            if name in told:
                told[name] = float(value.split()[0])
        total, available, cached, dirty, swap, free = told.values()
        return [(now, 0, [total - available, available, cached, dirty, swap - free])]

    def end(self) -> None:
        if self._file is not None:
            self._file.close()


class Processes:
    """/proc/PID/statm of each process that is recorded: those with a folder in the spool, and those of its `lives.table` that have not ended."""

    name, every, thread = "process", 10, "system"

    def __init__(self, root: Path, spool: Path) -> None:
        self._proc, self._spool = root / "proc", spool
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._begun: set[str] = set()
        self._read = HEADER_BYTES  # of lives.table

    def begin(self) -> Header | None:
        return Header(self.name, (Series("pid {}", "resident memory", "bytes", self._page),), keyed=True)

    def look(self) -> list[Look]:
        try:
            folders = [entry.name for entry in os.scandir(self._spool)]
        except OSError:
            return []
        now = time.monotonic_ns()
        self._read_lives()
        pids = {folder.partition(".")[0] for folder in folders[-_MOST_PROCESSES:]} | set(list(self._begun)[:_MOST_PROCESSES])
        found = {pid: pages for pid in pids if pid.isdigit() and (pages := self._resident(pid)) is not None}
        self._begun -= pids - found.keys()
        return [(now, int(pid), [pages]) for pid, pages in found.items()]

    def _read_lives(self) -> None:
        """Who began since the last look, and has not ended since."""
        try:
            with (self._spool / LIVES_FILE).open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return
        begin, end = (layout((COMMIT, *half.columns))[1] for half in LIVES)
        last = 0
        for at in range(0, len(data) - begin - end + 1, begin + end):
            written, pid = struct.unpack_from("<II", data, at)
            if not written:
                continue
            if not struct.unpack_from("<I", data, at + begin)[0]:
                self._begun.add(str(pid))
            last = at + begin + end
        self._read += last

    def _resident(self, pid: str) -> float | None:
        """None: it has ended."""
        try:
            return float((self._proc / pid / "statm").read_bytes().split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def end(self) -> None:
        pass

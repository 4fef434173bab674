"""Memory of the machine."""

from __future__ import annotations

import time
from pathlib import Path

from aiflame.profile.folder.telemetry_files import Header, Series
from aiflame.recorder.sources.base import NOTHING, Look, OpenFile

_FIELDS = (b"MemTotal:", b"MemAvailable:", b"Cached:", b"Dirty:", b"SwapTotal:", b"SwapFree:")


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

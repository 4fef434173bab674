"""Disks, networks and pressure, from tables in /proc."""

from __future__ import annotations

import re
import time
from pathlib import Path

from aiflame.profile.folder.telemetry_files import Header, Series
from aiflame.recorder.sources.base import NOTHING, Look, OpenFile

_NO_DISK = re.compile(r"(loop|ram|zram|sr|fd)\d")
_SECTOR = 512
_MOST = 32
"""The most disks and networks: a host of containers has thousands."""


class Disks:
    """/proc/diskstats: whole disks."""

    name, every, thread = "disk", 4, "system"

    def __init__(self, root: Path) -> None:
        self._path, self._blocks = root / "proc/diskstats", root / "sys/block"
        self._file: OpenFile | None = None
        self._names: list[bytes] = []

    def begin(self) -> Header | None:
        try:
            self._file = OpenFile(self._path)
        except OSError:
            return None
        names = [name.decode() for name in self._rows()]
        disks = [name for name in names if not _NO_DISK.match(name) and (self._blocks / name.replace("/", "!")).exists()][:_MOST]
        self._names = [name.encode() for name in disks]
        series = (
            (
                Series(name, "read", "bytes/s", _SECTOR, rate=True),
                Series(name, "written", "bytes/s", _SECTOR, rate=True),
                Series(name, "busy", "%", 0.1, rate=True, most=100.0),  # milliseconds in a second
            )
            for name in disks
        )
        return Header(self.name, tuple(one for of in series for one in of)) if disks else None

    def look(self) -> list[Look]:
        now, rows = time.monotonic_ns(), self._rows()
        return [(now, 0, [value for name in self._names for value in _numbers(rows.get(name, []), 2, 6, 9)])]

    def end(self) -> None:
        if self._file is not None:
            self._file.close()

    def _rows(self) -> dict[bytes, list[bytes]]:
        """The columns after the name of each disk, by that name."""
        assert self._file is not None
        lines = (line.split() for line in self._file.read().split(b"\n"))
        return {fields[2]: fields[3:] for fields in lines if len(fields) > 12}


class Networks:
    """/proc/net/dev"""

    name, every, thread = "network", 4, "system"

    def __init__(self, root: Path) -> None:
        self._path = root / "proc/net/dev"
        self._file: OpenFile | None = None
        self._names: list[bytes] = []

    def begin(self) -> Header | None:
        try:
            self._file = OpenFile(self._path)
        except OSError:
            return None
        self._names = list(self._rows())[:_MOST]
        names = ("received", "sent")
        series = tuple(Series(device.decode(), name, "bytes/s", rate=True) for device in self._names for name in names)
        return Header(self.name, series) if series else None

    def look(self) -> list[Look]:
        now, rows = time.monotonic_ns(), self._rows()
        return [(now, 0, [value for name in self._names for value in _numbers(rows.get(name, []), 0, 8)])]

    def end(self) -> None:
        if self._file is not None:
            self._file.close()

    def _rows(self) -> dict[bytes, list[bytes]]:
        assert self._file is not None
        lines = (line.partition(b":") for line in self._file.read().split(b"\n")[2:])
        return {name.strip(): fields.split() for name, colon, fields in lines if colon}


class Pressure:
    """/proc/pressure: the share of time in which some task, or every task, waited for a resource."""

    name, every, thread = "pressure", 4, "system"

    def __init__(self, root: Path) -> None:
        self._folder = root / "proc/pressure"
        self._files: list[OpenFile] = []

    def begin(self) -> Header | None:
        series = []
        for resource in ("cpu", "memory", "io"):
            try:
                file = OpenFile(self._folder / resource)
            except OSError:
                continue
            if not file.read():  # pressure accounting was switched off at boot
                file.close()
                continue
            self._files.append(file)
            series += [Series(resource, name, "%", 1e-4, rate=True, most=100.0) for name in ("some waited", "all waited")]
        return Header(self.name, tuple(series)) if series else None

    def look(self) -> list[Look]:
        now, values = time.monotonic_ns(), []
        for file in self._files:
            totals = [line.rpartition(b"total=")[2] for line in file.read().splitlines()]
            values += _numbers(totals, 0, 1)
        return [(now, 0, values)]

    def end(self) -> None:
        for file in self._files:
            file.close()


def _numbers(fields: list[bytes], *places: int) -> list[float]:
    try:
        return [float(fields[place]) if place < len(fields) else NOTHING for place in places]
    except ValueError:
        return [NOTHING] * len(places)

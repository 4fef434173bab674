"""A source: a part of the machine that is read at intervals."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from aiflame.profile.folder.telemetry_files import Header, Series

Look = tuple[int, int, list[float]]
"""A reading: time (CLOCK_MONOTONIC), key (0 if records have none), and a value for each series."""
NOTHING = math.nan

SysfsValue = tuple[Series, Path]
"""A series, and the file of sysfs with its value."""


class Source(Protocol):
    name: str
    every: int
    """Number of intervals between two readings: sources that change slowly, or have many values, are read less often."""
    thread: str
    """The thread that reads the source. Sources of one thread wait for each other, so a source whose driver may hang has its own thread."""

    def begin(self) -> Header | None:
        """Called once, in the thread that will read the source; None: this machine has no such values."""

    def look(self) -> Iterable[Look]: ...

    def end(self) -> None: ...


class OpenFile:
    """A file of /proc or /sys that stays open, because it is read again and again. If the file is gone, reading gives nothing."""

    def __init__(self, path: Path, most: int = 1 << 16) -> None:
        self._most = most
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        try:
            return os.pread(self._file, self._most, 0)
        except OSError:
            return b""

    def number(self) -> float:
        """`123`, or `123@1700000000.5`, a value with its own time."""
        try:
            return float(self.read().partition(b"@")[0])
        except ValueError:
            return NOTHING

    def close(self) -> None:
        os.close(self._file)


class SysfsSource:
    """Values that have a file each."""

    def __init__(self, name: str, values: Sequence[SysfsValue], every: int = 1, thread: str = "devices") -> None:
        self.name, self.every, self.thread = name, every, thread
        self._values = values
        self._files: list[OpenFile] = []

    def begin(self) -> Header | None:
        readable, unreadable = [], []
        for series, path in self._values:
            try:
                file = OpenFile(path, 128)
            except OSError:
                unreadable.append(series)
                continue
            if math.isnan(file.number()):
                file.close()
                continue
            readable.append(series)
            self._files.append(file)
        return Header(self.name, tuple(readable), tuple(unreadable)) if readable or unreadable else None

    def look(self) -> list[Look]:
        return [(time.monotonic_ns(), 0, [file.number() for file in self._files])] if self._files else []

    def end(self) -> None:
        for file in self._files:
            file.close()


def text(path: Path) -> str:
    """The text of a small file, "" if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def natural(path: Path) -> tuple[int, str]:
    """`cpu2` before `cpu10`."""
    return int("".join(letter for letter in path.name if letter.isdigit()) or 0), path.name

"""Finds processes that use Python or a GPU as they start: `/proc` is listed, and only new numbers in it are looked at. Standard library
alone.

A program may load its interpreter or the GPU's driver late, or become one by exec, so those without are looked at again, ever more seldom.
"""

# ruff: noqa: PTH208

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from aiflame.always.facts import cgroup_of
from aiflame.recorder.attach.target import Image, image
from aiflame.values import dataclass

_USED = re.compile(rb"/(?:libpython|python)\d\.\d+[^/\n]*$|/libcuda\.so|/libamdhip64\.so|/libze_loader\.so", re.MULTILINE)
_OURS = re.compile(rb"(?:[^\0]*\0(?:-[XW]\0[^\0]*\0|-[^\0]*\0)*)?(?:[^\0]*/)?aiflame(?:\.cli\.main)?\0")
"""A command of ours: `aiflame`, or an interpreter with its options and `aiflame`."""
_LARGEST = 4 << 20
_MOST_TEXT = 64 << 10
_FIRST_S, _LONGEST_S = 1.0, 4096.0
"""A process is looked at again at the next look, since it may have been seen between fork and exec; then after so many seconds, then after
twice as many, and so on."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Filters:
    command: str = ""
    """A regular expression, found in the command line."""
    cgroup: str = ""
    """The begin of its path."""

    def match(self, pid: int, command: bytes) -> bool:
        if self.command and not re.search(self.command, command.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")):
            return False
        return not self.cgroup or _lies_in(cgroup_of(pid), self.cgroup)


@dataclass(slots=True)
class Found:
    pid: int
    image: Image
    """Another program in the same process (exec) is another one to us."""
    seen_s: float
    """When it was found."""
    found_ns: int = 0
    """The same, since 1970."""
    last_s: float = 0.0
    """When it was there last."""
    cpu_s: float = 0.0
    """That it had used when it was last looked at."""
    cpu_at_window_s: float = 0.0
    windows: int = 0
    failures: int = 0
    obstacle: str = ""

    @property
    def key(self) -> str:
        return f"{self.pid}.{self.start_ticks}.{self.image[1]:x}"

    @property
    def start_ticks(self) -> int:
        return self.image[0]


class Discovery:
    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._own = os.getpid()
        self._user = os.geteuid()
        self._seen: set[int] = set()
        self._again: dict[int, tuple[float, float]] = {}
        """Of a process that is not to be recorded: when it is looked at again, and for how long it was not."""
        self.found: dict[int, Found] = {}
        self.ended: list[Found] = []
        """Since the caller has emptied it."""

    def look(self, now_s: float) -> list[Found]:
        """The processes that are new to us."""
        pids = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        for pid in self._seen - pids:
            self._again.pop(pid, None)
            self._end(pid, now_s)
        due = [pid for pid, (at, _) in self._again.items() if at <= now_s and pid in pids]
        fresh = pids - self._seen
        self._seen = pids
        new = []
        for pid in (*sorted(fresh), *due):
            if self._wanted(pid) and (seen := image(pid)) is not None:
                self._again.pop(pid, None)
                process = self.found[pid] = Found(pid, seen, now_s, time.time_ns(), now_s, cpu_s(pid) or 0.0)
                process.cpu_at_window_s = process.cpu_s
                new.append(process)
            elif self._may_change(pid):
                waited = min(max(2 * self._again[pid][1], _FIRST_S), _LONGEST_S) if pid in self._again else 0.0
                self._again[pid] = now_s + waited, waited
        return new

    def refresh(self, now_s: float) -> None:
        """Reads the processor time of all that were found. Another process may have got a number meanwhile: then the old one has ended."""
        for pid, process in list(self.found.items()):
            used = cpu_s(pid)
            if self.is_there(process, now_s) and used is not None:
                process.cpu_s, process.last_s = used, now_s

    def is_there(self, process: Found, now_s: float) -> bool:
        """False: it has ended, or has become another program, which the next look finds."""
        if image(process.pid) == process.image:
            return True
        if self.found.get(process.pid) is process:
            self._end(process.pid, now_s)
            self._seen.discard(process.pid)
        return False

    def _end(self, pid: int, now_s: float) -> None:
        if (process := self.found.pop(pid, None)) is not None:
            process.last_s = now_s
            self.ended.append(process)

    def _may_change(self, pid: int) -> bool:
        """False: a thread of the kernel, another user's process, or a child of ours."""
        try:
            return Path(f"/proc/{pid}").stat().st_uid == self._user and bool(_read(pid, "cmdline", 1)) and pid != self._own
        except OSError:
            return False

    def _wanted(self, pid: int) -> bool:
        """Only our own user's: another one's could not write into the store."""
        try:
            if pid == self._own or Path(f"/proc/{pid}").stat().st_uid != self._user:
                return False
            command = _read(pid, "cmdline", _MOST_TEXT)
            if not command or not _USED.search(_read(pid, "maps", _LARGEST)):
                return False
            return _parent(pid) != self._own and not _OURS.match(command) and self._filters.match(pid, command)
        except OSError:
            return False


def cpu_s(pid: int) -> float | None:
    """Processor time that a process has used; None: it has ended."""
    try:
        fields = _read(pid, "stat", _MOST_TEXT).rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    except (OSError, IndexError, ValueError):
        return None


def _parent(pid: int) -> int:
    return int(_read(pid, "stat", _MOST_TEXT).rpartition(b")")[2].split()[1])


def _lies_in(path: str, above: str) -> bool:
    return Path(path).is_relative_to("/" + above.strip("/"))


def _read(pid: int, name: str, most: int) -> bytes:
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while most > 0 and (piece := os.read(descriptor, min(most, 1 << 18))):
            pieces.append(piece)
            most -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)

"""Finds the processes that may still record into a profile, in /proc and without disturbing them. Standard library alone.

A process records while its tables are mapped. One that has just been forked or started has no tables yet, but names the profile in its
environment. On another host, or in another namespace of process ids, the reader cannot see them (`visible`).
"""

# ruff: noqa: PTH110, PTH116, PTH208

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import LIVES_FILE
from aiflame.profile.spool.open_lives import Reader

SPOOL = "spool"

VARIABLE = b"AIFLAME_PROFILE="
"""The variable that names the profile in the environment of every recorded process."""

_ENDED = (b"Z", b"X")
_CLOCK_SLACK_NS = 50_000_000
"""The kernel gives start times of processes in clock ticks."""
_LONGEST_START_NS = 60_000_000_000
"""The longest time between the start of a command and its first record."""
_MOST_LOOKS = 8
"""Processes that start and end during a look could hide one from it. Then the look is repeated, at most this many times."""
_CHUNK = 1 << 16


def spool_names(profile: Folder) -> list[str]:
    """PID.START_NS of the processes that have recorded something."""
    spool = profile.folder(SPOOL)
    return [entry.name for entry in spool.entries() if entry.is_folder] + [f"{pid}.{start}" for pid, start in Reader().unfinished(spool)]


def has_processes(profile: Folder) -> bool:
    """True if any process has recorded its start."""
    spool = profile.folder(SPOOL)
    return any(entry.is_folder for entry in spool.entries()) or bool(Reader().read(spool))


def living(spool: Callable[[], Collection[str]], profile: os.stat_result) -> list[int]:
    """Ids of the processes that may still write. `spool` gives the present names in the profile's spool, each PID.START_NS."""
    names = set(spool())
    for _ in range(_MOST_LOOKS):
        look = _Look(names, profile)
        pids = look.found()
        before, names = names, set(spool())
        if pids:
            return pids
        # A process that ended before we could look at it may have started a child that is not in our list of processes.
        if names == before and not look.lost:
            break
    return sorted(int(pid) for pid in {name.partition(".")[0] for name in names - before} if pid.isdecimal())


class _Look:
    """One look at all processes."""

    def __init__(self, names: Collection[str], profile: os.stat_result) -> None:
        self._pids = {name for name in os.listdir("/proc") if name.isdecimal()} - {str(os.getpid())}
        self._folders: dict[str, list[str]] = {}
        for name in names:
            if (pid := name.partition(".")[0]) in self._pids:
                self._folders.setdefault(pid, []).append(name)
        self._first_ns = min(map(_start_ns, names), default=0)
        self._profile = profile.st_dev, profile.st_ino
        self._same: dict[bytes, bool] = {}
        self.lost = False
        """Processes that ended while we looked."""

    def found(self) -> list[int]:
        return sorted(int(pid) for pid in self._pids if self._records(pid))

    def _records(self, pid: str) -> bool:
        folders = self._folders.get(pid, [])
        environment = _read(pid, "environ")
        if environment is not None and self._names_us(pid, environment):
            return _runs(pid)
        if not folders or not _runs(pid):
            self.lost |= environment == b"" and not os.path.exists(f"/proc/{pid}")
            return False
        # The process may have overwritten its environment (process titles), or may now run as another user. A process that started after
        # the last folder was made for its id only has the same number.
        started = _started_ns(pid)
        if started > max(map(_start_ns, folders)) + _CLOCK_SLACK_NS:
            return False
        maps = _read(pid, "maps")
        if maps is None:
            return started > self._first_ns - _LONGEST_START_NS  # otherwise the process has this number in a namespace of its own
        return any(os.fsencode(f"/spool/{place}") in maps for place in (LIVES_FILE, *(f"{folder}/" for folder in folders)))

    def _names_us(self, pid: str, environment: bytes) -> bool:
        at = environment.find(VARIABLE)
        while at > 0 and environment[at - 1] != 0:
            at = environment.find(VARIABLE, at + 1)
        if at < 0:
            return False
        path = environment[at + len(VARIABLE) :].partition(b"\0")[0]
        if path not in self._same:
            # The path as that process sees it, whose root may be another.
            self._same[path] = any(_identity(place) == self._profile for place in (path, f"/proc/{pid}/root".encode() + path))
        return self._same[path]


def _start_ns(folder: str) -> int:
    """When a process started, from the name of its folder in the spool."""
    text = folder.partition(".")[2]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _read(pid: str, file: str) -> bytes | None:
    """None if we may not read it; empty if the process has ended."""
    try:
        descriptor = os.open(f"/proc/{pid}/{file}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = part = os.read(descriptor, _CHUNK)
            while part:
                part = os.read(descriptor, _CHUNK)
                data += part
            return data
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    except OSError:
        return None


def _stat(pid: str) -> list[bytes]:
    """The fields of /proc/PID/stat behind the name; none when it has ended."""
    text = _read(pid, "stat") or b""
    return text[text.rindex(b")") + 2 :].split() if b")" in text else []


def _runs(pid: str) -> bool:
    fields = _stat(pid)
    return bool(fields) and fields[0] not in _ENDED


def _started_ns(pid: str) -> int:
    """When the process started, on CLOCK_MONOTONIC; too early rather than too late if the machine has slept since."""
    fields = _stat(pid)
    if not fields:
        return 0
    since_boot = int(fields[19]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return since_boot - (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC))


def _identity(path: bytes) -> tuple[int, int] | None:
    with contextlib.suppress(OSError, ValueError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None

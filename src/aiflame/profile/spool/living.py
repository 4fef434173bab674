"""Which processes may still record into a profile: read in /proc, without asking or touching any of them. Standard library alone.

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
"""The variable that names the profile, in the environment of every recorded process."""

_ENDED = (b"Z", b"X")
_CLOCK_SLACK_NS = 50_000_000
"""Start times of processes are known to a tick of the kernel's."""
_LONGEST_START_NS = 60_000_000_000
"""From a command's start to its first record."""
_MOST_LOOKS = 8
"""Processes that come and go during a look could hide one: then the look is repeated, at most this many times."""
_CHUNK = 1 << 16


def spool_names(profile: Folder) -> list[str]:
    """PID.START_NS of the processes that have recorded something."""
    spool = profile.folder(SPOOL)
    return [entry.name for entry in spool.entries() if entry.is_folder] + [f"{pid}.{start}" for pid, start in Reader().unfinished(spool)]


def has_processes(profile: Folder) -> bool:
    """Whether any process has recorded that it lived."""
    spool = profile.folder(SPOOL)
    return any(entry.is_folder for entry in spool.entries()) or bool(Reader().read(spool))


def living(spool: Callable[[], Collection[str]], profile: os.stat_result) -> list[int]:
    """Ids of the processes that may still write. `spool`: the names in the profile's spool now, PID.START_NS each."""
    names = set(spool())
    for _ in range(_MOST_LOOKS):
        look = _Look(names, profile)
        pids = look.found()
        before, names = names, set(spool())
        if pids:
            return pids
        # A process that ended before we could look at it may have had a child, which our list of processes is too old for.
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
        """Processes ended while we looked."""

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
        # The process may have overwritten its environment (process titles), or run as another user by now. A process that started after
        # its last folder was made only has the same number.
        started = _started_ns(pid)
        if started > max(map(_start_ns, folders)) + _CLOCK_SLACK_NS:
            return False
        maps = _read(pid, "maps")
        if maps is None:
            return started > self._first_ns - _LONGEST_START_NS  # else it has this number in a namespace of its own
        return any(os.fsencode(f"/spool/{place}") in maps for place in (LIVES_FILE, *(f"{folder}/" for folder in folders)))

    def _names_us(self, pid: str, environment: bytes) -> bool:
        at = environment.find(VARIABLE)
        while at > 0 and environment[at - 1] != 0:
            at = environment.find(VARIABLE, at + 1)
        if at < 0:
            return False
        path = environment[at + len(VARIABLE) :].partition(b"\0")[0]
        if path not in self._same:
            # As that process sees it: it may have another root.
            self._same[path] = any(_identity(place) == self._profile for place in (path, f"/proc/{pid}/root".encode() + path))
        return self._same[path]


def _start_ns(folder: str) -> int:
    """The start of a process, from the name of its folder in the spool."""
    text = folder.partition(".")[2]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _read(pid: str, file: str) -> bytes | None:
    """None where we may not read it; empty when the process has ended."""
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
    """When it began, on CLOCK_MONOTONIC; too early rather than too late where the machine slept since."""
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

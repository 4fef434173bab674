"""The CPU quota of the program's control group: its limit, its use, and the time for which the kernel throttled the group."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from aiflame.profile.folder.telemetry_files import Header, Series
from aiflame.recorder.sources.base import NOTHING, Look, OpenFile, text

_FOLDERS = ("sys/fs/cgroup", "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu", "sys/fs/cgroup/unified")


@dataclass(frozen=True, slots=True)
class _Group:
    folder: Path
    cpus: float
    """Its limit, in CPUs."""


class Quota:
    """The group with the lowest limit among the recorder's own, which the program inherits, and those above it. Supports versions 1 and
    2."""

    name, every, thread = "cgroup", 4, "system"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stat: OpenFile | None = None
        self._used: OpenFile | None = None
        self._cpus = 0.0

    def begin(self) -> Header | None:
        groups = [group for folder in self._folders() if (group := _limited(folder)) is not None]
        if not groups:
            return None
        lowest = min(groups, key=lambda group: group.cpus)
        try:
            self._stat = OpenFile(lowest.folder / "cpu.stat")
            if not (lowest.folder / "cpu.max").exists():
                self._used = OpenFile(self._accounts(lowest.folder) / "cpuacct.usage")
        except OSError:
            if self._stat is None:
                return None
        self._cpus = lowest.cpus
        names = ("used", "held up")
        return Header(self.name, (Series("", "limit", "CPUs"), *(Series("", name, "CPUs", 1e-9, rate=True) for name in names)))

    def look(self) -> list[Look]:
        assert self._stat is not None
        now = time.monotonic_ns()
        fields = dict(line.split(None, 1) for line in self._stat.read().splitlines() if b" " in line)
        used = self._used.number() if self._used is not None else _number(fields, b"usage_usec") * 1000
        held = _number(fields, b"throttled_time") if b"throttled_time" in fields else _number(fields, b"throttled_usec") * 1000
        return [(now, 0, [self._cpus, used, held])]

    def end(self) -> None:
        for file in (self._stat, self._used):
            if file is not None:
                file.close()

    def _folders(self) -> list[Path]:
        """The folders of the group and of those above it. In a container the path may be its host's, and the root is the container's
        group."""
        folders = []
        for line in text(self._root / "proc/self/cgroup").splitlines():
            number, _, named = line.partition(":")
            controllers, _, path = named.partition(":")
            if number == "0" or "cpu" in controllers.split(","):
                inner = Path(path.lstrip("/"))
                for top in (self._root / one for one in _FOLDERS):
                    folders += [top / above for above in (inner, *inner.parents)]
        return list(dict.fromkeys(folders))

    def _accounts(self, folder: Path) -> Path:
        """The folder in which version 1 keeps the group's use: the same folder, or the same path of another controller."""
        return folder if (folder / "cpuacct.usage").exists() else Path(str(folder).replace("/cgroup/cpu", "/cgroup/cpuacct", 1))


def _limited(folder: Path) -> _Group | None:
    quota, _, period = text(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = text(folder / "cpu.cfs_quota_us"), text(folder / "cpu.cfs_period_us")
    try:
        return _Group(folder, int(quota) / int(period)) if int(quota) > 0 and int(period) > 0 else None
    except ValueError:  # "max", or there is no such group
        return None


def _number(fields: dict[bytes, bytes], name: bytes) -> float:
    try:
        return float(fields[name])
    except (KeyError, ValueError):
        return NOTHING

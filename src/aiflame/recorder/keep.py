"""Keeps what may be gone when names are looked up: libraries in temporary folders and caches, and perf maps of JIT compilers."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from aiflame.profile.control import ControlPage
from aiflame.recorder.library import collector

_LARGEST = 64 << 20
"""A temporary library larger than this is not copied: it is looked up where it lies."""


_JITDUMP = re.compile(r"/jit-\d+\.dump$")
"""A compiler maps its jitdump as executable, so that profilers see where it is."""


class Keeper:
    """Copies into PROFILE/binaries and PROFILE/jit while the program runs."""

    def __init__(self, profile: Path, page: ControlPage) -> None:
        self._profile, self._page = profile, page
        own = collector().stat()
        self._seen = {f"{own.st_ino}-{own.st_dev}"}
        self._jitdumps: set[str] = set()
        self._roots = tuple(
            str(Path(root).resolve()) + "/" for root in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", Path.home() / ".cache")
        )

    def look(self) -> None:
        """Once more over the processes that are being recorded."""
        for pid in self._pids():
            try:
                maps = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
            except OSError:
                continue  # it has ended
            for line in maps.splitlines():
                fields = line.split(None, 5)
                if len(fields) != 6 or "x" not in fields[1]:
                    continue
                if _JITDUMP.search(fields[5]):
                    self._jitdumps.add(fields[5])
                elif fields[5].startswith(self._roots):
                    self._keep(f"/proc/{pid}/map_files/{fields[0]}", fields[5].removesuffix(" (deleted)"), fields[3], fields[4])

    def finish(self) -> None:
        """What JIT compilers write of their code is complete only now."""
        for source in [Path(f"/tmp/perf-{pid}.map") for pid in self._pids()] + [Path(path) for path in self._jitdumps]:
            if source.is_file() and source.stat().st_uid == os.getuid():
                (self._profile / "jit").mkdir(exist_ok=True)
                _copy(source, self._profile / "jit" / source.name)

    def _pids(self) -> set[str]:
        try:
            pids = {entry.name.partition(".")[0] for entry in os.scandir(self._profile / "spool")}
        except OSError:
            return set()
        return {pid for pid in pids if pid.isdigit()}

    def _keep(self, mapped: str, path: str, device: str, inode: str) -> None:
        major, minor = (int(part, 16) for part in device.split(":"))
        name = f"{inode}-{os.makedev(major, minor)}"
        if name in self._seen:
            return
        self._seen.add(name)
        if not self._book(path):
            return
        target = self._profile / "binaries" / name
        target.parent.mkdir(exist_ok=True)
        if not _copy(Path(path), target):
            _copy(Path(mapped), target)  # deleted already: the mapping still holds it, where the system lets us look

    def _book(self, path: str) -> bool:
        """What is kept counts towards --max-size: the processes get that much less."""
        if not self._page.max_bytes:
            return True
        try:
            size = Path(path).stat().st_size + 4096
        except OSError:
            return False
        return self._page.take(size)


def _copy(source: Path, target: Path) -> bool:
    try:
        if source.stat().st_size > _LARGEST:
            return False
        shutil.copyfile(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True

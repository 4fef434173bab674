"""Keeps what would be gone when names are looked up: libraries that were deleted meanwhile, and what JIT compilers wrote of their code.

A library in a temporary folder or a cache is held open while the program runs, which costs no disk; it is copied into the profile only if
it is gone in the end. The process that seals the profile gets those that are still there, open: whoever made the folder may remove it as
soon as the program has ended. Names and instructions of what was sampled are stored when the profile is completed, and the copies go.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.recorder.library import collector

_LARGEST = 64 << 20
"""A library larger than this is not copied."""
_LARGEST_JIT = 256 << 20
"""Of a perf map or jitdump: what is larger is not read either."""
_MOST_HELD = 256
"""Descriptors. Whatever lies in temporary folders beyond that is read in place, if it is still there."""
_BLOCK = 1 << 20
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_JITDUMP = r"/jit-\d+\.dump$"
"""A compiler maps its jitdump as executable, so that profilers see where it is."""
_DELETED = " (deleted)"


class Keeper:
    """Copies into PROFILE/binaries and PROFILE/jit."""

    def __init__(self, profile: Folder, page: ControlPage) -> None:
        self._profile, self._page = profile, page
        own = collector().stat()
        self._seen = {f"{own.st_ino}-{own.st_dev}"}
        self._held: dict[str, tuple[str, int]] = {}
        self._jitdumps: dict[str, set[int]] = {}
        self._users: dict[str, set[int]] = {}
        folders = (os.environ.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp", "/dev/shm", Path.home() / ".cache")
        self._roots = tuple(os.path.realpath(folder) + "/" for folder in folders)

    def look(self) -> None:
        """Once more over the processes that are being recorded."""
        for pid, users in self._processes().items():
            try:
                users.add(Path(f"/proc/{pid}").stat().st_uid)
                maps = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape")
            except OSError:
                continue  # it has ended
            for line in maps.splitlines():
                fields = line.split(None, 5)
                if len(fields) != 6 or "x" not in fields[1]:
                    continue
                if re.search(_JITDUMP, fields[5]):
                    self._jitdumps.setdefault(fields[5], set()).update(users)
                elif fields[5].startswith(self._roots):
                    major, minor = (int(part, 16) for part in fields[3].split(":"))
                    self._hold(fields[5], int(fields[4]), os.makedev(major, minor), f"/proc/{pid}/map_files/{fields[0]}")
        self._copy_gone()

    def finish(self, *, all_of_them: bool = False) -> None:
        """What JIT compilers write of their code is complete only now. `all_of_them`: nobody seals the profile soon, and what is in
        temporary folders may be gone when somebody does."""
        for pid, users in self._processes().items():
            self._keep_written(f"/tmp/perf-{pid}.map", users)
        for path, users in self._jitdumps.items():
            self._keep_written(path, users)
        self._hold_recorded()
        self._copy_gone(all_of_them=all_of_them)

    def held(self) -> dict[str, int]:
        """What is still there when all is over, open: INODE-DEVICE → descriptor, which is the caller's now."""
        held = {name: descriptor for name, (_, descriptor) in self._held.items()}
        self._held.clear()
        return held

    def _hold_recorded(self) -> None:
        """Those that were mapped between two looks."""
        from aiflame.profile.spool.mapped import mapped_files

        with contextlib.suppress(OSError, AiflameError):
            for file in mapped_files(self._profile.folder("spool")):
                if file.path.startswith(self._roots):
                    self._hold(file.path, file.inode, file.device)

    def _processes(self) -> dict[str, set[int]]:
        """Process ids, with the users that they ran as. Each makes its own folder in the spool."""
        for entry in self._profile.folder("spool").entries():
            pid = entry.name.partition(".")[0]
            if entry.is_folder and pid.isdecimal():
                self._users.setdefault(pid, set()).add(entry.status.st_uid)
        return self._users

    def _hold(self, path: str, inode: int, device: int, mapped: str = "") -> None:
        name = f"{inode}-{device}"
        if name in self._seen or len(self._held) >= _MOST_HELD:
            return
        self._seen.add(name)
        # A deleted file is still held by the mapping, where the system lets us look.
        for place, flags in ((path.removesuffix(_DELETED), os.O_NOFOLLOW), (mapped, 0)):
            with contextlib.suppress(OSError, ValueError):
                descriptor = os.open(place, _OPEN | flags)
                status = os.fstat(descriptor)
                same = stat.S_ISREG(status.st_mode) and status.st_ino == inode and status.st_size <= _LARGEST
                # What the kernel says is mapped is; what a process has written down may be any file's number.
                if same and (mapped or os.pread(descriptor, 4, 0) == b"\x7fELF"):
                    self._held[name] = path, descriptor
                    return
                os.close(descriptor)

    def _copy_gone(self, *, all_of_them: bool = False) -> None:
        for name, (path, descriptor) in list(self._held.items()):
            if all_of_them or _is_gone(path, os.fstat(descriptor)):
                self._copy("binaries", name, descriptor, _LARGEST)
                os.close(descriptor)
                del self._held[name]

    def _keep_written(self, path: str, users: Iterable[int]) -> None:
        """A file that a process of ours wrote where everybody may write: no link, and of a user that the process ran as."""
        try:
            if not stat.S_ISREG(Path(path).lstat().st_mode):
                return
            descriptor = os.open(path, _OPEN | os.O_NOFOLLOW)
        except (OSError, ValueError):
            return
        try:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid in users and status.st_size <= _LARGEST_JIT:
                self._copy("jit", path.rpartition("/")[2], descriptor, _LARGEST_JIT)
        finally:
            os.close(descriptor)

    def _copy(self, folder: str, name: str, descriptor: int, largest: int) -> None:
        """What is kept counts towards --max-size: the processes get that much less."""
        size = os.fstat(descriptor).st_size
        if self._page.max_bytes and not self._page.take(size + 4096):
            return
        with contextlib.suppress(OSError), self._profile.make_folder(folder).create(name) as file:
            at = 0
            while at < largest and (block := os.pread(descriptor, min(_BLOCK, largest - at), at)):
                at += file.write(block)


def _is_gone(path: str, held: os.stat_result) -> bool:
    if path.endswith(_DELETED):
        return True
    try:
        there = Path(path).stat()
    except OSError:
        return True
    return (there.st_ino, there.st_dev) != (held.st_ino, held.st_dev)

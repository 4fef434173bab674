"""Keeps files that may be gone when names are looked up: deleted libraries, and perf maps and jitdumps of JIT compilers.

A library in a temporary folder or a cache is held open while the program runs, which costs no disk space; at the end it is copied into the
profile only if it has been deleted. The process that seals the profile inherits the other open files, since their folders may be removed as
soon as the program has ended. Sealing stores names and instructions of sampled code, then removes the copies.
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
from aiflame.profile.folder.home import home
from aiflame.profile.folder.other_root import open_file
from aiflame.recorder.library import collector
from aiflame.recorder.view import OURS, View

_LARGEST = 64 << 20
"""Larger libraries are not copied."""
_LARGEST_JIT = 256 << 20
"""Larger perf maps and jitdumps are not copied; sealing would not read them either."""
_MOST_HELD = 256
"""The most descriptors held open. Further libraries are read in place, if they still exist."""
_BLOCK = 1 << 20
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_JITDUMP = r"/jit-\d+\.dump$"
"""A compiler maps its jitdump as executable so that profilers find it."""
_DELETED = " (deleted)"


class Keeper:
    """Copies into PROFILE/binaries and PROFILE/jit."""

    def __init__(self, profile: Folder, page: ControlPage, view: View = OURS) -> None:
        self._profile, self._page, self._view = profile, page, view
        own = collector().stat()
        self._seen = {f"{own.st_ino}-{own.st_dev}"}
        self._held: dict[str, tuple[str, int]] = {}
        self._jitdumps: dict[str, set[int]] = {}
        self._users: dict[str, set[int]] = {}
        folders = [os.environ.get("TMPDIR") or "/tmp", "/tmp", "/var/tmp", "/dev/shm"]
        if (here := home()) is not None:
            folders.append(str(here / ".cache"))
        self._roots = tuple(os.path.realpath(folder) + "/" for folder in folders)

    def look(self) -> None:
        """Looks for new libraries and jitdumps in the processes that are being recorded."""
        for pid, users in self._processes().items():
            here = self._view.numbers.here(int(pid))
            try:
                users.add(Path(f"/proc/{here}").stat().st_uid)
                maps = Path(f"/proc/{here}/maps").read_text(errors="surrogateescape")
            except OSError:
                continue  # the process has ended
            for line in maps.splitlines():
                fields = line.split(None, 5)
                if len(fields) != 6 or "x" not in fields[1]:
                    continue
                if re.search(_JITDUMP, fields[5]):
                    self._jitdumps.setdefault(fields[5], set()).update(users)
                elif self._may_go(fields[5]):
                    major, minor = (int(part, 16) for part in fields[3].split(":"))
                    self._hold(fields[5], int(fields[4]), os.makedev(major, minor), f"/proc/{here}/map_files/{fields[0]}")
        self._copy_gone()

    def finish(self, *, all_of_them: bool = False) -> None:
        """Copies perf maps and jitdumps, which are only now complete, and deleted libraries.

        `all_of_them`: copies all held libraries, because the profile is sealed later, when temporary folders may be gone."""
        for pid, users in self._processes().items():
            self._keep_written(f"/tmp/perf-{pid}.map", users)
        for path, users in self._jitdumps.items():
            self._keep_written(path, users)
        self._hold_recorded()
        self._copy_gone(all_of_them=all_of_them)

    def held(self) -> dict[str, int]:
        """Libraries that still exist at the end, as INODE-DEVICE → open descriptor. The caller now owns the descriptors."""
        held = {name: descriptor for name, (_, descriptor) in self._held.items()}
        self._held.clear()
        return held

    def _hold_recorded(self) -> None:
        """Holds libraries that were mapped and unmapped between two looks: the collector has recorded their names."""
        from aiflame.profile.spool.mapped import mapped_files

        with contextlib.suppress(OSError, AiflameError):
            for file in mapped_files(self._profile.folder("spool")):
                if self._may_go(file.path):
                    self._hold(file.path, file.inode, file.device)

    def _may_go(self, path: str) -> bool:
        """Whether the file may be gone soon; with its container all files are."""
        return path.startswith(self._roots) or (self._view.root is not None and path.startswith("/"))

    def _open(self, path: str) -> int:
        """A file by its path as the program has it."""
        return os.open(path, _OPEN | os.O_NOFOLLOW) if self._view.root is None else open_file(self._view.root, path)

    def _processes(self) -> dict[str, set[int]]:
        """Ids of recorded processes with the users that they ran as, from each process's folder in the spool."""
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
        # A deleted file is still reachable through the mapping, if the system allows that.
        for place in (path.removesuffix(_DELETED), mapped):
            with contextlib.suppress(OSError, ValueError):
                descriptor = os.open(place, _OPEN) if place == mapped else self._open(place)
                status = os.fstat(descriptor)
                same = stat.S_ISREG(status.st_mode) and status.st_ino == inode and status.st_size <= _LARGEST
                # The kernel's list of mappings is reliable; an inode that a process recorded may be that of any file.
                if same and (mapped or os.pread(descriptor, 4, 0) == b"\x7fELF"):
                    self._held[name] = path, descriptor
                    return
                os.close(descriptor)

    def _copy_gone(self, *, all_of_them: bool = False) -> None:
        for name, (path, descriptor) in list(self._held.items()):
            if all_of_them or (self._view.root is None and _is_gone(path, os.fstat(descriptor))):
                self._copy("binaries", name, descriptor, _LARGEST)
                os.close(descriptor)
                del self._held[name]

    def _keep_written(self, path: str, users: Iterable[int]) -> None:
        """Copies a file that a recorded process wrote to a world-writable folder, if it is not a link and its owner is one of `users`."""
        try:
            if self._view.root is None and not stat.S_ISREG(Path(path).lstat().st_mode):
                return
            descriptor = self._open(path)
        except (OSError, ValueError):
            return
        try:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid in users and status.st_size <= _LARGEST_JIT:
                self._copy("jit", path.rpartition("/")[2], descriptor, _LARGEST_JIT)
        finally:
            os.close(descriptor)

    def _copy(self, folder: str, name: str, descriptor: int, largest: int) -> None:
        """Copies a file into the profile. Its size counts towards --max-size: processes can record that much less."""
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

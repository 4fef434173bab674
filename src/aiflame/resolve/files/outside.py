"""Decides which files outside of a profile may be read, and opens them. No other code does.

A profile names files: binaries, their debug files, source files, files of run-time compilers. A stranger's profile could name the reader's
private files. So they are read only while a profile is completed that this user recorded on this machine (`profile/folder/claims.py`), and
only if they are certainly the files that ran. Later readers get the data that was stored then.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path

from aiflame.profile.folder import claims
from aiflame.profile.folder.other_root import open_file
from aiflame.profile.tables.store import Profile
from aiflame.resolve.files import held_files
from aiflame.resolve.files.elf_file import ElfFile
from aiflame.values import dataclass

DEBUG_ROOTS = (Path("/usr/lib/debug"),)
LARGEST_SOURCE = 64 << 20
"""The largest source or PTX file that is read; larger ones are written by generators, not for people."""

_SOURCES = frozenset(
    {
        ".asm", ".c", ".cc", ".cl", ".cpp", ".cu", ".cuh", ".cxx", ".f", ".f90", ".h", ".hh", ".hip", ".hpp",
        ".hxx", ".inc", ".inl", ".ipp", ".jl", ".m", ".mojo", ".ptx", ".py", ".pyi", ".pyx", ".rs", ".s", ".tcc", ".ttgir", ".ttir",
    }
)  # fmt: skip
_SLACK_S = 0.01
"""File systems set times of files by the last tick of a coarse clock."""


@dataclass(frozen=True, slots=True)
class Source:
    content: bytes | None = None
    changed: bool = False
    """The file exists, but has changed since it was compiled."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Permission to read files outside of a profile while its names are looked up."""

    allowed: bool = False
    began: float = 0
    """When the recording began, in seconds since 1970; 0: unknown, and no file counts as old enough."""
    ended: float = 0
    keeps_sources: bool = True
    """The texts of source files may be stored in the profile."""
    generated: tuple[Path, ...] = ()
    """Folders into which the program's compilers write sources while it runs."""
    debug_roots: tuple[Path, ...] = DEBUG_ROOTS
    other_root: bool = False
    """The program's paths lead to other files here: it ran in a container."""
    root: int | None = None
    """Its root folder, as long as it is held open."""

    def elf(self, path: Path) -> ElfFile | None:
        """A binary or debug file. The caller compares its build id, or its identity when it was mapped."""
        if not self.allowed:
            return None
        return (ElfFile.below(self.root, path) if self.root is not None else None) or ElfFile.open(path)

    def held(self, inode: int, device: int) -> ElfFile | None:
        """A binary that the recorder passed to us, open."""
        return held_files.elf(inode, device) if self.allowed else None

    def source(self, path: Path, size: int, largest: int = LARGEST_SOURCE) -> Source:
        """A source file, if it is unchanged since its code was compiled. `size`: in bytes, as the compiler recorded it; 0: unknown, and
        then the file's name must look like a source file's."""
        if not self.allowed or not path.is_absolute():
            return Source()
        try:
            real = path if self.other_root else path.resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return Source()
        if not size and real.suffix.lower() not in _SOURCES:
            return Source()
        content, status = self._regular(real, largest)
        if content is None or status is None:
            return Source()
        if (size and len(content) != size) or not self._old_enough(real, status.st_mtime):
            return Source(changed=True)
        return Source(content)

    def compiled(self, path: Path, largest: int) -> bytes | None:
        """A file from a compiler's cache. The caller compares it with the profile's copy."""
        return self._regular(path, largest)[0] if self.allowed else None

    def written_by_process(self, paths: Iterable[Path], since: float, largest: int, until: float = inf) -> bytes | None:
        """The first of `paths` that is a regular file of this user, not a link, and not older than the process (`since`)."""
        if not self.allowed or not since:
            return None
        for path in paths:
            content, status = self._regular(path, largest)
            if content is None or status is None or status.st_uid != os.geteuid():
                continue
            if since - _SLACK_S <= status.st_mtime <= until:
                return content
        return None

    def _regular(self, path: Path, largest: int) -> tuple[bytes, os.stat_result] | tuple[None, None]:
        """As `_regular`; of a program in a container, its own file."""
        if not self.other_root:
            return _regular(path, largest)
        return _regular_below(self.root, path, largest) if self.root is not None else (None, None)

    def _old_enough(self, path: Path, changed: float) -> bool:
        if not self.began:
            return False
        if changed <= self.began:
            return True
        return changed <= self.ended and any(path.is_relative_to(folder) for folder in self.generated)


NOTHING = Outside()


def outside_of(profile: Profile, debug_roots: Sequence[Path] = DEBUG_ROOTS) -> Outside:
    """Permission to read files if this user recorded the profile on this machine; otherwise none."""
    if not claims.proven(profile.folder, profile.meta.id):
        return NOTHING
    began, ended = profile.meta.started, profile.meta.ended
    return Outside(
        allowed=True,
        began=began.realtime_ns / 1e9,
        ended=ended.realtime_ns / 1e9 if ended else time.time(),  # unknown if the recorder was killed
        keeps_sources=profile.meta.options.get("sources") is not False,
        generated=tuple(generated_folders()),
        debug_roots=tuple(debug_roots),
        other_root=profile.meta.other_root,
        root=held_files.root() if profile.meta.other_root else None,
    )


def generated_folders() -> Iterator[Path]:
    """Folders where compilers keep generated files, with links resolved."""
    for text in ("~/.triton", os.environ.get("TRITON_HOME"), os.environ.get("TRITON_CACHE_DIR"), os.environ.get("TORCHINDUCTOR_CACHE_DIR"),
                 os.environ.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm", "~/.cache"):  # fmt: skip
        folder = os.path.expanduser(text or "~")  # noqa: PTH111  it leaves the ~ of a user without a home
        if text and not folder.startswith("~"):
            yield Path(os.path.realpath(folder))


def _regular(path: Path, largest: int) -> tuple[bytes, os.stat_result] | tuple[None, None]:
    """The content of a regular file of at most `largest` bytes. Its last component may not be a link, and a pipe is not waited for."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):  # opening a device may have effects
            return None, None
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None, None
    return _content(descriptor, largest)


def _regular_below(root: int, path: Path, largest: int) -> tuple[bytes, os.stat_result] | tuple[None, None]:
    """The same below another root folder. Links there may lead to files below it."""
    try:
        descriptor = open_file(root, str(path))
    except (OSError, ValueError):
        return None, None
    return _content(descriptor, largest)


def _content(descriptor: int, largest: int) -> tuple[bytes, os.stat_result] | tuple[None, None]:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            return None, None
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(largest + 1)
    except OSError:
        return None, None
    finally:
        os.close(descriptor)
    return (content, status) if len(content) <= largest else (None, None)

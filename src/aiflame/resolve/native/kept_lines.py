"""Line tables that `symbolic` made of the debug information of libraries, kept in the user's cache.

Making it takes 0.25 s for libpython and 4.2 s for libtriton, and most recordings have the same libraries. Only for files of this machine:
those that lie in a profile are read by a process of their own, and nothing of them is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time

from symbolic.exceptions import SymbolicError
from symbolic.symcache import SYMCACHE_LATEST_VERSION, SymCache

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.user_cache import cache_folder
from aiflame.resolve.files.elf_file import ElfFile

LEAST = 1 << 20
"""Bytes of debug information: less is read as quickly as it is kept."""
MOST = 1 << 30
"""Bytes of all kept tables: the least recently used are removed first."""
_KEPT_S = 30 * 86400.0
"""A table that nobody has used for so long is removed."""
_NO_CACHE = (OSError, AiflameError, RuntimeError)  # RuntimeError: a user without a home


def kept(elf: ElfFile) -> SymCache | None:
    """None where nothing is kept of this file as it is now."""
    with contextlib.suppress(*_NO_CACHE):
        if (name := _name(elf)) and (folder := cache_folder("lines")) is not None:
            with folder.file(name) as file:
                if file is not None:
                    cache = _opened(file.fileno())
                    os.utime(file.fileno())
                    return cache
    return None


def keep(elf: ElfFile, cache: SymCache) -> None:
    with contextlib.suppress(*_NO_CACHE):
        if (name := _name(elf)) and (folder := cache_folder("lines")) is not None:
            with folder.create(name) as file:
                cache.dump_into(file)  # type: ignore[no-untyped-call]
            _remove_old(folder)


def _opened(descriptor: int) -> SymCache | None:
    """None for a file that `symbolic` does not take. The descriptor may be closed then: the file is mapped."""
    try:
        cache: SymCache = SymCache.open(f"/proc/self/fd/{descriptor}")  # type: ignore[no-untyped-call]
    except SymbolicError:
        return None
    return cache


def _name(elf: ElfFile) -> str:
    """Another one as soon as the file changes, or `symbolic` writes another format. "" for a file of which nothing is kept."""
    status = elf.status()
    if status is None or elf.of_profile or elf.line_bytes < LEAST:
        return ""
    is_now = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, elf.build_id)
    return hashlib.sha256(repr((SYMCACHE_LATEST_VERSION, *is_now)).encode()).hexdigest()[:32]


def _remove_old(folder: Folder) -> None:
    """Removes the least recently used tables, and files that a killed process left half written."""
    room, now = MOST, time.time()
    for entry in sorted(folder.entries(), key=lambda entry: entry.status.st_mtime, reverse=True):
        room -= entry.size
        if room < 0 or now - entry.status.st_mtime > _KEPT_S:
            folder.remove(entry.name)

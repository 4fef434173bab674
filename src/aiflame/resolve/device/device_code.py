"""Device code that a profile keeps: `CRC.cubin` as it was loaded, `CRC.cubin.gz` once the profile is sealed."""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from concurrent.futures import ThreadPoolExecutor

from aiflame.profile.folder.door import Folder
from aiflame.resolve.device.cubin import Cubin

FOLDER = "cubins"
LEVEL = 3
"""It leaves a sixth of torch's code, in a third of the time that level 6 takes to leave an eighth."""
LARGEST = 256 << 20
"""Larger files are not compressed: they are read in place."""
LARGEST_IN_PLACE = 1 << 30
_MOST_PACKED = 200
"""The most times that a compressed file may grow when it is unpacked. Device code compresses to a twentieth at best."""


def binary(folder: Folder, crc: int) -> bytes | None:
    """None if it was not stored, or cannot be read."""
    name = _name(crc)
    with contextlib.suppress(OSError, EOFError, zlib.error):
        with folder.file(name) as file:
            if file is not None:
                content = file.read(LARGEST_IN_PLACE + 1)
                return content if len(content) <= LARGEST_IN_PLACE else None
        with folder.file(_packed(name)) as file:
            if file is not None:
                most = min(LARGEST, _MOST_PACKED * file.seek(0, 2))
                file.seek(0)
                content = gzip.GzipFile(fileobj=file).read(most + 1)
                return content if len(content) <= most else None
    return None


def head(folder: Folder, crc: int) -> bytes:
    """The first 64 bytes; b"" if it was not stored."""
    name = _name(crc)
    with contextlib.suppress(OSError, EOFError, zlib.error):
        with folder.file(name) as file:
            if file is not None:
                return file.read(64)
        with folder.file(_packed(name)) as file:
            if file is not None:
                return gzip.GzipFile(fileobj=file).read(64)
    return b""


def cubin(folder: Folder, crc: int) -> Cubin | None:
    with folder.file(_name(crc)) as file:
        if file is not None:
            return Cubin.of(file)
    return Cubin.of_bytes(binary(folder, crc))


def keep(profile: Folder, crcs: set[int]) -> None:
    """Keeps these files of the profile, compressed, and removes all others. Device code without samples is not needed, and a library's is
    large."""
    folder = profile.folder(FOLDER)
    wanted = {name: plain for plain in map(_name, crcs) for name in (plain, _packed(plain))}
    with contextlib.suppress(OSError):
        for entry in folder.entries():
            if entry.name not in wanted and entry.is_file:
                folder.remove(entry.name)
        if not folder.entries():
            profile.remove_tree(FOLDER)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib runs without the interpreter's lock
        list(pool.map(lambda name: _pack(folder, name), sorted(set(wanted.values()))))


def _pack(folder: Folder, name: str) -> None:
    """Compresses a file. If there is no room for it, the file stays as it is."""
    with contextlib.suppress(OSError):
        entry = folder.entry(name)
        if entry is None or not entry.is_file or entry.size > LARGEST:
            return
        with folder.file(name) as file:
            content = file.read(LARGEST) if file is not None else None
        if content is not None:
            folder.write(_packed(name), gzip.compress(content, LEVEL, mtime=0))
            folder.remove(name)


def _name(crc: int) -> str:
    return f"{crc:016x}.cubin"


def _packed(name: str) -> str:
    return name + ".gz"

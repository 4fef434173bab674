"""Device code that a profile keeps: `CRC.cubin` as it was loaded, `CRC.cubin.gz` once the profile is sealed."""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aiflame.resolve.cubin import Cubin

LEVEL = 3
"""A sixth of torch's is left, in a third of the time that level 6 takes for an eighth."""
LARGEST = 256 << 20
"""What is larger is not packed: it is read in place."""


def binary(folder: Path, crc: int) -> bytes | None:
    """None: it was not kept, or cannot be read."""
    path = _path(folder, crc)
    with contextlib.suppress(OSError, EOFError, zlib.error):
        if path.is_file():
            return path.read_bytes()
        with gzip.open(_packed(path)) as file:
            content = file.read(LARGEST + 1)
            return content if len(content) <= LARGEST else None
    return None


def cubin(folder: Path, crc: int) -> Cubin | None:
    path = _path(folder, crc)
    return Cubin.open(path) if path.is_file() else Cubin.of_bytes(binary(folder, crc))


def keep(folder: Path, crcs: set[int]) -> None:
    """Of the folder's files these, packed. Device code without samples has nothing to tell, and a library's is large."""
    if not folder.is_dir() or folder.is_symlink():
        return
    wanted = {name: path for path in (_path(folder, crc) for crc in crcs) for name in (path.name, _packed(path).name)}
    with contextlib.suppress(OSError):
        for file in list(folder.iterdir()):
            if file.name not in wanted and file.is_file():
                file.unlink(missing_ok=True)
        if not wanted:
            folder.rmdir()
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib works without the interpreter's lock
        list(pool.map(_pack, sorted(set(wanted.values()))))


def _pack(path: Path) -> None:
    """Where there is no room for it, it stays as it is."""
    packed = _packed(path)
    with contextlib.suppress(OSError):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            return
        part = packed.with_suffix(".part")
        try:
            part.write_bytes(gzip.compress(path.read_bytes(), LEVEL, mtime=0))
            part.replace(packed)
        finally:
            part.unlink(missing_ok=True)
        path.unlink()


def _path(folder: Path, crc: int) -> Path:
    return folder / f"{crc:016x}.cubin"


def _packed(path: Path) -> Path:
    return path.with_name(path.name + ".gz")

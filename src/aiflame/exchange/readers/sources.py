"""The files to import behind a path: those of a folder, those of an archive, or the one file that it is."""

from __future__ import annotations

import os
import re
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from aiflame.errors import AiflameError
from aiflame.exchange.readers.source import Source, most_unpacked, unpacked
from aiflame.exchange.readers.xla.run_folder import traces

_MOST_FILES = 1 << 16
_ZIP = b"PK\x03\x04"
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_BLOCK = 1 << 20
_DAMAGED = (EOFError, NotImplementedError, ValueError, IndexError, OverflowError, struct.error)
"""Damaged archives raise these in the standard library, besides its own errors."""


def folders_of(folder: Path) -> list[Path]:
    """The folder itself; or the folders in it, if it has no file of its own: profilers make one for each rank, or for each host."""
    entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    if not inner or len(inner) > _MOST_FILES or any(entry.is_file(follow_symlinks=False) for entry in entries):
        return [folder]
    return [folder / name for name in sorted(inner, key=_natural)]


def files_of(folder: Path) -> list[Path]:
    """In the natural order of names."""
    names = [file.name for file in traces(folder)]
    names = names or [entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
    if len(names) > _MOST_FILES:
        raise AiflameError(f"{folder} has more than {_MOST_FILES:,} files: name one, or a folder with the traces alone")
    return [folder / name for name in sorted(names, key=_natural)]


class LeftOut(NamedTuple):
    """A file among several that could not be read."""

    name: str
    why: str

    @staticmethod
    def of(name: str, path: Path, error: AiflameError) -> LeftOut:
        """`path`: where the file lies for the moment, which is no name for people."""
        return LeftOut(name, str(error).replace(str(path), name))


def each_source(path: Path) -> Iterator[Source | LeftOut]:
    """The file, or each file of an archive, which lies in a temporary folder until the next one is asked for."""
    whole = Source.open(path)
    if _is_zip(whole):
        yield from _unpacked_members(_zip_members(path), most_unpacked(whole.size))
    elif is_archive(whole):
        yield from _unpacked_members(_tar_members(path), most_unpacked(whole.size))
    else:
        yield whole


def is_archive(source: Source) -> bool:
    return _is_zip(source) or source.head[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC)


def _is_zip(source: Source) -> bool:
    return source.head.startswith(_ZIP)


def _unpacked_members(members: Iterator[tuple[str, IO[bytes]]], left: int) -> Iterator[Source | LeftOut]:
    """`left`: the bytes that all of them may have."""
    with tempfile.TemporaryDirectory(prefix="aiflame-") as room:
        for number, (name, content) in enumerate(members):
            if number == _MOST_FILES:
                raise AiflameError(f"an archive of more than {_MOST_FILES:,} files is not imported")
            own = Path(room) / str(number)  # never the name that a stranger chose
            with own.open("xb") as file:
                left -= _copy(content, file, name, left)
            try:
                source: Source | LeftOut = Source.open(own, name)
            except AiflameError as error:
                source = LeftOut.of(name, own, error)
            yield source
            own.unlink()


def _zip_members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in sorted(archive.infolist(), key=lambda entry: _natural(entry.filename)):
                if not entry.is_dir() and not entry.flag_bits & 1:
                    with archive.open(entry) as content:
                        yield _base(entry.filename), content
    except (*_DAMAGED, zipfile.BadZipFile) as error:
        raise AiflameError(f"cannot read the archive {path}: {error}") from None


def _tar_members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """In the order of the archive, which is read once."""
    try:
        with unpacked(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for entry in archive:
                if entry.isreg() and (content := archive.extractfile(entry)) is not None:
                    yield _base(entry.name), content
    except (*_DAMAGED, tarfile.TarError) as error:
        raise AiflameError(f"cannot read the archive {path}: {error}") from None


def _copy(content: IO[bytes], file: IO[bytes], name: str, most: int) -> int:
    """Copies a file of an archive, and gives its size."""
    size = 0
    try:
        while data := content.read(_BLOCK):
            size += len(data)
            if size > most:
                raise AiflameError(f"{name} unpacks to far more than its archive has: no profiler writes such a file")
            file.write(data)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise AiflameError(f"cannot unpack {name}: {error}") from None
    return size


def _base(name: str) -> str:
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2] or "unnamed"


def _natural(name: str) -> list[tuple[int, str]]:
    """`rank10` after `rank9`."""
    return [(int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in re.split(r"([0-9]+)", name)]

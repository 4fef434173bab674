"""The bytes of a file to import, unpacked as they are read."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from aiflame.errors import AiflameError
from aiflame.values import dataclass

HEAD = 1 << 20
"""Bytes by which a format is recognized."""
_BLOCK = 16 << 20
_MOST_FOR_A_BYTE, _HARMLESS = 400, 1 << 20
"""Bytes that a packed one may become. Traces have 10 to 60; a megabyte may become as many as it likes."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True, slots=True)
class Source:
    """One file."""

    path: Path
    name: str
    """for people"""
    head: bytes
    """Its first bytes, unpacked."""
    size: int
    """Bytes of the file as it lies there."""

    @staticmethod
    def open(path: Path, name: str = "") -> Source:
        with unpacked(path) as file:
            head = file.read(HEAD)
        return Source(path, name or path.name, head, path.stat().st_size)

    def blocks(self, size: int = _BLOCK) -> Iterator[tuple[bytes, float]]:
        """Its unpacked bytes piece by piece, each with the share of the file that has been read."""
        with _reading(self.path), plain(self.path) as file, _unpacking(file) as content:
            many = 0
            while block := content.read(size):
                many += len(block)
                if many > most_unpacked(file.tell()):
                    raise AiflameError(
                        f"{self.path} unpacks to more than {_MOST_FOR_A_BYTE} times its size: no profiler writes such a file"
                    )
                yield block, min(file.tell() / max(self.size, 1), 1.0)

    def whole(self, most: int) -> bytes:
        """All of it, unpacked; an error where that is more than `most` bytes."""
        data = io.BytesIO()  # gives its bytes away without a copy
        for block, _ in self.blocks():
            data.write(block)
            if data.tell() > most:
                raise AiflameError(f"{self.path} has more than {most >> 20} MB once it is unpacked: too large for its format")
        return data.getvalue()


def most_unpacked(size: int) -> int:
    """The bytes that so many packed ones may become."""
    return _MOST_FOR_A_BYTE * max(size, _HARMLESS)


@contextmanager
def plain(path: Path) -> Iterator[IO[bytes]]:
    """A regular file for reading, as it lies there."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe or a device is never waited for
            raise AiflameError(f"{path} is no regular file: copy its bytes into a file, and import the copy")
        yield file


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """A file for reading, unpacked where it is packed."""
    with _reading(path), plain(path) as file, _unpacking(file) as content:
        yield content


@contextmanager
def _unpacking(file: IO[bytes]) -> Iterator[IO[bytes]]:
    begin = file.read(4)
    file.seek(0)
    if begin.startswith(_GZIP):
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            yield io.BufferedReader(unpacked, _BLOCK)
    elif begin == _ZSTD:
        yield from _zstd(file)
    else:
        yield file


def _zstd(file: IO[bytes]) -> Iterator[IO[bytes]]:
    try:
        import zstandard  # type: ignore[import-not-found]
    except ImportError:
        raise AiflameError("a file packed with zstd needs `pip install zstandard`; or unpack it with `zstd -d`") from None
    try:
        yield zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, read_across_frames=True)
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise AiflameError(f"cannot unpack {path}: {error}") from None
    except OSError as error:
        raise AiflameError(f"cannot read {path}: {error.strerror or error}") from None

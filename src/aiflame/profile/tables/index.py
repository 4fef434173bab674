"""`tables/index.json`: the Parquet files of a sealed profile, with their sizes and checksums.

A file is passed to the Parquet reader only if it is byte for byte as it was written: a reader of damaged Parquet may fail in any way, or
return wrong numbers without an error.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.json_data import parse
from aiflame.values import asdict, dataclass

FILE_NAME = "index.json"

_LARGEST = 64 << 20
_MOST_VALUES = 4 << 20
"""Four for each part; a million parts of 64 MB each."""
_MOST_ROWS = 1 << 32
_MOST_BYTES = 1 << 40
"""The most bytes of a part."""
_BLOCK = 4 << 20
_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")
_FILE = re.compile(r"[0-9a-f]{1,32}\.parquet")


@dataclass(frozen=True, slots=True)
class Part:
    file: str
    """relative to `tables/`"""
    rows: int
    bytes: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Index:
    tables: dict[str, tuple[Part, ...]]

    def write(self, folder: Folder) -> None:
        body = json.dumps({name: [asdict(part) for part in parts] for name, parts in self.tables.items()}, indent=1)
        folder.write(FILE_NAME, f"{zlib.crc32(body.encode()):08x}\n{body}\n".encode())

    @staticmethod
    def read(folder: Folder) -> Index | None:
        """None if it is missing, or if its checksum is wrong."""
        data = folder.read(FILE_NAME, limit=_LARGEST) or b""
        check, _, body = data.removesuffix(b"\n").partition(b"\n")
        if check != f"{zlib.crc32(body):08x}".encode():
            return None
        try:
            tables: Any = parse(body, most_values=_MOST_VALUES)
            return Index({name: tuple(_part(name, part) for part in parts) for name, parts in tables.items()})
        except (ValueError, TypeError, AttributeError):
            return None


def _part(table: str, part: dict[str, Any]) -> Part:
    """ValueError for an impossible part: a correct checksum does not prove that we wrote it."""
    read = Part(**part)
    folder, _, name = read.file.partition("/")
    sound = folder == table and bool(_NAME.fullmatch(folder)) and bool(_FILE.fullmatch(name))
    for value, most in ((read.rows, _MOST_ROWS), (read.bytes, _MOST_BYTES), (read.crc32, 1 << 32)):
        sound = sound and type(value) is int and 0 <= value < most
    if not sound:
        raise ValueError(f"no part of {table}")
    return read


def write_part(folder: Folder, table: str, name: str, frame: pl.DataFrame) -> Part:
    """Writes `folder/table/name.parquet`. It is written in memory first: a full disk is then an OSError, and the checksum needs no second
    reading."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=3, statistics=True)
    data = buffer.getbuffer()
    with io.BufferedWriter(folder.make_folder(table).new_file(f"{name}.parquet")) as file:
        file.write(data)
    return Part(f"{table}/{name}.parquet", len(frame), len(data), zlib.crc32(data))


@contextlib.contextmanager
def open_part(folder: Folder, part: Part) -> Iterator[BinaryIO]:
    with folder.file(*part.file.split("/")) as file:
        if file is None:
            raise AiflameError(f"{folder.path / part.file} is missing: this profile is damaged; record again or restore it from a copy")
        yield file


def verify(folder: Folder, part: Part) -> None:
    """Error if the file does not match its size and checksum."""
    with open_part(folder, part) as file:
        check, size = 0, 0
        while block := file.read(_BLOCK):
            check, size = zlib.crc32(block, check), size + len(block)
    if (size, check) != (part.bytes, part.crc32):
        raise AiflameError(f"{folder.path / part.file} is damaged (its checksum is wrong): record again or restore it from a copy")

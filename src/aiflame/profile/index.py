"""`tables/index.json`: the Parquet files of a sealed profile, with their sizes and checksums.

A file is handed to the Parquet reader only when it is, byte for byte, what was written: a reader of damaged Parquet may
fail in any way, or not at all and give wrong numbers.
"""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from ..errors import AiflameError
from .files import open_regular, replace_file

FILE_NAME = "index.json"

_LARGEST = 64 << 20
_BLOCK = 4 << 20


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

    def write(self, folder: Path) -> None:
        body = json.dumps({name: [asdict(part) for part in parts] for name, parts in self.tables.items()}, indent=1)
        replace_file(folder / FILE_NAME, f"{zlib.crc32(body.encode()):08x}\n{body}\n".encode())

    @staticmethod
    def read(folder: Path) -> Index | None:
        """None when there is none, or when it is not what was written."""
        with open_regular(folder / FILE_NAME) as file:
            data = file.read(_LARGEST) if file is not None else b""
        check, _, body = data.removesuffix(b"\n").partition(b"\n")
        if check != f"{zlib.crc32(body):08x}".encode():
            return None
        try:
            return Index({name: tuple(Part(**part) for part in parts) for name, parts in json.loads(body).items()})
        except (ValueError, TypeError, AttributeError, RecursionError):
            return None


def write_part(folder: Path, file: str, frame: pl.DataFrame) -> Part:
    """Writes `folder/file`. Through memory: a full disk is then an OSError, and the checksum needs no second reading."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=3, statistics=True)
    data = buffer.getvalue()
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return Part(file, len(frame), len(data), zlib.crc32(data))


def verify(folder: Path, part: Part) -> None:
    path = folder / part.file
    with open_regular(path) as file:
        if file is None:
            raise AiflameError(f"{path} is missing: this profile is damaged; record again or restore it from a copy")
        check, size = 0, 0
        while block := file.read(_BLOCK):
            check, size = zlib.crc32(block, check), size + len(block)
    if (size, check) != (part.bytes, part.crc32):
        raise AiflameError(f"{path} is damaged (its checksum is wrong): record again or restore it from a copy")

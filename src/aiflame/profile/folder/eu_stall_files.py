"""Files of EU stall samples in `PROFILE/telemetry/`, which the recorder read from an Intel GPU. Standard library alone.

A file has one stream of the driver (one graphics unit of a GPU), or in a flight recorder a part of one: the magic, the length of a JSON
header, the header, then blocks. A block is a stretch of time whose samples were read together: its head, and a row for each address and
reason. It is appended in one piece and has a checksum, so that a recorder that is killed loses no more than its last block.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from aiflame.profile.folder.json_data import parse
from aiflame.values import dataclass

SUFFIX = ".eustalls"
UNKNOWN_SUFFIX = ".eustalls-unknown"
"""Of files with records of a generation that is not known: a line of JSON about the GPU, then the driver's records."""
UNKNOWN_FOLDER = "unknown_stalls"
"""The folder of a sealed profile that keeps them."""

_MAGIC = b"AIFLAMEI"
_VERSION = 1
_PREFIX = struct.Struct("<8sII")
_LARGEST_HEADER = 1 << 16
_MOST_VALUES = 1 << 10
_HEAD = struct.Struct("<IIQQQ")
"""Checksum of the rest of the block, number of rows, begin_ns and end_ns (CLOCK_MONOTONIC), samples that the GPU had no room for."""
ROW = struct.Struct("<QII")
"""Address, place of the reason in the header's `reasons`, number of samples."""
_MOST_ROWS = 1 << 24


_PART = re.compile(rf"(.+)@(\d{{1,19}}){re.escape(SUFFIX)}")


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a flight recorder, `STREAM@BEGIN.eustalls`: it ends where the next one of its stream begins."""

    name: str
    stream: str
    begin_ns: int
    end_ns: int | None
    """None: it is the newest, which grows"""


def part_name(stream: str, begin_ns: int) -> str:
    return f"{stream}@{begin_ns}{SUFFIX}"


def parts(names: Iterable[str]) -> list[Part]:
    """The files of a flight recorder among the names."""
    begins = sorted((match[1], int(match[2]), name) for name in names if (match := _PART.fullmatch(name)))
    ends = [later[1] if later[0] == one[0] else None for one, later in pairwise(begins)] + [None]
    return [Part(name, stream, begin_ns, end_ns) for (stream, begin_ns, name), end_ns in zip(begins, ends, strict=False)]


@dataclass(frozen=True, slots=True)
class Header:
    address: str
    """PCI address of the GPU: `0000:03:00.0`"""
    unit: int
    """the driver's number of the graphics unit (GT)"""
    period: int
    """cycles between two samples of a core"""
    address_bits: int
    """The GPU reports so many low bits of an address."""
    reasons: tuple[str, ...]
    """the vendor's names"""


@dataclass(frozen=True, slots=True)
class Block:
    begin_ns: int
    end_ns: int
    dropped: int
    rows: bytes | memoryview
    """of ROW"""


def pack_header(header: Header) -> bytes:
    data = json.dumps(dataclasses.asdict(header)).encode()
    data += b" " * (-(_PREFIX.size + len(data)) % 8)
    return _PREFIX.pack(_MAGIC, _VERSION, len(data)) + data


def pack_block(block: Block) -> bytes:
    body = _HEAD.pack(0, len(block.rows) // ROW.size, block.begin_ns, block.end_ns, block.dropped) + block.rows
    return zlib.crc32(body[4:]).to_bytes(4, "little") + body[4:]


def read_header(data: bytes | mmap.mmap) -> tuple[Header, int]:
    """The header at the beginning of a file, and the offset of its first block; ValueError for any other file."""
    try:
        magic, version, size = _PREFIX.unpack_from(data)
        if magic != _MAGIC or size > _LARGEST_HEADER or _PREFIX.size + size > len(data):
            raise ValueError("it is cut short or not ours")
        if version != _VERSION:
            raise ValueError("it was written by another version of aiflame")
        fields: Any = parse(data[_PREFIX.size : _PREFIX.size + size], most_values=_MOST_VALUES)
        reasons = tuple(fields["reasons"])
        unit, period, bits = (fields[name] for name in ("unit", "period", "address_bits"))
        texts = all(isinstance(one, str) for one in (fields["address"], *reasons))
        if not texts or not all(type(one) is int for one in (unit, period, bits)) or not 0 < period < 1 << 31 or bits not in (32, 64):
            raise ValueError("its header is damaged")
        return Header(fields["address"], unit, period, bits, reasons), _PREFIX.size + size
    except (struct.error, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("its header is damaged") from None


def blocks(data: memoryview) -> Iterator[Block | None]:
    """The blocks behind the header. None for a damaged one, with which the reading ends; one that is cut off at the end was being written
    when the recorder was killed, and is no damage."""
    at = 0
    while at + _HEAD.size <= len(data):
        check, rows, begin_ns, end_ns, dropped = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + rows * ROW.size
        if rows <= _MOST_ROWS and end > len(data):
            return
        if rows > _MOST_ROWS or zlib.crc32(data[at + 4 : end]) != check:
            yield None
            return
        yield Block(begin_ns, end_ns, dropped, data[at + _HEAD.size : end])
        at = end

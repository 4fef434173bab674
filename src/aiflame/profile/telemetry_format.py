"""Files of `PROFILE/telemetry/`: what the recorder read of the machine. Standard library alone.

A file is of one source: the magic, the length of a JSON header that names its series, the header, then records of one size, a value for
each series. Records are appended, each in one piece and with a check word, so that a recorder that is killed loses nothing that it wrote.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from .json_data import parse

FOLDER = "telemetry"
SUFFIX = ".records"

_MAGIC = b"AIFLAMES"
_VERSION = 1
_PREFIX = struct.Struct("<8sII")
HEAD = struct.Struct("<QII")
"""Of a record: time_ns (CLOCK_MONOTONIC), key, check; then a double for each series, NaN where it could not be read."""
_LARGEST_HEADER = 16 << 20
_MOST_VALUES = 1 << 20
"""Eight for each series."""


@dataclass(frozen=True, slots=True)
class Series:
    """One thing that is read again and again. What is written is what was read; sealing makes of it what a person reads."""

    device: str
    """"" for the whole machine"""
    name: str
    unit: str
    """once sealed: %, bytes, bytes/s, W, J, MHz, °C"""
    scale: float = 1.0
    rate: bool = False
    """What is read only grows: sealing tells how much in a second."""
    wraps: float = 0.0
    """Where what is read begins again at 0; 0: nowhere."""
    most: float = 0.0
    """A rate of more is one of this; 0: no limit."""
    identity: str = ""
    """What the device is called elsewhere: UUID and PCI address."""


@dataclass(frozen=True, slots=True)
class Header:
    source: str
    series: tuple[Series, ...]
    unreadable: tuple[Series, ...] = ()
    """What is there, and may not be read."""
    keyed: bool = False
    """Records are of several devices: `{}` in a series' device is the record's key."""


def pack_header(header: Header) -> bytes:
    data = json.dumps(dataclasses.asdict(header), ensure_ascii=False).encode()
    data += b" " * (-(_PREFIX.size + len(data)) % 8)
    return _PREFIX.pack(_MAGIC, _VERSION, len(data)) + data


def read_header(data: bytes | mmap.mmap) -> tuple[Header, int]:
    """The header at the beginning of a file, and where its records begin; ValueError when it is none."""
    try:
        magic, version, size = _PREFIX.unpack_from(data)
        if magic != _MAGIC or size > _LARGEST_HEADER or _PREFIX.size + size > len(data):
            raise ValueError("it is cut short or of something else")
        if version != _VERSION:
            raise ValueError("it was written by another version of aiflame")
        told: Any = parse(data[_PREFIX.size : _PREFIX.size + size], most_values=_MOST_VALUES)
        series, unreadable = (tuple(_series(one) for one in told[name]) for name in ("series", "unreadable"))
        return Header(str(told["source"]), series, unreadable, bool(told["keyed"])), _PREFIX.size + size
    except (struct.error, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("its header is damaged") from None


def _series(told: dict[str, object]) -> Series:
    """Keys of a later version are passed over."""
    known = {field.name: told[field.name] for field in dataclasses.fields(Series) if field.name in told}
    made = Series(**known)  # type: ignore[arg-type]
    texts, numbers = (made.device, made.name, made.unit, made.identity), (made.scale, made.wraps, made.most)
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, (int, float)) for number in numbers):
        raise TypeError
    return made


class Packer:
    """Makes records of `count` values."""

    def __init__(self, count: int) -> None:
        self._struct = struct.Struct(f"<QII{count}d")
        self.size = self._struct.size

    def pack(self, time_ns: int, key: int, values: list[float]) -> bytes:
        record = self._struct.pack(time_ns, key, 0, *values)
        return record[:12] + zlib.crc32(record).to_bytes(4, "little") + record[16:]


def is_whole(record: bytes) -> bool:
    return zlib.crc32(record[:12] + b"\0\0\0\0" + record[16:]) == int.from_bytes(record[12:16], "little")

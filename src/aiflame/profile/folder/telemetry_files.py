"""Files of `PROFILE/telemetry/`: the recorder's measurements of the machine. Standard library alone.

A file has one source: the magic, the length of a JSON header that names its series, the header, then records of equal size with a value for
each series. Each record is appended in one piece and has a check word, so that a recorder that is killed loses nothing that it wrote.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import struct
import zlib
from typing import Any

from aiflame.profile.folder.json_data import parse
from aiflame.values import dataclass

FOLDER = "telemetry"
SUFFIX = ".records"
MEMORY_ON = "memory on "
"""The name of a series of a process's memory on a device, before the device's."""

_MAGIC = b"AIFLAMES"
_VERSION = 1
_PREFIX = struct.Struct("<8sII")
HEAD = struct.Struct("<QII")
"""The head of a record: time_ns (CLOCK_MONOTONIC), key, check; then a double for each series, NaN where it could not be read."""
_LARGEST_HEADER = 16 << 20
_MOST_VALUES = 1 << 20
"""Eight for each series."""


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity that is read at intervals. The file has raw values; sealing converts them to the unit."""

    device: str
    """empty: the whole machine"""
    name: str
    unit: str
    """unit after sealing: %, bytes, bytes/s, W, J, MHz, °C"""
    scale: float = 1.0
    rate: bool = False
    """The raw value only grows; sealing converts it to growth per second."""
    wraps: float = 0.0
    """The value at which the raw value starts again from 0; 0: never."""
    most: float = 0.0
    """Larger rates are cut to this value; 0: no limit."""
    identity: str = ""
    """The device's names elsewhere: UUID and PCI address."""


@dataclass(frozen=True, slots=True)
class Header:
    source: str
    series: tuple[Series, ...]
    unreadable: tuple[Series, ...] = ()
    """Series that exist on the machine but cannot be read."""
    keyed: bool = False
    """Records belong to several devices: `{}` in a series' device stands for the record's key."""


def pack_header(header: Header) -> bytes:
    data = json.dumps(dataclasses.asdict(header), ensure_ascii=False).encode()
    data += b" " * (-(_PREFIX.size + len(data)) % 8)
    return _PREFIX.pack(_MAGIC, _VERSION, len(data)) + data


def read_header(data: bytes | mmap.mmap) -> tuple[Header, int]:
    """The header at the beginning of a file, and the offset of its first record; ValueError for any other file."""
    try:
        magic, version, size = _PREFIX.unpack_from(data)
        if magic != _MAGIC or size > _LARGEST_HEADER or _PREFIX.size + size > len(data):
            raise ValueError("it is cut short or not ours")
        if version != _VERSION:
            raise ValueError("it was written by another version of aiflame")
        fields: Any = parse(data[_PREFIX.size : _PREFIX.size + size], most_values=_MOST_VALUES)
        series, unreadable = (tuple(_series(one) for one in fields[name]) for name in ("series", "unreadable"))
        return Header(str(fields["source"]), series, unreadable, bool(fields["keyed"])), _PREFIX.size + size
    except (struct.error, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("its header is damaged") from None


def _series(fields: dict[str, object]) -> Series:
    """Ignores keys of later versions."""
    arguments = {field.name: fields[field.name] for field in dataclasses.fields(Series) if field.name in fields}
    series = Series(**arguments)  # type: ignore[arg-type]
    texts, numbers = (series.device, series.name, series.unit, series.identity), (series.scale, series.wraps, series.most)
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, (int, float)) for number in numbers):
        raise TypeError
    return series


class Packer:
    """Packs records of `count` values."""

    def __init__(self, count: int) -> None:
        self._struct = struct.Struct(f"<QII{count}d")
        self.size = self._struct.size

    def pack(self, time_ns: int, key: int, values: list[float]) -> bytes:
        record = self._struct.pack(time_ns, key, 0, *values)
        return record[:12] + zlib.crc32(record).to_bytes(4, "little") + record[16:]


def is_whole(record: bytes) -> bool:
    return zlib.crc32(record[:12] + b"\0\0\0\0" + record[16:]) == int.from_bytes(record[12:16], "little")

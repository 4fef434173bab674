"""XSpace files as XLA's profilers write them, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

Stat = str | int | float


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def part(number: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


@dataclass(frozen=True)
class Event:
    name: str
    begin_ps: int
    duration_ps: int
    stats: Mapping[str, Stat] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    id: int
    name: str
    events: tuple[Event, ...]
    begin_ns: int = 0


@dataclass(frozen=True)
class Plane:
    name: str
    lines: tuple[Line, ...] = ()
    stats: Mapping[str, Stat] = field(default_factory=dict)
    named: Mapping[str, Mapping[str, Stat]] = field(default_factory=dict)
    """Stats of all events with a name."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """Display names."""
    references: bool = True
    """Texts are names of stats, as XLA's builders write them."""

    def bytes(self) -> bytes:
        names: dict[str, int] = {}
        events: dict[str, int] = {}

        def stat(name: str, value: Stat) -> bytes:
            key = whole(1, names.setdefault(name, len(names) + 1))
            if isinstance(value, float):
                return key + varint(2 << 3 | 1) + struct.pack("<d", value)
            if isinstance(value, int):
                return key + whole(4, value)
            return key + (whole(7, names.setdefault(value, len(names) + 1)) if self.references else part(5, value))

        lines = b""
        for line in self.lines:
            content = [whole(1, line.id), part(2, line.name), whole(3, line.begin_ns)]
            for event in line.events:
                row = whole(1, events.setdefault(event.name, len(events) + 1)) + whole(2, event.begin_ps) + whole(3, event.duration_ps)
                content.append(part(4, row + b"".join(part(4, stat(*pair)) for pair in event.stats.items())))
            lines += part(3, b"".join(content))
        named = b""
        for name, number in events.items():
            entry = whole(1, number) + part(2, name) + (part(4, self.shown[name]) if name in self.shown else b"")
            entry += b"".join(part(5, stat(*pair)) for pair in self.named.get(name, {}).items())
            named += part(4, whole(1, number) + part(2, entry))
        own = b"".join(part(6, stat(*pair)) for pair in self.stats.items())
        stats = b"".join(part(5, whole(1, number) + part(2, whole(1, number) + part(2, name))) for name, number in names.items())
        return part(2, self.name) + lines + named + stats + own


def space(*planes: Plane, host: str = "machine", errors: tuple[str, ...] = ()) -> bytes:
    return b"".join(part(1, plane.bytes()) for plane in planes) + b"".join(part(2, text) for text in errors) + part(4, host)

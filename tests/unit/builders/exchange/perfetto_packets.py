"""Packets of Perfetto's traces, written by the numbers of fields in its .proto files."""

from __future__ import annotations

import struct
import zlib


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def num(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def sub(field: int, *parts: bytes | str) -> bytes:
    """A message or a text."""
    data = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(data)) + data


def fixed(field: int, value: int | float) -> bytes:
    return varint(field << 3 | 1) + (struct.pack("<d", value) if isinstance(value, float) else struct.pack("<Q", value))


def packet(*parts: bytes, at: int | None = None, sequence: int = 1) -> bytes:
    return sub(1, b"" if at is None else num(8, at), num(10, sequence), *parts)


def thread_track(uuid: int, pid: int, tid: int, name: str = "", sequence: int = 1) -> bytes:
    return packet(sub(60, num(1, uuid), sub(4, num(1, pid), num(2, tid), sub(5, name) if name else b"")), sequence=sequence)


def track(uuid: int, name: str, parent: int = 0, *more: bytes) -> bytes:
    return packet(sub(60, num(1, uuid), sub(2, name), num(5, parent) if parent else b"", *more))


def begin(at: int, name: str, uuid: int, *more: bytes, category: str = "", sequence: int = 1) -> bytes:
    of = sub(22, category) if category else b""
    return packet(sub(11, num(9, 1), num(11, uuid), sub(23, name), of, *more), at=at, sequence=sequence)


def end(at: int, uuid: int, sequence: int = 1) -> bytes:
    return packet(sub(11, num(9, 2), num(11, uuid)), at=at, sequence=sequence)


def fact(name: str, value: int | str) -> bytes:
    return sub(4, sub(10, name), sub(6, value) if isinstance(value, str) else num(3, value))


CLEARED = num(13, 1)
EVERYTHING = b"".join(
    [
        packet(sub(6, sub(1, num(1, 6), num(2, 100)), sub(1, num(1, 1), num(2, 1 << 60))), CLEARED),
        packet(sub(60, num(1, 1), sub(3, num(1, 42), sub(6, "app")))),
        thread_track(2, 42, 43, "worker"),
        track(3, "requests", 1),
        track(4, "queue", 1, sub(8, num(4, 10))),
        packet(sub(12, sub(1, num(1, 1), sub(2, "cat")), sub(2, num(1, 1), sub(2, "interned")), sub(1000, num(1, 5), sub(2, "_Z3addv")))),
        *(
            begin(1000 + 100 * at, f"call {at}", 2 + at % 2, fact("key", at), fixed(47, at)) + end(1050 + 100 * at, 2 + at % 2)
            for at in range(20)
        ),
        packet(sub(53, num(1, 8), num(2, 500), num(13, 3), num(5, 1), num(19, 5)), at=100),
        packet(sub(135, sub(1, num(2, 7), num(3, 8)), sub(5, sub(1, sub(1, "main"))), num(11, 2_000)), at=10_000),
        packet(
            sub(
                37,
                sub(1, num(1, 1), sub(2, "f")),
                sub(2, num(1, 1), num(2, 1)),
                sub(3, num(1, 1), num(2, 1)),
                sub(5, sub(2, num(1, 1), num(2, 9))),
            )
        ),
        packet(sub(52, sub(1, sub(1, num(1, 1), sub(2, "busy"), num(7, 37))), sub(2, num(1, 1), num(2, 5))), at=100),
        packet(sub(52, sub(2, num(1, 1), fixed(3, 7.5))), at=200),
        packet(sub(11, num(9, 4), num(11, 4), num(30, 4)), at=100),
        sub(1, sub(50, zlib.compress(begin(5000, "packed", 2) + end(5100, 2)))),
    ]
)

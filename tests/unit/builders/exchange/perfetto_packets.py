"""Packets of Perfetto's traces, written by the numbers of fields in its .proto files."""

from __future__ import annotations

import struct


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

"""The wire format of protocol buffers, read field by field without copying: strict, since a file may come from a stranger.

    for number, value in fields(data):              # value: int, or a memoryview of a nested message, a text or packed numbers
        if number == 2:
            for inner, ... in fields(value): ...

A caller reads nested messages itself, so that the depth is that of its own code; no message is deeper here. Every length is checked against
the bytes that are there, so that a wrong one is an error at its place and never a large allocation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from aiflame.errors import AiflameError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types. Groups (3 and 4) are obsolete, and refused."""
_MOST_BYTES = 10
"""Bytes of a number of 64 bits."""
_MASK = (1 << 64) - 1
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")

Value = int | memoryview


class DamagedError(AiflameError):
    """The bytes are no such message."""


def fields(data: bytes | memoryview) -> Iterator[tuple[int, Value]]:
    """Each field of a message: its number and its value. Numbers are unsigned, of at most 64 bits (`signed`, `zigzag`, `double`, `single`
    turn them into others); a value with a length is a view of its bytes."""
    view = memoryview(data)
    at, end = 0, len(view)
    while at < end:
        # One byte is the usual case, for tags and for values.
        tag = view[at]
        at += 1
        if tag >= 0x80:
            tag, at = _varint(view, at - 1, end)
            if tag >> 32:
                raise DamagedError(f"a field has the number {tag >> 3}, which is too large")
        number, wire = tag >> 3, tag & 7
        if not number:
            raise DamagedError("a field has the number 0")
        if wire == VARINT:
            if at < end and view[at] < 0x80:
                yield number, view[at]
                at += 1
            else:
                value, at = _varint(view, at, end)
                yield number, value
        elif wire == BYTES:
            size, at = _varint(view, at, end)
            if size > end - at:
                raise DamagedError(f"field {number} should have {size:,} bytes, and {end - at:,} are left")
            yield number, view[at : at + size]
            at += size
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            if size > end - at:
                raise DamagedError(f"field {number} is cut off")
            yield number, int.from_bytes(view[at : at + size], "little")
            at += size
        else:
            raise DamagedError(f"field {number} has the type {wire}, which no field has")


def numbers(value: Value) -> list[int]:
    """The values of a repeated number, by one of its fields: packed, or a single one."""
    if isinstance(value, int):
        return [value]
    at, end = 0, len(value)
    parsed = []
    while at < end:
        byte = value[at]
        at += 1
        if byte >= 0x80:
            byte, at = _varint(value, at - 1, end)
        parsed.append(byte)
    return parsed


def signed(value: Value) -> int:
    """An int32 or int64: two's complement."""
    number = _number(value)
    return number - (1 << 64) if number >> 63 else number


def zigzag(value: Value) -> int:
    """A sint32 or sint64."""
    number = _number(value)
    return number >> 1 ^ -(number & 1)


def double(value: Value) -> float:
    """A double, from a field of 64 bits."""
    return float(_DOUBLE.unpack(_number(value).to_bytes(8, "little"))[0])


def single(value: Value) -> float:
    """A float, from a field of 32 bits."""
    return float(_FLOAT.unpack((_number(value) & 0xFFFFFFFF).to_bytes(4, "little"))[0])


def unsigned(value: Value) -> int:
    """A number; an error where the field has a length."""
    return _number(value)


def message(value: Value) -> memoryview:
    """A nested message; an error where the field is a number."""
    if isinstance(value, int):
        raise DamagedError("a number stands where a message or a text should")
    return value


def text(value: Value) -> str:
    return str(message(value), "utf-8", "replace")


def messages(blocks: Iterable[bytes], most: int) -> Iterator[tuple[int, Value]]:
    """The fields of a message that arrives in blocks: of a file whose outermost message has many small ones. No field has more than `most`
    bytes, and memory grows only with the largest."""
    kept = b""
    for block in blocks:
        kept = kept + block if kept else block
        view = memoryview(kept)
        at = 0
        while (until := _end_of_field(view, at, most)) > 0:
            yield from fields(view[at:until])
            at = until
        kept = bytes(view[at:])
    yield from fields(kept)


def _end_of_field(view: memoryview, at: int, most: int) -> int:
    """Where the field that begins at `at` ends; 0 if it is not whole."""
    end = len(view)
    try:
        tag, at = _varint(view, at, end)
        if tag & 7 == VARINT:
            _, at = _varint(view, at, end)
        elif tag & 7 == BYTES:
            size, at = _varint(view, at, end)
            if size > most:
                raise DamagedError(f"field {tag >> 3} should have {size:,} bytes: more than {most:,} are not read")
            at += size
        elif tag & 7 in (FIXED64, FIXED32):
            at += 8 if tag & 7 == FIXED64 else 4
        else:
            raise DamagedError(f"field {tag >> 3} has the type {tag & 7}, which no field has")
    except _CutOffError:
        return 0
    return at if at <= end else 0


class _CutOffError(DamagedError):
    pass


def _varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = shift = 0
    for byte in view[at : at + _MOST_BYTES]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7
    if at < end:
        raise DamagedError("a number has more than 64 bits")
    raise _CutOffError("a number is cut off")


def _number(value: Value) -> int:
    if isinstance(value, int):
        return value
    raise DamagedError("a message or a text stands where a number should")

"""Many messages of protocol buffers at once: the first field of all of them, then the second, and so on, each step with numpy.

A message of a loop in Python costs microseconds; traces have millions of small ones.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.protobuf import BYTES, FIXED32, FIXED64, VARINT, DamagedError
from aiflame.values import dataclass

Bytes = NDArray[np.uint8]
Unsigned = NDArray[np.uint64]

_MOST_FIELDS = 4096
_MOST_SHIFT = 63
_AT_ONCE = 1 << 18
"""Messages that are walked through together: more would only need more memory."""


@dataclass(frozen=True, slots=True)
class Step:
    """One field of each message that has another one."""

    row: Whole
    """The message."""
    number: Whole
    wire: Whole
    value: Unsigned
    """Of a text or a message: the place where it begins."""
    end: Whole
    """The place behind the field."""


def places() -> array[int]:
    return array("q")


def bounds(data: bytes, at: int, end: int, tag: int, others: list[tuple[int, int]]) -> tuple[array[int], array[int]]:
    """Begins and ends of the messages in the repeated field with this tag of one byte, within a message; `others`: the bounds of
    stretches with fields in between."""
    begins, ends = places(), places()
    while at < end:
        if data[at] == tag:
            size, begin = _varint(data, at + 1, end)
            if size > end - begin:
                raise DamagedError(f"field {tag >> 3} should have {size:,} bytes, and {end - begin:,} are left")
            begins.append(begin)
            at = begin + size
            ends.append(at)
        else:
            begin = at
            at = _over(data, at, end)
            others.append((begin, at))
    return begins, ends


def _over(data: bytes, at: int, end: int) -> int:
    tag, at = _varint(data, at, end)
    if tag & 7 == VARINT:
        return _varint(data, at, end)[1]
    if tag & 7 == BYTES:
        size, at = _varint(data, at, end)
    elif tag & 7 in (FIXED64, FIXED32):
        size = 8 if tag & 7 == FIXED64 else 4
    else:
        raise DamagedError(f"field {tag >> 3} has the type {tag & 7}, which no field has")
    if size > end - at:
        raise DamagedError(f"field {tag >> 3} should have {size:,} bytes, and {end - at:,} are left")
    return at + size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift <= _MOST_SHIFT:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise DamagedError("a number is cut off, or has more than 64 bits")


def walk(data: Bytes, begin: Whole, end: Whole) -> Iterator[Step]:
    for first in range(0, len(begin), _AT_ONCE):
        yield from _walk(data, begin, end, np.arange(first, min(first + _AT_ONCE, len(begin))))


def _walk(data: Bytes, begin: Whole, end: Whole, row: Whole) -> Iterator[Step]:
    row = row[begin[row] < end[row]]
    at, stop = begin[row], end[row]
    for _ in range(_MOST_FIELDS):
        if not len(row):
            return
        tag, at = _varints(data, at, stop)
        number, wire = (tag >> np.uint64(3)).astype(np.int64), (tag & np.uint64(7)).astype(np.int64)
        value = np.zeros(len(row), dtype=np.uint64)
        if not (np.isin(wire, (VARINT, BYTES, FIXED64, FIXED32)) & (number > 0)).all():
            raise DamagedError("a field has a number or a type that no field has")
        which = np.flatnonzero(wire == VARINT)
        if len(which):
            value[which], at[which] = _varints(data, at[which], stop[which])
        which = np.flatnonzero(wire == BYTES)
        if len(which):
            size, begins = _varints(data, at[which], stop[which])
            if (size > (stop[which] - begins).astype(np.uint64)).any():
                raise DamagedError("a text or a message is longer than the one around it")
            value[which] = begins.astype(np.uint64)
            at[which] = begins + size.astype(np.int64)
        for kind, size_of in ((FIXED64, 8), (FIXED32, 4)):
            which = np.flatnonzero(wire == kind)
            if len(which):
                if (at[which] + size_of > stop[which]).any():
                    raise DamagedError("a number is cut off")
                parts = data[at[which][:, None] + np.arange(size_of)]
                value[which] = np.ascontiguousarray(parts).view(f"<u{size_of}")[:, 0]
                at[which] += size_of
        yield Step(row, number, wire, value, at)
        going = np.flatnonzero(at < stop)
        row, at, stop = row[going], at[going], stop[going]
    raise DamagedError(f"a message has more than {_MOST_FIELDS:,} fields")


def _varints(data: Bytes, at: Whole, stop: Whole) -> tuple[Unsigned, Whole]:
    """The number at each place, and the place behind it."""
    if (at >= stop).any():
        raise DamagedError("a number is cut off")
    byte = data[at]
    value = (byte & 0x7F).astype(np.uint64)
    at = at + 1
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while len(more):
        place = at[more]
        if shift > _MOST_SHIFT or (place >= stop[more]).any():
            raise DamagedError("a number is cut off, or has more than 64 bits")
        byte = data[place]
        value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        at[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    return value, at

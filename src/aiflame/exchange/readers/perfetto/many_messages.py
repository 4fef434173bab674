"""The fields of many protobuf messages at once, as columns: a trace has millions of small packets.

Each step reads the next field of every message that has one, so that numpy works on columns as long as the batch is.
A few messages with very many fields are read one by one in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.protobuf import BYTES, FIXED32, FIXED64, VARINT, DamagedError
from aiflame.values import dataclass

PADDING = 32
"""Bytes behind the last message of a batch: a field is read in words of 8 bytes."""
_FEW = 48
"""So few messages are read one by one."""
_MOST_FIELDS = 64
"""Steps of the columns; messages with more fields are read one by one, too."""
_STOPS = np.uint64(0x8080808080808080)
_LARGEST_NUMBER = 1 << 29
_U = np.uint64
Numbers = NDArray[np.uint64]


class Batch:
    """The bytes of messages, which may lie in each other."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.bytes = bytes(data) + bytes(PADDING)
        self.octets = np.frombuffer(self.bytes, dtype=np.uint8)
        self.words = np.ndarray((len(self.bytes) - 7,), dtype="<u8", buffer=self.bytes, strides=(1,))
        """The 8 bytes at each place."""

    def piece(self, begin: int, end: int) -> bytes:
        return self.bytes[begin:end]


@dataclass(frozen=True, slots=True)
class Fields:
    """One row for each field. The fields of a message stand in their order, but those of other messages in between."""

    message: Whole
    """Which of the given messages."""
    number: Whole
    value: Numbers
    """Of a field of bytes, the place where they begin."""
    end: Whole
    """Where the bytes end; -1: a number."""
    damaged: int
    """Messages of which the rest could not be read."""

    def rows(self, number: int, *, bytes: bool) -> Whole:
        """The rows with a field, in the order of messages."""
        here = np.flatnonzero((self.number == number) & ((self.end >= 0) == bytes))
        return here[np.argsort(self.message[here], kind="stable")]

    def last(self, number: int, count: int, nothing: int = 0) -> Whole:
        """The number in a field of each of `count` messages, by its bits; the last one counts."""
        column = np.full(count, nothing, dtype=np.int64)
        here = np.flatnonzero((self.number == number) & (self.end < 0))
        column[self.message[here]] = self.value[here].view(np.int64)
        return column

    def has(self, number: int, count: int) -> NDArray[np.bool_]:
        column = np.zeros(count, dtype=np.bool_)
        column[self.message[self.number == number]] = True
        return column


def split_all(messages: Sequence[bytes]) -> tuple[Batch, Fields]:
    """The fields of separate messages."""
    batch = Batch(b"".join(messages))
    size = np.array([len(one) for one in messages], dtype=np.int64)
    end = np.cumsum(size)
    return batch, split(batch, end - size, end)


def split(batch: Batch, begin: Whole, end: Whole) -> Fields:
    """The fields of messages."""
    parts: list[tuple[Whole, Whole, Numbers, Whole]] = []
    message: Whole = np.arange(len(begin))
    at: Whole = begin.astype(np.int64)
    until: Whole = end.astype(np.int64)
    some = at < until
    message, at, until = message[some], at[some], until[some]
    damaged = steps = 0
    while len(message) > _FEW and steps < _MOST_FIELDS:
        steps += 1
        tag, after, sound = _varints(batch, at, until)
        number, wire = (tag >> _U(3)).astype(np.int64), (tag & _U(7)).astype(np.int64)
        value, stop, whole = _varints(batch, after, until)
        is_varint, is_bytes = wire == VARINT, wire == BYTES
        fixed = np.flatnonzero((wire == FIXED64) | (wire == FIXED32))
        ended = np.where(is_bytes, 0, -1)
        if is_bytes.any():
            size = np.minimum(value, _U(1 << 62)).astype(np.int64)
            fits = size <= until - stop
            whole &= ~is_bytes | fits
            ended = np.where(is_bytes, stop + size, -1)
            value = np.where(is_bytes, stop.view(np.uint64), value)
            stop = np.where(is_bytes, ended, stop)
        if len(fixed):
            long = wire[fixed] == FIXED64
            word = batch.words[np.minimum(after[fixed], len(batch.words) - 1)]
            value[fixed] = np.where(long, word, word & _U(0xFFFFFFFF))
            stop[fixed] = after[fixed] + np.where(long, 8, 4)
            whole[fixed] = stop[fixed] <= until[fixed]
        is_type = is_varint | is_bytes
        is_type[fixed] = True
        good = sound & whole & is_type & (number > 0) & (number < _LARGEST_NUMBER)
        if not good.all():
            damaged += int((~good).sum())
            message, number, value, ended, stop, until = (column[good] for column in (message, number, value, ended, stop, until))
        parts.append((message, number, value, ended))
        more = stop < until
        message, at, until = message[more], stop[more], until[more]
    last, broken = _one_by_one(batch, message.tolist(), at.tolist(), until.tolist())
    parts.append(last)
    of, numbers, values, ends = zip(*parts, strict=True)
    return Fields(np.concatenate(of), np.concatenate(numbers), np.concatenate(values), np.concatenate(ends), damaged + broken)


def packed_numbers(batch: Batch, begin: int, end: int) -> list[int]:
    """The numbers in a field that is packed; those behind a damaged one are missing."""
    values = []
    while begin < end:
        value, begin = _varint(batch.bytes, begin)
        if 0 <= begin <= end:
            values.append(value)
    return values


def each_field(batch: Batch, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of one message: number, value (of bytes: their place) and the end of bytes (-1: a number)."""
    data, at = batch.bytes, begin
    while at < end:
        tag, at = _varint(data, at)
        number, wire, stop = tag >> 3, tag & 7, -1
        if wire == VARINT:
            value, at = _varint(data, at)
        elif wire == BYTES:
            size, value = _varint(data, at)
            at = stop = value + size
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            value, at = int.from_bytes(data[at : at + size], "little"), at + size
        else:
            raise DamagedError(f"field {number} has the type {wire}, which no field has")
        if at > end or not 0 < number < _LARGEST_NUMBER:
            raise DamagedError(f"field {number} is cut off")
        yield number, value, stop


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; the last place of all, which no message reaches, where it has more than 10 bytes."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    return 0, len(data) - 1


def _varints(batch: Batch, at: Whole, until: Whole) -> tuple[Numbers, Whole, NDArray[np.bool_]]:
    """The number at each place, where it ends, and whether it ends before `until`."""
    word = batch.words[at]
    stops = ~word & _STOPS
    lowest = stops & (~stops + _U(1))
    size = np.frexp(lowest.astype(np.float64))[1].astype(np.int64) >> 3  # 0: more than 8 bytes
    value = word & (lowest | (lowest - _U(1)))
    value = (value & _U(0x007F007F007F007F)) | ((value & _U(0x7F007F007F007F00)) >> _U(1))
    value = (value & _U(0x00003FFF00003FFF)) | ((value & _U(0x3FFF00003FFF0000)) >> _U(2))
    value = (value & _U(0x0FFFFFFF)) | ((value & _U(0x0FFFFFFF00000000)) >> _U(4))
    long = np.flatnonzero(size == 0)
    if len(long):
        first, second = (batch.octets[np.minimum(at[long] + place, len(batch.octets) - 1)] for place in (8, 9))
        value[long] |= (first & np.uint8(0x7F)).astype(np.uint64) << _U(56)
        two = first >= 0x80
        value[long] |= np.where(two, (second & np.uint8(1)).astype(np.uint64) << _U(63), _U(0))
        size[long] = np.where(two, np.where(second < 0x80, 10, 1 << 40), 9)
    ends = at + size
    return value, np.minimum(ends, until), ends <= until


def _one_by_one(batch: Batch, messages: list[int], at: list[int], until: list[int]) -> tuple[tuple[Whole, Whole, Numbers, Whole], int]:
    rows: list[tuple[int, int, int, int]] = []
    broken = 0
    for message, begin, end in zip(messages, at, until, strict=True):
        try:
            rows += ((message, *one) for one in each_field(batch, begin, end))
        except DamagedError:  # noqa: PERF203 (the others are sound)
            broken += 1
    message_of, number, value, ended = zip(*rows, strict=True) if rows else ((),) * 4
    return (
        np.array(message_of, dtype=np.int64),
        np.array(number, dtype=np.int64),
        np.array(value, dtype=np.uint64),
        np.array(ended, dtype=np.int64),
    ), broken

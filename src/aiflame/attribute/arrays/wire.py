"""Protobuf's wire format, for millions of messages at once.

A message is a sequence of parts; each part is a column with a value for every message. https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Ints
from aiflame.values import dataclass

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.integer]
Words = NDArray[np.uint64]
_VARINT, _I64, _LEN = 0, 1, 2
_WORD = 8
_64_BITS = (1 << 64) - 1


class Part(Protocol):
    """The same field of every message, as bytes."""

    def sizes(self, count: int) -> Ints:
        """The number of bytes in each of `count` messages."""
        ...

    def put(self, into: Bytes, at: Ints) -> None:
        """Writes the bytes for each message at its place."""
        ...


def encode(parts: Sequence[Part], count: int) -> bytes:
    """Encodes `count` messages, one after the other."""
    sizes = np.zeros(count, dtype=np.int64)
    for part in parts:
        sizes += part.sizes(count)
    at = np.cumsum(sizes) - sizes
    into = np.zeros(int(sizes.sum()), dtype=np.uint8)
    for part in parts:
        part.put(into, at)
        at = at + part.sizes(count)
    return into.tobytes()


def key(field: int, wire: int) -> bytes:
    return one_varint(field << 3 | wire)


def one_varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def number(field: int, value: int) -> bytes:
    """A field of one message. A negative number is written as protobuf's int64."""
    return key(field, _VARINT) + one_varint(value & _64_BITS)


def text(field: int, value: str | bytes) -> bytes:
    """The same with text, or with a message."""
    data = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
    return key(field, _LEN) + one_varint(len(data)) + data


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated field of one message, with whole numbers."""
    return text(field, b"".join(one_varint(value & _64_BITS) for value in values))


def fixed(field: int, value: int) -> bytes:
    """A field of eight bytes of one message."""
    return key(field, _I64) + (value & _64_BITS).to_bytes(8, "little")


@dataclass(frozen=True, slots=True)
class Same:
    """A part that is the same in every message."""

    data: bytes

    def sizes(self, count: int) -> Ints:
        return np.full(count, len(self.data), dtype=np.int64)

    def put(self, into: Bytes, at: Ints) -> None:
        for place, byte in enumerate(self.data):
            into[at + place] = byte


class Varint:
    """A field with a non-negative number."""

    def __init__(self, field: int, values: Numbers) -> None:
        self._key = key(field, _VARINT)
        self._values = values.astype(np.uint64)
        self._length = varint_sizes(self._values)

    def sizes(self, count: int) -> Ints:
        return self._length + len(self._key)

    def put(self, into: Bytes, at: Ints) -> None:
        Same(self._key).put(into, at)
        put_varints(into, at + len(self._key), self._values, self._length)


@dataclass(frozen=True, slots=True)
class Fixed64:
    """A field of eight bytes: a double as its bits."""

    field: int
    values: NDArray[np.uint64] | NDArray[np.float64]

    def sizes(self, count: int) -> Ints:
        return np.full(count, len(key(self.field, _I64)) + 8, dtype=np.int64)

    def put(self, into: Bytes, at: Ints) -> None:
        head = key(self.field, _I64)
        Same(head).put(into, at)
        rows = self.values.view(np.uint8).reshape(-1, 8)
        for place in range(8):
            into[at + len(head) + place] = rows[:, place]


@dataclass(frozen=True, slots=True)
class Runs:
    """A repeated field of eight bytes: `count[i]` numbers from `first[i]` on, each with its key."""

    field: int
    first: Numbers
    count: Ints

    def sizes(self, count: int) -> Ints:
        return self.count * (len(key(self.field, _I64)) + 8)

    def put(self, into: Bytes, at: Ints) -> None:
        width = len(key(self.field, _I64)) + 8
        before = np.cumsum(self.count) - self.count
        within = np.arange(int(self.count.sum())) - np.repeat(before, self.count)
        values = (np.repeat(self.first, self.count) + within).astype("<u8")
        Fixed64(self.field, values).put(into, np.repeat(at, self.count) + within * width)


class Chosen:
    """A part whose bytes are, in each message, one of a few pieces."""

    def __init__(self, pieces: Sequence[bytes], which: Numbers) -> None:
        self._pool = np.frombuffer(b"".join(pieces), dtype=np.uint8)
        lengths = [len(piece) for piece in pieces]
        self._which = which
        self._length = np.array(lengths, dtype=np.int64)
        self._begin = np.array([0, *accumulate(lengths)][:-1], dtype=np.int64)

    def sizes(self, count: int) -> Ints:
        return self._length[self._which]

    def put(self, into: Bytes, at: Ints) -> None:
        length, begin = self.sizes(len(at)), self._begin[self._which]
        short, long = np.flatnonzero((length > 0) & (length < _WORD)), np.flatnonzero(length >= _WORD)
        for place in range(_WORD - 1):
            short = short[length[short] > place]
            into[at[short] + place] = self._pool[begin[short] + place]
        # The last word of a piece ends where it ends, over a part of the one before.
        words, pool = _words(into), _words(self._pool)
        last = length[long] - _WORD
        at, begin = at[long], begin[long]
        words[at + last] = pool[begin + last]
        for place in range(0, int(last.max(initial=0)), _WORD):
            rows = np.flatnonzero(last > place)
            words[at[rows] + place] = pool[begin[rows] + place]


class Some:
    """A part that only some messages have, with a value for each of these."""

    def __init__(self, rows: Ints, part: Part) -> None:
        self._rows, self._part = rows, part

    def sizes(self, count: int) -> Ints:
        sizes = np.zeros(count, dtype=np.int64)
        sizes[self._rows] = self._part.sizes(len(self._rows))
        return sizes

    def put(self, into: Bytes, at: Ints) -> None:
        self._part.put(into, at[self._rows])


class Message:
    """A field that is a message itself."""

    def __init__(self, field: int, parts: Sequence[Part], count: int) -> None:
        self._key = key(field, _LEN)
        self._parts = parts
        self._inner = [part.sizes(count) for part in parts]
        self._size: Ints = sum(self._inner, np.zeros(count, dtype=np.int64))
        self._prefix = varint_sizes(self._size.astype(np.uint64))

    def sizes(self, count: int) -> Ints:
        return self._size + self._prefix + len(self._key)

    def put(self, into: Bytes, at: Ints) -> None:
        Same(self._key).put(into, at)
        at = at + len(self._key)
        put_varints(into, at, self._size.astype(np.uint64), self._prefix)
        at = at + self._prefix
        for part, size in zip(self._parts, self._inner, strict=True):
            part.put(into, at)
            at = at + size


def _words(data: Bytes) -> Words:
    """The eight bytes from each place on."""
    words: Words = np.ndarray(max(len(data) - _WORD + 1, 0), dtype=np.uint64, buffer=data, strides=(1,))
    return words


def varint_sizes(values: Words) -> Ints:
    size = np.ones(len(values), dtype=np.int64)
    most = int(values.max(initial=0))
    bits = 7
    while bits < 64 and most >> bits:
        size += values >= np.uint64(1 << bits)
        bits += 7
    return size


def put_varints(into: Bytes, at: Ints, values: Words, length: Ints) -> None:
    longest = int(length.max(initial=0))
    least = int(length.min(initial=longest))
    for place in range(longest):
        byte = ((values >> np.uint64(7 * place)) & np.uint64(0x7F)).astype(np.uint8)
        more = np.where(length > place + 1, np.uint8(0x80), np.uint8(0))
        if place < least:
            into[at + place] = byte | more
        else:
            rows = np.flatnonzero(length > place)
            into[at[rows] + place] = (byte | more)[rows]

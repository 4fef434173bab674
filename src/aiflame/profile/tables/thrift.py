"""Thrift's compact protocol, in which Parquet writes its metadata, read into dicts of field numbers. Every length is compared with the
remaining bytes before memory is allocated for it."""

from __future__ import annotations

import struct
from typing import Any

_DEEPEST = 16
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_NUMBERS = (_I16, _I32, _I64)

Struct = dict[int, Any]


class NotThrift(ValueError):
    """The bytes end too early, or do not follow the protocol."""


class Reader:
    """Reads bytes; `at` is its position. `most_values` limits the total of numbers, texts and structures."""

    def __init__(self, data: bytes, most_values: int) -> None:
        self._data, self.at, self._left = data, 0, most_values

    def structure(self, depth: int = 0) -> Struct:
        if depth > _DEEPEST:
            raise NotThrift("nested too deep")
        fields: Struct = {}
        number = 0
        try:
            while (head := self._data[self.at]) & 15 != _STOP:
                self.at += 1
                number = number + (head >> 4) if head >> 4 else self._zigzag()
                kind = head & 15
                fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        except IndexError:
            raise NotThrift("ends too early") from None
        self.at += 1
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        """May raise IndexError where the data ends."""
        self._left -= 1
        if self._left < 0:
            raise NotThrift("too many values")
        if kind in _NUMBERS:
            byte = self._data[self.at]
            if byte >= 128:
                return self._zigzag()
            self.at += 1  # most numbers have one byte
            return byte >> 1 ^ -(byte & 1)
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.structure(depth + 1)
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15, depth) for _ in range(self._counted(count))]
        if kind in (_TRUE, _FALSE):
            return self._byte() == _TRUE  # in a list
        if kind == _BYTE:
            return self._byte()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == _MAP:
            count = self._counted(self._varint())
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4, depth), self._value(kinds & 15, depth)) for _ in range(count)]
        raise NotThrift(f"no type {kind}")

    def _counted(self, count: int) -> int:
        if count > len(self._data) - self.at:
            raise NotThrift("a list is longer than the data")
        return count

    def _bytes(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > len(self._data):
            raise NotThrift("ends too early")
        return self._data[begin : self.at]

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _varint(self) -> int:
        data, at = self._data, self.at
        value = shift = 0
        while shift < 64:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                self.at = at
                return value
            shift += 7
        raise NotThrift("a number of more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

"""Computes how much memory a Parquet file will take, from the headers of its pages, before Polars unpacks any.

A stranger's file of some kilobytes may have pages that unpack to gigabytes, a dictionary with one long text that millions of rows refer to,
columns in other files, or nested lists. Our own files have flat columns, all in the file itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from aiflame.profile.tables.thrift import NotThrift, Reader, Struct
from aiflame.values import dataclass

_MAGIC = b"PAR1"
_BYTE_ARRAY = 6
_REPEATED = 2
_DICTIONARY, _HEAD_OF = 2, {0: 5, 2: 7, 3: 8}
"""Kind of a page → the field of its header with the number of its values."""
_MOST_VALUES = 4 << 20
_HEAD_BYTES, _LARGEST_HEAD = 512, 1 << 20


class NotOurs(Exception):
    """Raised for a table that no version of aiflame has written; the text says why."""


@dataclass(frozen=True, slots=True)
class Sizes:
    rows: int
    unpacked: int
    """The bytes of all unpacked pages."""
    texts: int
    """At most the bytes of all texts if each row has its own copy; in a page, rows share them."""


@dataclass(frozen=True, slots=True)
class _Column:
    kind: int
    values: int
    begin: int
    end: int


def sizes(file: BinaryIO, size: int) -> Sizes:
    """The sizes of a file of `size` bytes. Raises NotOurs if it is not a Parquet file, or not one that aiflame writes."""
    try:
        footer = _footer(file, size)
        _refuse_nesting(footer)
        rows = unpacked = texts = 0
        for group in footer.get(4, []):
            rows += _number(group, 3)
            for column in (_column(one, size) for one in group[1]):
                pages = list(_pages(file, column))
                unpacked += sum(bytes_ for _, bytes_, _ in pages)
                if column.kind == _BYTE_ARRAY:
                    texts += _number(group, 3) * max((bytes_ for _, bytes_, _ in pages), default=0)
                if column.values != _number(group, 3) or sum(values for kind, _, values in pages if kind != _DICTIONARY) != column.values:
                    raise NotOurs("a column has more or fewer values than rows")
        if rows != _number(footer, 3):
            raise NotOurs("its parts have more or fewer rows than the whole")
    except (NotThrift, KeyError, TypeError, AttributeError, IndexError, struct.error, OSError, OverflowError) as error:
        raise NotOurs(f"it is no Parquet file: {error}") from None
    return Sizes(rows, unpacked, texts)


def _footer(file: BinaryIO, size: int) -> Struct:
    if size < 12:
        raise NotOurs("it is no Parquet file: too short")
    file.seek(size - 8)
    length, magic = struct.unpack("<I4s", file.read(8))
    if magic != _MAGIC or length > size - 12:
        raise NotOurs("it is no Parquet file: its end is missing")
    file.seek(size - 8 - length)
    return Reader(file.read(length), _MOST_VALUES).structure()


def _refuse_nesting(footer: Struct) -> None:
    root, *columns = footer[2]
    if root.get(5) != len(columns) or any(column.get(5) or column.get(3) == _REPEATED for column in columns):
        raise NotOurs("it has columns in columns")


def _column(chunk: Struct, size: int) -> _Column:
    if 1 in chunk:
        raise NotOurs("it has columns in another file")
    data = chunk[3]
    begin = _number(data, 11) if data.get(11) else _number(data, 9)
    end = begin + _number(data, 7)
    if end > size:
        raise NotOurs("a column goes beyond its end")
    return _Column(_number(data, 1), _number(data, 5), begin, end)


def _pages(file: BinaryIO, column: _Column) -> Iterator[tuple[int, int, int]]:
    """Kind, unpacked bytes and number of values of each page."""
    at = column.begin
    while at < column.end:
        head, length = _head(file, at, column.end)
        packed = _number(head, 3)
        values = head.get(_HEAD_OF.get(_number(head, 1), 0), {})
        yield _number(head, 1), _number(head, 2), _number(values, 1) if values else 0
        at += length + packed
        if at > column.end:
            raise NotOurs("a page goes beyond its column")


def _head(file: BinaryIO, at: int, end: int) -> tuple[Struct, int]:
    """Page headers are short unless they contain the smallest and the largest text."""
    room = _HEAD_BYTES
    while True:
        file.seek(at)
        reader = Reader(file.read(min(room, end - at)), _MOST_VALUES)
        try:
            return reader.structure(), reader.at
        except NotThrift:
            if room >= min(_LARGEST_HEAD, end - at):
                raise
            room *= 16


def _number(of: Struct, field: int) -> int:
    value = of[field]
    if type(value) is not int or value < 0:
        raise NotOurs("a number in it is none")
    return value

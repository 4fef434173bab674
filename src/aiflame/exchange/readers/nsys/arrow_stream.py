"""`nsys export -t arrow`: one file with an Arrow IPC stream for each table, one behind the other.

The name of a table is in the metadata of its stream's schema, as `table_name`.
https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.nsys.report import read_tables
from aiflame.exchange.readers.nsys.tables import guarded, with_columns
from aiflame.exchange.readers.nsys.trial import try_arrow
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.sqlite_pages import Kind
from aiflame.values import dataclass

_MOST = 1 << 30
_MOST_TABLES = 2000
_MOST_METADATA = 16 << 20
_MOST_KEYS = 1000
_MOST_ROWS = 50_000_000
"""Of all tables together: a compressed batch may have any number."""
_CONTINUATION = 0xFFFFFFFF
_SCHEMA, _RECORDS = 1, 3
"""Types of messages: the first one of a stream; rows of its table."""
_TABLE_NAME = b"table_name"
_U16, _I32, _U32, _I64 = (struct.Struct(f"<{code}") for code in "HiIq")


@dataclass(frozen=True, slots=True)
class _Message:
    begin: int
    end: int
    """with its body"""
    is_schema: bool
    metadata: dict[bytes, bytes]
    """of a schema"""
    rows: int = 0


class _Stream(NamedTuple):
    table: str
    data: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class StreamTables:
    tables: Mapping[str, tuple[str, ...]]
    _file: str
    _streams: Mapping[str, _Stream]

    @staticmethod
    def of(file: str, streams: Mapping[str, _Stream]) -> StreamTables:
        for stream in streams.values():
            try_arrow(f"{stream.table} in {file}", stream.data)
        columns = {name: tuple(_read(file, stream, None, most=0).columns) for name, stream in streams.items()}
        return StreamTables(columns, file, streams)

    def read(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        there = [name for name in columns if name in self.tables.get(table, ())]
        if not there:
            return pl.DataFrame(schema=dict(columns))
        return with_columns(_read(self._file, self._streams[table], there), columns)

    def read_many(self, tables: Mapping[str, Mapping[str, Kind]]) -> dict[str, pl.DataFrame]:
        return {name: self.read(name, columns) for name, columns in tables.items()}

    def count(self, table: str) -> int:
        return self._streams[table].rows


def is_one(head: bytes) -> bool:
    """It begins with a schema."""
    try:
        return _message(head, 0).is_schema
    except (struct.error, IndexError, ValueError):
        return False


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    making.format = "nsys Arrow"
    streams = {stream.table: stream for stream in _streams(source, source.whole(_MOST))}
    if "StringIds" not in streams:
        raise AiflameError(
            f"{source.path} is an Arrow file without the tables of nsys and their names: "
            "export the report with `nsys export -t sqlite` or `-t parquetdir`"
        )
    read_tables(StreamTables.of(str(source.path), streams), making, progress)


def _read(file: str, stream: _Stream, columns: list[str] | None, most: int | None = None) -> pl.DataFrame:
    return guarded(f"{stream.table} in {file}", lambda: pl.read_ipc_stream(stream.data, columns=columns, n_rows=most))


def _streams(source: Source, data: bytes) -> Iterator[_Stream]:
    name, begin, end, count = "", 0, 0, 0
    rows = before = 0
    for message in _messages(source, data):
        if message.is_schema:
            if name:
                yield _Stream(name, data[begin:end], rows - before)
            before = rows
            name, begin = message.metadata.get(_TABLE_NAME, b"").decode("utf-8", "replace"), message.begin
            count += 1
            if count > _MOST_TABLES:
                raise AiflameError(f"{source.path} has more than {_MOST_TABLES:,} tables")
        end = message.end
        rows += message.rows
        if rows > _MOST_ROWS:
            raise AiflameError(f"{source.path} has more than {_MOST_ROWS:,} rows: export the report as SQLite or Parquet")
    if name:
        yield _Stream(name, data[begin:end], rows - before)


def _messages(source: Source, data: bytes) -> Iterator[_Message]:
    at = 0
    while at + 4 <= len(data):
        try:
            message = _message(data, at)
        except (struct.error, IndexError, ValueError) as error:
            raise AiflameError(f"cannot read {source.path}: a message at byte {at:,} is damaged ({error})") from None
        if message.end > len(data):
            raise AiflameError(f"cannot read {source.path}: it is cut short")
        if message.end > message.begin + 8:  # a shorter one only ends a stream
            yield message
        at = message.end


def _message(data: bytes, begin: int) -> _Message:
    """The message at a place; its metadata is a flatbuffer."""
    at = begin
    (size,) = _U32.unpack_from(data, at)
    at += 4
    if size == _CONTINUATION:
        (size,) = _U32.unpack_from(data, at)
        at += 4
    if not size:
        return _Message(begin, at, is_schema=False, metadata={})
    if size > min(_MOST_METADATA, len(data) - at):
        raise ValueError(f"its description should have {size:,} bytes")
    buffer = data[at : at + size]
    root = _U32.unpack_from(buffer, 0)[0]
    kind, header, body = _field(buffer, root, 1), _field(buffer, root, 2), _field(buffer, root, 3)
    length = _I64.unpack_from(buffer, body)[0] if body else 0
    if length < 0 or not kind or not header:
        raise ValueError("its description lacks a part")
    is_schema = buffer[kind] == _SCHEMA
    described = _pointed(buffer, header)
    place = _field(buffer, described, 0) if buffer[kind] == _RECORDS else 0
    rows = max(_I64.unpack_from(buffer, place)[0], 0) if place else 0
    return _Message(begin, at + size + length, is_schema, _metadata(buffer, described) if is_schema else {}, rows)


def _metadata(buffer: bytes, schema: int) -> dict[bytes, bytes]:
    given = _field(buffer, schema, 2)
    if not given:
        return {}
    vector = _pointed(buffer, given)
    (count,) = _U32.unpack_from(buffer, vector)
    pairs = (_pointed(buffer, vector + 4 + 4 * number) for number in range(min(count, _MOST_KEYS)))
    return {_text(buffer, _field(buffer, pair, 0)): _text(buffer, _field(buffer, pair, 1)) for pair in pairs}


def _field(buffer: bytes, table: int, number: int) -> int:
    """The place of a field of a flatbuffer's table; 0: it has none."""
    vtable = table - _I32.unpack_from(buffer, table)[0]
    if vtable < 0 or 4 + 2 * number >= _U16.unpack_from(buffer, vtable)[0]:
        return 0
    offset: int = _U16.unpack_from(buffer, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _pointed(buffer: bytes, place: int) -> int:
    pointed: int = place + _U32.unpack_from(buffer, place)[0]
    return pointed


def _text(buffer: bytes, place: int) -> bytes:
    if not place:
        return b""
    begin = _pointed(buffer, place)
    (size,) = _U32.unpack_from(buffer, begin)
    return buffer[begin + 4 : begin + 4 + size]

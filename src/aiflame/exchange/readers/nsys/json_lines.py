"""`nsys export -t jsonlines` and `-t json`: an event a line, then texts and names of threads.

The lines become the tables of other exports.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.nsys import report
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.sqlite_file import INT
from aiflame.exchange.readers.sqlite_pages import Kind

_LONGEST_LINE, _BATCH, _MOST_ROWS = 256 << 20, 100_000, 50_000_000
_LARGEST = 1 << 63
_decode = json.JSONDecoder(strict=False).decode
_FIRST_LINE = re.compile(rb'\s*\{[^\n]*"(?:CudaEvent|TraceProcessEvent|NvtxEvent|Type)"\s*:')
_EVENTS = (b'"TraceProcessEvent"', b'"CudaEvent"', b'"NvtxEvent"')
_OF_CLASS = {1: "CUPTI_ACTIVITY_KIND_MEMCPY", 2: "CUPTI_ACTIVITY_KIND_MEMSET", 3: "CUPTI_ACTIVITY_KIND_KERNEL",
             5: "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"}  # fmt: skip
_PARTS = ("memcpy", "memset", "kernel", "sync")
_RENAMED = {
    "startNs": "start", "endNs": "end", "sizebytes": "bytes", "Timestamp": "start", "EndTimestamp": "end", "GlobalTid": "globalTid",
    "DomainId": "domainId", "TextId": "textId", "Text": "text", "Category": "category", "Color": "color",
}  # fmt: skip


def is_one(head: bytes) -> bool:
    return bool(_FIRST_LINE.match(head)) and any(name in head for name in _EVENTS)


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    tables = LineTables()
    for lines, share in _lines(source):
        for line in lines:
            tables.add(line)
        progress(0.4 * share)
    if tables.damaged:
        making.note(f"{tables.damaged:,} lines of the report are no JSON: they are left out")
    for name, count in tables.others.items():
        making.unused[f"events of kind {name[:40]}"] += count
    report.read_tables(tables, making, progress)


def _lines(source: Source) -> Iterator[tuple[list[bytes], float]]:
    kept = b""
    share = 0.0
    for block, share in source.blocks():
        *lines, kept = (kept + block).split(b"\n")
        if len(kept) > _LONGEST_LINE:
            raise AiflameError(f"{source.path} has a line of more than {_LONGEST_LINE >> 20} MB")
        yield lines, share
    yield [kept], share


class LineTables:
    """The tables of a report, as the other exports have them."""

    def __init__(self) -> None:
        self.damaged = 0
        self.others: Counter[str] = Counter()
        self._rows: dict[str, list[list[Any]]] = {}
        self._parts: dict[str, list[pl.DataFrame]] = {}
        self._count = 0

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        return {name: tuple(_columns(name)) for name in self._rows}

    def add(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            record = _decode(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            self.damaged += 1
        elif isinstance(call := record.get("TraceProcessEvent"), dict):
            self._add("CUPTI_ACTIVITY_KIND_RUNTIME", {**call, "nameId": call.get("name")})
        elif isinstance(work := record.get("CudaEvent"), dict):
            self._add_work(work)
        elif isinstance(marked := record.get("NvtxEvent"), dict):
            self._add("NVTX_EVENTS", {**marked, "eventType": record.get("Type")})
        elif isinstance(record.get("data"), list):
            for number, text in enumerate(record["data"]):
                self._add("StringIds", {"id": number, "value": text})
        elif record.get("type") == "String":
            self._add("StringIds", record)
        elif record.get("type") == "ThreadName":
            self._add("ThreadNames", record)
        else:
            self.others[next((name for name, value in record.items() if isinstance(value, dict)), "other")] += 1

    def _add_work(self, work: dict[str, Any]) -> None:
        table = _OF_CLASS.get(_whole(work.get("eventClass")) or 0)
        parts = [work[name] for name in _PARTS if isinstance(work.get(name), dict)]
        if table is None:
            self.others["CudaEvent"] += 1
        else:
            self._add(table, {**work, **(parts[0] if parts else {})})

    def _add(self, table: str, record: dict[str, Any]) -> None:
        places = _places(table)
        row: list[Any] = [None] * len(_columns(table))
        for name, value in record.items():
            if name in places:
                place, is_number = places[name]
                row[place] = _whole(value) if is_number else value if isinstance(value, str) else None
        self._count += 1
        if self._count > _MOST_ROWS:
            raise AiflameError(f"the report has more than {_MOST_ROWS:,} rows: export it as SQLite or Parquet")
        rows = self._rows.setdefault(table, [])
        rows.append(row)
        if len(rows) == _BATCH:
            self._flush(table)

    def _flush(self, table: str) -> list[pl.DataFrame]:
        parts = self._parts.setdefault(table, [])
        if rows := self._rows.get(table):
            parts.append(pl.DataFrame(rows, schema=_columns(table), orient="row"))
            self._rows[table] = []
        return parts

    def read(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        parts = self._flush(table) if table in self._rows else []
        if not parts:
            return pl.DataFrame(schema=dict(columns))
        own = _columns(table)
        return pl.concat(parts).select(
            (pl.col(name) if name in own else pl.lit(None)).cast(kind, strict=False).alias(name) for name, kind in columns.items()
        )

    def read_many(self, tables: Mapping[str, Mapping[str, Kind]]) -> dict[str, pl.DataFrame]:
        return {name: self.read(name, columns) for name, columns in tables.items()}

    def count(self, table: str) -> int:
        return sum(map(len, self._flush(table))) if table in self._rows else 0


@functools.cache
def _columns(table: str) -> dict[str, Kind]:
    return dict(report.READ.get(table, {"globalTid": INT, "nameId": INT}))


@functools.cache
def _places(table: str) -> dict[str, tuple[int, bool]]:
    """For each name in JSON the column, and whether it has numbers."""
    columns = _columns(table)
    places = {name: (place, kind == INT) for place, (name, kind) in enumerate(columns.items())}
    return {**places, **{name: places[own] for name, own in _RENAMED.items() if own in places}}


def _whole(value: object) -> int | None:
    """Numbers of 64 bits are texts in JSON."""
    if type(value) is str and len(value) < 21 and value.removeprefix("-").isdecimal():
        value = int(value)
    return value if type(value) is int and -_LARGEST <= value < _LARGEST else None

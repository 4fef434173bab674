"""Columns of an SQLite table, read from the pages of its file: many times as fast as SQLite hands them out one by one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.exchange.readers.trace_reader import ArrowArray, ArrowCapsules, ArrowSchema, WantedColumn, library

Kind = pl.Int64 | pl.Float64 | pl.String

_NONE = int(np.iinfo(np.int64).min)
_ROW_NUMBER = -1
_MOST_ROWS = 1 << 31
_MOST_TEXT_BYTES = 1 << 30
"""Of different texts."""
_VALUES = (pl.Int64, pl.Float64, pl.String)


def columns(path: str, connection: sqlite3.Connection, table: str, wanted: Mapping[str, Kind]) -> pl.DataFrame | None:
    """The columns, sorted by row number. Returns None for a table that SQLite itself has to read."""
    quoted = '"' + table.replace('"', '""') + '"'
    places = _places(connection, quoted)
    roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchall()
    if len(roots) != 1 or not 0 < roots[0][0] < 1 << 32 or any(name not in places for name in wanted):
        return None
    rows = int(connection.execute(f"SELECT count(*) FROM {quoted} NOT INDEXED").fetchone()[0])
    if rows > _MOST_ROWS:
        return None
    arrays = {name: np.empty(rows, dtype=np.int64) for name in wanted}
    native = (WantedColumn * len(wanted))(
        *(WantedColumn(places[name], _VALUES.index(type(kind)), 0, 0, arrays[name].ctypes.data) for name, kind in wanted.items())
    )
    schema, array = ArrowSchema(), ArrowArray()
    seed = int.from_bytes(os.urandom(8), "little")
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        is_plain = library().aiflame_sqlite_columns(file, roots[0][0], native, len(wanted), rows, _MOST_TEXT_BYTES, seed, schema, array)
    finally:
        os.close(file)
    if not is_plain:
        return None
    texts = pl.Series("texts", ArrowCapsules(schema, array))
    return _framed(wanted, arrays, {name: one.first for name, one in zip(wanted, native, strict=True) if rows and not one.varies}, texts)


def _framed(wanted: Mapping[str, Kind], arrays: Mapping[str, np.ndarray], constant: Mapping[str, int], texts: pl.Series) -> pl.DataFrame:
    """A column with the same value in all rows stays one value: Polars computes with it once."""
    rows = len(next(iter(arrays.values())))
    ones = {name: _series(name, np.array([value], dtype=np.int64), wanted[name], texts)[0] for name, value in constant.items()}
    varied = [_series(name, arrays[name], kind, texts) for name, kind in wanted.items() if name not in constant]
    if not varied:
        name = next(iter(ones))
        varied = [pl.Series(name, [ones.pop(name)], dtype=wanted[name]).new_from_index(0, rows)]
    return pl.DataFrame(varied).with_columns(pl.lit(of, dtype=wanted[name]).alias(name) for name, of in ones.items()).select(list(wanted))


def _series(name: str, values: np.ndarray, kind: Kind, texts: pl.Series) -> pl.Series:
    if isinstance(kind, pl.String):
        return texts.gather(values).alias(name)
    series = pl.Series(name, values.view(np.float64) if isinstance(kind, pl.Float64) else values)
    none = series.is_infinite() if isinstance(kind, pl.Float64) else series == _NONE
    return series.set(none, None) if none.any() else series


def _places(connection: sqlite3.Connection, table: str) -> dict[str, int]:
    """The place of each column in the records of the table; empty where it has generated columns."""
    rows = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
    if any(row[6] for row in rows):
        return {}
    keys = [row for row in rows if row[5]]
    places = {_text(row[1]): int(row[0]) for row in rows}
    if len(keys) == 1 and _text(keys[0][2]).upper() == "INTEGER":
        places[_text(keys[0][1])] = _ROW_NUMBER
    return places


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

"""Whole numbers of an SQLite table, read from the pages of its file: many times as fast as SQLite hands them out one by one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from aiflame.exchange.readers.trace_reader import WantedNumbers, library

NONE = int(np.iinfo(np.int64).min)
_ROW_NUMBER = -1
_MOST_ROWS = 1 << 31


def numbers(path: str, connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> Mapping[str, NDArray[np.int64]] | None:
    """The columns, with NONE for NULL, sorted by row number. A column with the same number in all rows takes no memory (`is_constant`).
    Returns None for a table that SQLite itself has to read."""
    quoted = '"' + table.replace('"', '""') + '"'
    places = _places(connection, quoted)
    roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchall()
    if len(roots) != 1 or not 0 < roots[0][0] < 1 << 32 or any(name not in places for name in columns):
        return None
    rows = int(connection.execute(f"SELECT count(*) FROM {quoted} NOT INDEXED").fetchone()[0])
    if rows > _MOST_ROWS:
        return None
    values = {name: np.empty(rows, dtype=np.int64) for name in columns}
    wanted = (WantedNumbers * len(columns))(*(WantedNumbers(places[name], 0, 0, values[name].ctypes.data) for name in columns))
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        is_plain = library().aiflame_sqlite_numbers(file, roots[0][0], wanted, len(columns), rows)
    finally:
        os.close(file)
    if not is_plain:
        return None
    return {
        name: values[name] if one.varies or not rows else np.broadcast_to(np.int64(one.first), rows)
        for name, one in zip(columns, wanted, strict=True)
    }


def is_constant(values: NDArray[np.int64]) -> bool:
    return len(values) > 0 and values.strides == (0,)


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

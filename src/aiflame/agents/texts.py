"""Values of tables and trees for an answer: texts are quoted, numbers are short."""

from __future__ import annotations

import datetime

import polars as pl

from aiflame.agents.answer import Row, Value, quoted

_MOST_VALUES = 20
"""The most values of a list in one cell."""


def text_rows(rows: pl.DataFrame) -> list[Row]:
    return [{quoted(name, 60): value_of(value) for name, value in row.items()} for row in rows.iter_rows(named=True)]


def value_of(value: object) -> Value:
    """The value of a table's cell."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(f"{value:.6g}") if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list | tuple | pl.Series):
        return [value_of(one) for one in list(value)[:_MOST_VALUES]]
    if isinstance(value, dict):
        return {quoted(name, 60): value_of(one) for name, one in list(value.items())[:_MOST_VALUES]}
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return quoted(value.isoformat() if isinstance(value, datetime.date | datetime.time) else value)


def percent(share: float) -> str:
    return f"{share:.1%}"

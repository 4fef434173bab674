"""Sorts rows that are mostly sorted already: a sorted copy of millions of rows would take as much memory again."""

from __future__ import annotations

from functools import reduce

import polars as pl


def in_order(rows: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """The rows sorted by columns of numbers without nulls; equal rows keep their order."""
    if len(rows) < 2:
        return rows
    pairs = [(pl.col(name).shift(1), pl.col(name)) for name in reversed(columns)]
    comes_later = reduce(lambda later, pair: (pair[0] < pair[1]) | ((pair[0] == pair[1]) & later), pairs, pl.lit(True))
    if rows.select(columns).select(comes_later.all()).item():  # the first row has no predecessor and is null: it does not count
        return rows
    return rows.sort(columns, maintain_order=True)

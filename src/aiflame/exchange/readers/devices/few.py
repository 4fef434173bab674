"""Tables of few rows, each met by millions of rows of another: which there are, and a join with them.

Columns that have one value in all rows need no comparing, and several columns of whole numbers compare as one.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

_KEY = "all of the key"
_MOST_KEYS = 1 << 62


def distinct(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The distinct rows of these columns of whole numbers, in the order in which they are first met."""
    rows = rows[list(key)]
    if rows.is_empty():
        return rows
    varied = [name for name in key if rows[name].min() != rows[name].max()]
    if not varied:
        return rows.head(1)
    as_one = _as_one(rows, varied)
    if as_one is None:
        return rows.unique(varied, keep="first", maintain_order=True)
    return rows.with_columns(as_one).unique(_KEY, keep="first", maintain_order=True).drop(_KEY)


def with_few(rows: pl.DataFrame, few: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
    """`rows` with the other columns of `few`, which has all that they have in the columns `on`, whole numbers."""
    if rows.is_empty() and not few.is_empty():
        return rows.with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in few.schema.items() if name not in on)
    if few.is_empty():
        return rows.join(few, on=list(on), how="left", maintain_order="left")
    varied = [name for name in on if few[name].min() != few[name].max()]
    added = [name for name in few.columns if name not in on]
    if not varied:
        return rows.with_columns(pl.lit(few[name][0], dtype=few.schema[name]).alias(name) for name in added)
    as_one = _as_one(few, varied) if len(varied) > 1 else None
    if as_one is None:
        return rows.join(few.select(*varied, *added), on=varied, how="left", maintain_order="left")
    few = few.select(as_one, *added)
    return rows.with_columns(as_one).join(few, on=_KEY, how="left", maintain_order="left").drop(_KEY)


def _as_one(rows: pl.DataFrame, names: Sequence[str]) -> pl.Expr | None:
    """A number for each combination of values between the smallest and the largest of each column; None: too many combinations."""
    key, size = pl.lit(0, dtype=pl.Int64), 1
    for name in names:
        low, high = int(rows[name].min()), int(rows[name].max())  # type: ignore[arg-type]
        if size * (high - low + 1) > _MOST_KEYS:
            return None
        key = key + (pl.col(name) - low) * size
        size *= high - low + 1
    return key.alias(_KEY)

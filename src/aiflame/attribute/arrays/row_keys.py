"""Combines several columns of whole numbers into one key per row: hashing, sorting and grouping millions of rows is much faster by one
column than by several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints

_BITS = 62


def packed(columns: Sequence[NDArray[np.integer] | NDArray[np.bool_]], size: int) -> Ints:
    """A number for each of `size` rows: equal for rows that are equal in all columns, and ordered by the first column, then the second …"""
    keys, bits = np.zeros(size, dtype=np.int64), 0
    for column in columns:
        values, width = _from_zero(column.astype(np.int64))
        if bits + width > _BITS:
            (keys, bits), (values, width) = _dense(keys), _dense(values)
        keys = keys << width | values
        bits += width
    return keys


def in_order(key: Ints) -> Ints:
    """Rows in the order of their keys, which count from 0; rows with equal keys keep their order. A key and its row are packed into one
    number, since sorting these is several times faster."""
    bits = max(len(key) - 1, 0).bit_length()
    if int(key.max(initial=0)).bit_length() + bits > _BITS + 1:
        return np.argsort(key, kind="stable")
    rows: Ints = np.sort(key << bits | np.arange(len(key))) & ((1 << bits) - 1)
    return rows


def ordered(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The rows sorted by columns of whole numbers; equal rows keep their order."""
    key = _key(rows, by)
    return rows if (key[1:] >= key[:-1]).all() else rows[in_order(key)]


def summed(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Merges rows that are equal in the columns `by`, in their order; all other columns are summed."""
    key = _key(rows, by)
    order = in_order(key)
    first = firsts(key[order])
    sums = {name: np.add.reduceat(rows[name].to_numpy()[order], first) for name in rows.columns if name not in by and len(first)}
    return rows[order[first]].with_columns(pl.Series(name, values) for name, values in sums.items())


def firsts(key: Ints) -> Ints:
    """The places in sorted keys at which a key differs from the one before."""
    return np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])


def by_time(group: NDArray[np.integer], start: Ints, end: Ints) -> NDArray[np.int32] | None:
    """The order by group, start and end; None if the rows are in that order already."""
    same = group[1:] == group[:-1]
    later = (start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] >= end[:-1]))
    if ((group[1:] > group[:-1]) | (same & later)).all():
        return None
    return np.lexsort((end, start, group)).astype(np.int32)


def _key(rows: pl.DataFrame, by: Sequence[str]) -> Ints:
    return packed([rows[name].to_numpy() for name in by], len(rows))


def _from_zero(values: Ints) -> tuple[Ints, int]:
    """The values minus their minimum, and the number of bits that they need."""
    if not len(values):
        return values, 0
    least, most = int(values.min()), int(values.max())
    return (values if least == 0 else values - least), (most - least).bit_length()


def _dense(values: Ints) -> tuple[Ints, int]:
    """The rank of each value among the distinct ones, which needs no more bits than the number of rows."""
    distinct = nodes.distinct(values)
    return np.searchsorted(distinct, values), max(len(distinct) - 1, 0).bit_length()

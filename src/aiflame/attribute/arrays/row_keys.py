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
    """A number for each of `size` rows, equal where all columns are, and in the order of the first column, then the second …"""
    keys, bits = np.zeros(size, dtype=np.int64), 0
    for column in columns:
        values, width = _from_zero(column.astype(np.int64))
        if bits + width > _BITS:
            (keys, bits), (values, width) = _dense(keys), _dense(values)
        keys = keys << width | values
        bits += width
    return keys


def in_order(key: Ints) -> Ints:
    """Rows in the order of their numbers, which count from 0; equal numbers keep their order. Pairs of a number and its row, packed into
    one number, are sorted several times as quickly as rows by their numbers."""
    bits = max(len(key) - 1, 0).bit_length()
    if int(key.max(initial=0)).bit_length() + bits > _BITS + 1:
        return np.argsort(key, kind="stable")
    rows: Ints = np.sort(key << bits | np.arange(len(key))) & ((1 << bits) - 1)
    return rows


def ordered(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The rows by columns of whole numbers, those that are equal there in their own order."""
    key = _key(rows, by)
    return rows if (key[1:] >= key[:-1]).all() else rows[in_order(key)]


def summed(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Rows that are equal in these columns as one, in their order: of all other columns the sums."""
    key = _key(rows, by)
    order = in_order(key)
    first = firsts(key[order])
    sums = {name: np.add.reduceat(rows[name].to_numpy()[order], first) for name in rows.columns if name not in by and len(first)}
    return rows[order[first]].with_columns(pl.Series(name, values) for name, values in sums.items())


def firsts(key: Ints) -> Ints:
    """The places in sorted numbers at which a number differs from the one before."""
    return np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])


def by_time(group: NDArray[np.integer], start: Ints, end: Ints) -> NDArray[np.int32] | None:
    """The order by group, start and end; None if the rows are in it already."""
    same = group[1:] == group[:-1]
    later = (start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] >= end[:-1]))
    if ((group[1:] > group[:-1]) | (same & later)).all():
        return None
    return np.lexsort((end, start, group)).astype(np.int32)


def _key(rows: pl.DataFrame, by: Sequence[str]) -> Ints:
    return packed([rows[name].to_numpy() for name in by], len(rows))


def _from_zero(values: Ints) -> tuple[Ints, int]:
    """Values less their minimum, and the bits that they take."""
    if not len(values):
        return values, 0
    least, most = int(values.min()), int(values.max())
    return (values if least == 0 else values - least), (most - least).bit_length()


def _dense(values: Ints) -> tuple[Ints, int]:
    """Each value's place among the distinct ones: no more bits than rows need."""
    distinct = nodes.distinct(values)
    return np.searchsorted(distinct, values), max(len(distinct) - 1, 0).bit_length()

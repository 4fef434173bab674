"""Finds the calls that launched work, by process and correlation id. There are millions, and tools count ids on from 1: a table with a
place for each id needs less time and memory than sorting or joining. Ids that lie far apart are sorted."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Mask, Whole

_MOST_IDS = 1 << 32
_PLACES = 4
"""A table has at most so many places for each key, and a million."""
_FEW = 1 << 20


def keys(*tables: pl.DataFrame) -> tuple[Whole, ...]:
    """For each table a number for the process and correlation id of each of its rows, equal where both are; -1 for an id of -1."""
    ids = [rows["correlation"].to_numpy() for rows in tables]
    if any(len(of) and of.max() >= _MOST_IDS for of in ids):
        distinct = np.unique(np.concatenate(ids))
        ids = [np.searchsorted(distinct, of) for of in ids]
    bits = max((int(of.max()).bit_length() for of in ids if len(of)), default=0)
    return tuple(rows["process"].to_numpy().astype(np.int64) << bits | of for rows, of in zip(tables, ids, strict=True))


def is_in(own: Whole, wanted: Whole) -> Mask:
    """Which of these keys are wanted."""
    if not len(wanted) or not len(own):
        return np.zeros(len(own), dtype=np.bool_)
    first, size = _range(wanted)
    if size > _most(len(own) + len(wanted)):
        ordered = np.sort(wanted)
        place = np.searchsorted(ordered, own)
        there: Mask = np.append(ordered, ordered[-1])[place] == own
        return there
    # The last place stays empty, and is that of all keys outside of the range.
    table = np.zeros(size + 1, dtype=np.bool_)
    table[wanted - first] = True
    is_wanted: Mask = table[_places(own, first, size)]
    return is_wanted


def first_of_each(own: Whole, wanted: Whole) -> Whole:
    """The first row with each key that is wanted, in the order of rows."""
    rows = np.flatnonzero(is_in(own, wanted) & (own >= 0))
    if not len(rows):
        return rows
    kept = own[rows]
    first, size = _range(kept)
    if size > _most(len(rows)):
        _, begins = np.unique(kept, return_index=True)
        return rows[np.sort(begins)]
    # Of several rows with a place, the last that is written stays: rows are written from the last to the first.
    table = np.empty(size, dtype=np.int64)
    table[kept[::-1] - first] = rows[::-1]
    firsts: Whole = rows[table[kept - first] == rows]
    return firsts


def _range(values: Whole) -> tuple[int, int]:
    """The smallest value, and how many whole numbers lie between it and the largest."""
    first = int(values.min())
    return first, int(values.max()) - first + 1


def _most(count: int) -> int:
    return _PLACES * count + _FEW


def _places(own: Whole, first: int, size: int) -> Whole:
    """The place of each key in a table for `size` keys from `first` on."""
    inside = (own >= first) & (own < first + size)
    places: Whole = np.where(inside, own - first, size)
    return places

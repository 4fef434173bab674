"""Finds the calls that launched work, by process and correlation id. There are millions: sorting numbers needs less memory than joining."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Mask, Whole

_MOST_IDS = 1 << 32


def keys(*tables: pl.DataFrame) -> tuple[Whole, ...]:
    """For each table a number for the process and correlation id of each of its rows, equal where both are; -1 for an id of -1."""
    ids = [rows["correlation"].to_numpy() for rows in tables]
    if any(len(of) and of.max() >= _MOST_IDS for of in ids):
        distinct = np.unique(np.concatenate(ids))
        ids = [np.searchsorted(distinct, of) for of in ids]
    return tuple(rows["process"].to_numpy().astype(np.int64) << 32 | of for rows, of in zip(tables, ids, strict=True))


def is_in(own: Whole, wanted: Whole) -> Mask:
    """Which of these keys are wanted."""
    ordered = np.sort(wanted)
    place = np.searchsorted(ordered, own)
    there: Mask = np.append(ordered, -2)[place] == own
    return there


def first_of_each(own: Whole, wanted: Whole) -> Whole:
    """The first row with each key that is wanted, in the order of rows."""
    rows = np.flatnonzero(is_in(own, wanted) & (own >= 0))
    _, first = np.unique(own[rows], return_index=True)
    return rows[np.sort(first)]

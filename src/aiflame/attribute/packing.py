"""Rows told apart by several columns of whole numbers, by one number each: hashing one column of millions is much cheaper than several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute import nodes

Ints = NDArray[np.int64]
_BITS = 62


def packed(columns: Sequence[NDArray[np.integer] | NDArray[np.bool_]], size: int) -> Ints:
    """A number for each of `size` rows, equal where all columns are."""
    found, bits = np.zeros(size, dtype=np.int64), 0
    for column in columns:
        values, width = _from_zero(column.astype(np.int64))
        if bits + width > _BITS:
            (found, bits), (values, width) = _dense(found), _dense(values)
        found = found << width | values
        bits += width
    return found


def _from_zero(values: Ints) -> tuple[Ints, int]:
    """Values less their minimum, and the bits that they take."""
    if not len(values):
        return values, 0
    least, most = int(values.min()), int(values.max())
    return (values if least == 0 else values - least), (most - least).bit_length()


def _dense(values: Ints) -> tuple[Ints, int]:
    """Each value's place among the distinct ones: no more bits than rows need."""
    known = nodes.distinct(values)
    return np.searchsorted(known, values), max(len(known) - 1, 0).bit_length()

"""Intervals of time that may overlap: their time before a moment, and their union."""

from __future__ import annotations

import numpy as np

from aiflame.attribute.arrays.types import Ints


def sum_until(moments: Ints, start: Ints, end: Ints) -> Ints:
    """For each moment, the time of all intervals before it; overlapping intervals each count."""
    begun, ended = np.sort(start), np.sort(end)
    before, after = np.searchsorted(begun, moments), np.searchsorted(ended, moments)
    # Sums may wrap at 2^64; their differences are correct.
    sums, ends = np.concatenate([[0], np.cumsum(begun)]), np.concatenate([[0], np.cumsum(ended)])
    total: Ints = (before * moments - sums[before]) - (after * moments - ends[after])
    return total


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The union of the intervals."""
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.concatenate([[True], start[1:] > reached[:-1]]))
    last = np.concatenate([first[1:] - 1, [len(start) - 1]])
    return start[first], reached[last]

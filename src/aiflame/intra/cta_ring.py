"""Unrolls a ring that the CTAs of a launch shared: gives the memory of the CTAs that were not overwritten, one after the other.

CTA n has written at n · its size, in a range of addresses that map to one piece of memory again and again (`device_ring`): its records are
at that offset modulo the size of the piece, and may wrap at its end. Later CTAs have overwritten earlier ones, completely or in part.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .decode import MAGIC, Bools, Ints

_BEGIN, _END = 4, 8
"""Words of a CTA's memory: globaltimer when it began, and when all was written."""


def straight(data: NDArray[np.uint8], scratch_bytes: int, ctas: int) -> NDArray[np.uint8]:
    """The memory of those of `ctas` that were not overwritten, ordered by number."""
    words, each = data.view("<u4"), scratch_bytes // 4
    if len(words) < each:
        return data[:0]
    # CTAs begin at multiples of the common divisor of their size and the ring's: at least 128 bytes in Triton's layout.
    step = gcd(len(words), each)
    at = np.flatnonzero(words[::step] == MAGIC) * step
    number = words[(at + 1) % len(words)].astype(np.int64)
    fits = (number < ctas) & (number * each % len(words) == at)
    at, number = at[fits], number[fits]
    whole = np.concatenate([words, words[:each]])
    time = np.stack([whole[(at[:, None] + word + np.arange(2))].view("<u8")[:, 0] for word in (_BEGIN, _END)], axis=1)
    left = np.flatnonzero(~_overwritten(at, number, time, each, len(words)))
    left = left[np.argsort(number[left])]
    # Rows are copied, not an index for each word.
    rows: NDArray[np.uint32] = np.lib.stride_tricks.sliding_window_view(whole, each)[at[left]]
    return rows.reshape(-1).view(np.uint8)


def _overwritten(at: Ints, number: Ints, time: NDArray[np.uint64], each: int, size: int) -> Bools:
    """True for the CTAs that were overwritten. Of two at one place the later one remains, unless the earlier was still running when it
    began: then neither remains.

    `at` is sorted."""
    gone = np.zeros(len(at), dtype=np.bool_)
    near = (np.roll(at, -1) - at) % size < each
    some = np.flatnonzero(near | np.roll(near, 1))
    at, number, begin, end = at[some], number[some], time[some, 0], time[some, 1]
    around = np.concatenate([at - size, at, at + size])
    own = np.arange(len(at), 2 * len(at))
    first, behind = np.searchsorted(around, at - each, side="right"), np.searchsorted(around, at + each)
    later = _highest(np.tile(number, 3), first, behind) > number
    ends = np.tile(end, 3)
    # If no other CTA is later, all others are earlier.
    others = np.maximum(_highest(ends, first, own), _highest(ends, own + 1, behind))
    gone[some] = later | (others > begin)
    return gone


def _highest(values: NDArray[Any], begin: Ints, end: Ints) -> NDArray[Any]:
    """The maximum of each range of values, 0 for an empty one. Each range is covered by two overlapping spans of 1, 2, 4 … values."""
    highest = np.zeros(len(begin), values.dtype)
    span = 1
    while (large_enough := end - begin >= span).any():
        here = large_enough & (end - begin < 2 * span)
        highest[here] = np.maximum(values[begin[here]], values[end[here] - span])
        values = np.maximum(values[:-span], values[span:])
        span *= 2
    return highest

"""Memory that the CTAs of a launch went round in → the memory of those that are left, as if there had been room for them alone.

CTA n has written at n · its bytes, in a range of addresses that lead to one piece of memory again and again (`device_ring`): what it left
lies there modulo the piece's size, maybe across its end. The last to come have overwritten those before them, in whole or in part.
"""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

from .decode import MAGIC, Bools, Ints

_BEGIN, _END = 4, 8
"""Words of a CTA's memory: globaltimer when it began, and when all was written."""


def straight(data: NDArray[np.uint8], scratch_bytes: int, ctas: int) -> NDArray[np.uint8]:
    """Of `ctas` that ran, those that nobody has overwritten, by number."""
    words, each = data.view("<u4"), scratch_bytes // 4
    if len(words) < each:
        return data[:0]
    # They begin at multiples of what their size and the memory's have in common: 128 bytes at least, as Triton lays them out.
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
    """Of two at one place the later has overwritten the earlier; where the earlier was not done when the later began, both are spoiled.
    `at` rises."""
    gone = np.zeros(len(at), dtype=np.bool_)
    for apart in range(1, len(at)):
        near = (np.roll(at, -apart) - at) % size < each
        if not near.any():
            break
        one = np.flatnonzero(near)
        other = (one + apart) % len(at)
        earlier, later = np.where(number[one] < number[other], [one, other], [other, one])
        gone[earlier] = True
        gone[later[time[earlier, 1] > time[later, 0]]] = True
    return gone

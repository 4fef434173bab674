"""Computes how long kernels ran in each sampling window."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.time_bins import Sums
from aiflame.attribute.arrays.types import Ints

Times = NDArray[np.uint64] | NDArray[np.int64]

MOST_LANES = 64
"""Windows of a device overlap where several contexts use it; more at one moment come from a damaged profile."""
PIECE = 4 << 20
LATEST = 1 << 62
"""Later times are impossible: see `profile.spool.process_spool`."""


def overlaps(site: Ints, start: Times, end: Times, begin: Times, until: Times) -> pl.DataFrame:
    """site, window, overlap (ns, above 0): for each site the time that its kernels (`site`, `start`, `end`) ran in each of the windows
    from `begin` to `until`."""
    start, end, begin, until = (np.minimum(times, LATEST).astype(np.int64) for times in (start, end, begin, until))
    windows = max(len(begin), 1)
    sums = Sums((int(site.max(initial=0)) + 1) * windows, len(site))
    for lane in lanes(begin, until):
        opens, closes = begin[lane], until[lane]
        first = np.searchsorted(closes, start, side="right")
        count = np.maximum(np.searchsorted(opens, end, side="left") - first, 0)
        upto = np.concatenate([[0], np.cumsum(count)])
        cuts = np.unique(np.searchsorted(upto, np.arange(0, int(upto[-1]) + PIECE, PIECE)).clip(max=len(count)))
        for low, high in pairwise(cuts.tolist()):
            kernel = np.repeat(np.arange(low, high), count[low:high])
            window = first[kernel] + np.arange(len(kernel)) - (upto[kernel] - upto[low])
            shared = np.minimum(end[kernel], closes[window]) - np.maximum(start[kernel], opens[window])
            there = np.flatnonzero(shared > 0)
            sums.add(site[kernel[there]] * windows + lane[window[there]], shared[there])
    key, overlap = sums.found()
    return pl.DataFrame({"site": key // windows, "window": key % windows, "overlap": overlap})


def lanes(begin: Ints, until: Ints) -> list[Ints]:
    """The windows in groups within which they do not overlap; each group in the order of time."""
    lanes: list[list[int]] = []
    free: list[tuple[int, int]] = []  # the end of a lane's last window, and the lane
    for window in np.argsort(begin, kind="stable").tolist():
        opens, closes = int(begin[window]), int(until[window])
        if closes <= opens:
            continue
        if free and free[0][0] <= opens:
            lane = heapq.heappop(free)[1]
        elif len(lanes) < MOST_LANES:
            lane = len(lanes)
            lanes.append([])
        else:
            continue
        lanes[lane].append(window)
        heapq.heappush(free, (closes, lane))
    return [np.array(lane, dtype=np.int64) for lane in lanes]

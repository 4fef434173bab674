"""The layout of slices on tracks: consecutive paths become nested spans; slices that overlap without nesting get separate tracks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.values import dataclass

PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Level:
    """A level of all items' paths."""

    kind: int
    """kind of its slices"""
    value: NDArray[np.integer]
    """its value for each item; negative: the item's path has no value here, and the next level takes its place"""


def path_spans(track: Ints, begin: Ints, end: Ints, levels: Iterable[Level]) -> tuple[pl.DataFrame, NDArray[np.uint16]]:
    """Spans around items that do not overlap, are sorted by track and begin, and have a path each. Neighbours with the same beginning of
    their paths share a span, from the begin of the first to the end of the last (track, begin_ns, end_ns, depth, kind, value). Also returns
    the depth of each item."""
    depth = np.zeros(len(track), dtype=np.uint16)
    changes = np.append(True, track[1:] != track[:-1])[: len(track)]
    spans = []
    for level in levels:
        value = level.value
        changes[1:] |= value[1:] != value[:-1]
        first = np.flatnonzero(changes)
        last = np.append(first[1:], len(track))[: len(first)] - 1
        there = value[first] >= 0
        first, last = first[there], last[there]
        spans.append(
            pl.DataFrame(
                {
                    "track": track[first].astype(np.uint32),
                    "begin_ns": begin[first],
                    "end_ns": end[last],
                    "depth": depth[first],
                    "kind": np.full(len(first), level.kind, dtype=np.uint8),
                    "value": value[first].astype(np.int32),
                }
            )
        )
        depth += (value >= 0).astype(np.uint16)
    return pl.concat(spans), depth


def pieces(cuts: NDArray[np.bool_], least: int = PIECE) -> Iterator[slice]:
    """Items in pieces of at least `least`, which begin at `cuts`, so that memory is limited to that of a piece."""
    places = np.flatnonzero(cuts)
    begin = 0
    while begin < len(cuts):
        at = int(np.searchsorted(places, begin + least))
        end = int(places[at]) if at < len(places) else len(cuts)
        yield slice(begin, end)
        begin = end


def ancestors(parent: NDArray[np.int32], node: Ints, most: int) -> Iterable[Ints]:
    """The node at each depth on the way from the root to each `node` (0: the root), outermost first; -1 below the node. At most `most`
    depths."""
    depth = nodes.depths(parent)
    used, which = np.unique(node, return_inverse=True)
    deepest = min(int(depth[used].max(initial=0)), most)
    for wanted in range(1, deepest + 1):
        at = used.astype(np.int64)
        while (deeper := depth[at] > wanted).any():
            at[deeper] = parent[at[deeper]]
        yield np.where(depth[at] == wanted, at, -1)[which]


def lanes(group: NDArray[np.integer], begin: Ints, end: Ints) -> Ints:
    """The lane of each interval (sorted by group and begin), so that those of one group and lane do not overlap. Most groups need only the
    first lane."""
    lane = np.zeros(len(group), dtype=np.int64)
    if not len(group):
        return lane
    new = np.append(True, group[1:] != group[:-1])
    if not (~new[1:] & (begin[1:] < end[:-1])).any():
        return lane
    # The latest end so far within a group; an offset larger than any rank separates the groups.
    number = np.cumsum(new) - 1
    order = np.unique(end)
    rank = np.searchsorted(order, end) + number * (len(order) + 1)
    reached = np.maximum.accumulate(rank)
    before = np.append(-1, reached[:-1])
    mine = np.searchsorted(order, begin, side="right") + number * (len(order) + 1)
    overlaps = ~new & (before >= mine)
    if not overlaps.any():
        return lane
    # Only where something overlaps, intervals are looked at one by one.
    starts = np.flatnonzero(~overlaps)
    stretch = np.cumsum(~overlaps) - 1
    for one in np.unique(stretch[overlaps]).tolist():
        low = int(starts[one])
        high = int(starts[one + 1]) if one + 1 < len(starts) else len(group)
        lane[low:high] = _lanes_of_stretch(begin[low:high].tolist(), end[low:high].tolist())
    return lane


def _lanes_of_stretch(begin: list[int], end: list[int]) -> list[int]:
    """Puts each interval in the lowest free lane."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    count, lanes = 0, []
    for start, stop in zip(begin, end, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, count = count, count + 1
        heapq.heappush(busy, (stop, lane))
        lanes.append(lane)
    return lanes


def nested_lanes(group: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The lane of each interval (sorted by group, begin and, the longer first, end), so that those of one group and lane are beside or
    inside each other; and the number of intervals around it in its lane."""
    lane, depth = [], []
    open_lanes: list[list[int]] = []
    last = None
    for of, start, stop in zip(group.tolist(), begin.tolist(), end.tolist(), strict=True):
        if of != last:
            open_lanes, last = [], of
        for number, around in enumerate(open_lanes):  # noqa: B007
            while around and around[-1] <= start:
                around.pop()
            if not around or stop <= around[-1]:
                break
        else:
            number, around = len(open_lanes), []
            open_lanes.append(around)
        lane.append(number)
        depth.append(len(around))
        around.append(stop)
    return np.array(lane, dtype=np.int64), np.array(depth, dtype=np.int64)

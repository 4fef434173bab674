"""Arithmetic on trees as arrays: depths, sums over subtrees, merging of siblings. No recursion: a stack may have 5,000 frames.

Everywhere `parent[i] < i`; node 0 is the root, and its parent is -1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Ints

_MANY, _REPEATED = 1 << 16, 16
"""Of so many values, each there so often, the distinct ones are found faster by hashing, and each value's place among them by halving."""

Parents = NDArray[np.int32]


def depths(parent: Parents) -> Parents:
    """The distance of each node from the root. Each round doubles the length of jumps, so that deep trees need few rounds."""
    depth = (parent >= 0).astype(np.int32)
    above = np.maximum(parent, 0)
    while above.any():
        depth += depth[above]
        above = above[above]
    return depth


def levels(depth: Parents) -> Iterator[Ints]:
    """The nodes of each depth, from the root down; within a depth in their own order."""
    in_order = bool((depth[1:] >= depth[:-1]).all())
    order = np.arange(len(depth)) if in_order else np.argsort(depth, kind="stable")
    starts = np.searchsorted(depth[order], np.arange(int(depth.max(initial=-1)) + 2))
    for begin, end in pairwise(starts.tolist()):
        yield order[begin:end]


def sum_up(parent: Parents, own: Ints) -> Ints:
    """For each node the sum of its own value and all values below it."""
    total = own.astype(np.int64)
    for nodes in reversed(list(levels(depths(parent)))[1:]):
        np.add.at(total, parent[nodes], total[nodes])
    return total


def preorder(parent: Parents, rank: Ints | None = None) -> tuple[Ints, Ints]:
    """The place of each node in a depth-first walk, and the size of its subtree including itself. Siblings are ordered by `rank`."""
    size = sum_up(parent, np.ones(len(parent), dtype=np.int64))
    children = np.lexsort((rank, parent))[1:] if rank is not None else np.argsort(parent, kind="stable")[1:]
    before = np.cumsum(size[children]) - size[children]
    first = np.flatnonzero(np.diff(parent[children], prepend=-1))
    place = np.zeros(len(parent), dtype=np.int64)
    place[children] = 1 + before - np.repeat(before[first], np.diff(first, append=len(children)))
    above = np.maximum(parent, 0)
    while above.any():
        place += place[above]
        above = above[above]
    return place, size


def with_callers(parent: Parents, pairs: Ints) -> Ints:
    """The pairs `node << 32 | anything`, and the same for all nodes above, down from the root's children. The result is sorted if nodes are
    numbered level by level."""
    depth = depths(parent)[pairs >> 32]
    by_level, current = [], pairs[:0]
    for level in range(int(depth.max(initial=0)), 0, -1):
        current = distinct(np.concatenate([pairs[depth == level], current]))
        by_level.append(current)
        current = parent[current >> 32].astype(np.int64) << 32 | (current & 0xFFFFFFFF)
    return np.concatenate(by_level[::-1]) if by_level else pairs[:0]


def nearest(parent: Parents, mark: NDArray[np.bool_], *, strict: bool = False) -> Parents:
    """The nearest marked node at or above each node (strict: above it); -1 if there is none."""
    place = np.where(mark, np.arange(len(parent), dtype=np.int32), parent)
    place[0] = 0
    while True:
        further = place[place]
        if (further == place).all():
            break
        place = further
    if not mark[0]:
        place = np.where(mark[place], place, np.int32(-1))
    if not strict:
        return place
    return np.where(parent >= 0, place[np.maximum(parent, 0)], np.int32(-1))


def merge_siblings(parent: Parents, frame: NDArray[np.uint32]) -> tuple[Parents, NDArray[np.uint32], Parents]:
    """Merges siblings with equal frames: the new parents and frames, level by level, and the new node of each old one."""
    place = np.zeros(len(parent), dtype=np.int32)
    parents, frames = [np.array([-1], dtype=np.int32)], [frame[:1]]
    count = 1
    for depth, nodes in enumerate(levels(depths(parent))):
        if depth == 0:
            continue
        key = place[parent[nodes]].astype(np.int64) << 32 | frame[nodes]
        distinct, which = numbered(key)
        place[nodes] = count + which
        parents.append((distinct >> 32).astype(np.int32))
        frames.append((distinct & 0xFFFFFFFF).astype(np.uint32))
        count += len(distinct)
    return np.concatenate(parents), np.concatenate(frames), place


def numbered(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values, sorted, and the place of each value among them."""
    if len(values) < _MANY:
        ordered, which = np.unique(values, return_inverse=True)
        return ordered, which
    few = pl.Series(values).unique().sort().to_numpy()
    if len(few) * _REPEATED > len(values):
        ordered, which = np.unique(values, return_inverse=True)
        return ordered, which
    return few, np.searchsorted(few, values)


def distinct(values: Ints) -> Ints:
    """The distinct values, sorted. Some versions of `np.unique` use hashing, which is ten times slower for millions of values."""
    ordered = np.sort(values)
    first: NDArray[np.bool_] = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    kept: Ints = ordered[first]
    return kept


def gather(place: Parents | Ints, value: Ints, size: int) -> Ints:
    """Adds values up by their new places, exactly."""
    total = np.zeros(size, dtype=np.int64)
    np.add.at(total, place, value)
    return total

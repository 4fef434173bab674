"""Looks up keys among sorted keys."""

from __future__ import annotations

import numpy as np

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints, Mask


def find(keys: Ints, wanted: Ints) -> tuple[Ints, Mask]:
    """The place of each wanted value among sorted keys, and whether it is there. Each place is a valid index, even if the value is
    missing."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


def find_rows(keys: Ints, wanted: Ints) -> Ints:
    """The place of each wanted key among the sorted keys of a table's rows (process << 32 | id), -1 if it is missing.

    Ids count from 1 in each process, so a key's place follows from its id, and a search is needed only if records were lost."""
    if not len(keys):
        return np.full(len(wanted), -1)
    process = wanted >> 32
    starts = np.searchsorted(keys, np.arange(int(process.max(initial=0)) + 1) << 32)
    at: Ints = np.clip(starts[process] + (wanted & 0xFFFFFFFF) - 1, 0, len(keys) - 1)
    elsewhere = np.flatnonzero(keys[at] != wanted)
    at[elsewhere] = np.minimum(np.searchsorted(keys, wanted[elsewhere]), len(keys) - 1)
    at[keys[at] != wanted] = -1
    return at


def latest(group: Ints, time_ns: Ints, wanted: Ints, before_ns: Ints) -> Ints:
    """The place of the last moment of each wanted group at or before the given time; -1 for none. Moments are sorted by group and time."""
    if not len(group):
        return np.full(len(wanted), -1)
    opens = np.append(True, group[1:] != group[:-1])
    groups, number = group[opens], np.cumsum(opens) - 1
    wanted_number, there = find(groups, wanted)
    first, last = int(time_ns.min()), int(time_ns.max())
    bits = (last - first).bit_length()
    if len(groups).bit_length() + bits < 63:
        rank, wanted_rank = time_ns - first, np.clip(before_ns, first - 1, last) - first
    else:  # group and time do not fit into one number
        times = nodes.distinct(time_ns)
        rank, wanted_rank = np.searchsorted(times, time_ns), np.searchsorted(times, before_ns, side="right") - 1
        bits = len(times).bit_length()
    at = np.searchsorted(number << bits | rank, wanted_number << bits | np.maximum(wanted_rank, 0), side="right") - 1
    return np.where(there & (wanted_rank >= 0) & (at >= 0) & (number[at] == wanted_number), at, -1)

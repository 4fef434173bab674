"""The memory in use, for a timeline: a counter of all live bytes, and below it one for each category."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.memory_categories import FROM_BELOW, NAMES, block_categories
from aiflame.attribute.memory.blocks import blocks
from aiflame.attribute.memory.live import OWNER, curve
from aiflame.attribute.timeline.tables import LATEST, Making, Owners, TrackKind
from aiflame.profile.tables.interface import Tables

MOST_MOMENTS, LEAST_EACH, MOST_EACH = 400_000, 400, 20_000
"""The most moments of all curves of categories together, and the fewest and most of one memory: there may be millions."""
_OF_A_BIN = 3
_CATEGORY = "category"


def memory_in_use(profile: Tables, making: Making, owners: Owners) -> None:
    """A counter for each process and memory, and below it its parts by category, if there are several: they add up to it at each of
    their points."""
    profile = Analysis.of(profile)
    rows = blocks(profile)
    if rows.is_empty():
        return
    rows = rows.select(*OWNER, "begin_ns", "end_ns", "bytes", block_categories(profile).alias(_CATEGORY))
    parts = rows.partition_by(OWNER, as_dict=True)
    most = min(max(MOST_MOMENTS // len(parts), LEAST_EACH), MOST_EACH)
    for (process, memory), own in sorted(parts.items()):
        whole = curve(own).filter(pl.col("at_ns") > 0).with_columns(pl.col("at_ns").clip(upper_bound=LATEST))
        if whole.is_empty():
            continue
        above = owners.process(int(str(process)))
        track = making.track(TrackKind.COUNTER, above, int(str(process)), f"memory in use: {memory}", unit="bytes")
        making.points(_points(track, whole["at_ns"].to_numpy(), whole["bytes"].to_numpy()))
        there = [category for category in FROM_BELOW if category in own[_CATEGORY].unique()]
        if len(there) < 2:
            continue
        moments = _telling(whole["at_ns"].to_numpy(), whole["bytes"].to_numpy(), most)
        for category in there:
            steps = curve(own.filter(pl.col(_CATEGORY) == int(category)))
            at = np.searchsorted(steps["at_ns"].to_numpy(), moments, side="right")
            part = making.track(TrackKind.COUNTER, track, int(str(process)), NAMES[category], unit="bytes")
            making.points(_points(part, moments, np.append(0, steps["bytes"].to_numpy())[at]))


def _points(track: int, time_ns: Ints, value: Ints) -> pl.DataFrame:
    return pl.DataFrame({"time_ns": time_ns, "value": value.astype(np.float64)}).with_columns(track=pl.lit(track))


def _telling(time_ns: Ints, value: Ints, most: int) -> Ints:
    """All moments, or the first, the highest and the lowest of each stretch of time."""
    if len(time_ns) <= most:
        return time_ns
    bins = max(most // _OF_A_BIN, 1)
    stretch = (time_ns - time_ns[0]) // max(-(-int(time_ns[-1] - time_ns[0] + 1) // bins), 1)
    starts = np.flatnonzero(np.append(True, stretch[1:] != stretch[:-1]))
    ends = np.append(starts[1:], len(time_ns)) - 1
    by_value = np.lexsort((value, stretch))
    moments: Ints = time_ns[np.unique(np.concatenate([starts, by_value[starts], by_value[ends]]))]
    return moments

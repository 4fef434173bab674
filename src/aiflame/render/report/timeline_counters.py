"""Counters in the block `timeline`: power, utilization, memory …, as points that hold until the next one.

There may be millions of points. If a counter has many, each stretch of time keeps its first and last, its lowest and its highest point, so
that the picture has the same height as the values.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Floats, Ints
from aiflame.attribute.timeline.tables import Timeline, TrackKind
from aiflame.render.blocks import Values
from aiflame.values import dataclass

MOST_POINTS = 300_000
"""The most points of all counters together: about 1 MB of a page."""
MOST_EACH, LEAST_EACH = 2400, 100
MOST_COUNTERS = 1000
LEVELS = 10_000
"""The number of levels between a counter's floor and its top; a value is stored as a level."""
PROCESSES = "Processes"
"""The group of counters that do not belong to the machine."""
_BELOW = " › "
_OF_A_BIN = 4
_FROM_LEAST = ("°C", "MHz")
"""Units in which 0 is far from all real values."""
_FULL_PERCENT = 20.0
"""Percentages that reach this have a scale up to 100."""


@dataclass(frozen=True, slots=True)
class Counters:
    head: list[dict[str, object]]
    """group, label, whether it belongs to the machine, unit, floor, top, number of points for each, in the order of the timeline's
    tracks. A part of another one has the place of that as `of`, and its own name as `part`."""
    columns: Mapping[str, Values]
    """`point.gap` (ns from the previous point, or from the origin) and `point.value` (level), counter by counter."""
    thinned: bool
    """True if points were left out; a shorter stretch would show more."""


def counters(timeline: Timeline, begin: int, end: int) -> Counters:
    """The counters in the stretch [begin, end)."""
    tracks, points = timeline.tracks, timeline.points
    shown = tracks.filter(pl.col("kind") == int(TrackKind.COUNTER))["track"].to_numpy()[:MOST_COUNTERS]
    of, time, value = points["track"].to_numpy(), points["time_ns"].to_numpy(), points["value"].to_numpy()
    most = min(max(MOST_POINTS // max(len(shown), 1), LEAST_EACH), MOST_EACH)
    names, parents = tracks["name"].to_list(), tracks["parent"].to_list()
    units, kinds = tracks["unit"].to_list(), tracks["kind"].to_list()
    head: list[dict[str, object]] = []
    gaps, levels = [], []
    thinned = False
    place: dict[int, int] = {}
    wholes = {track: parents[track] for track in shown.tolist() if parents[track] >= 0 and kinds[parents[track]] == TrackKind.COUNTER}
    kept_of: dict[int, Ints] = {}
    for track in shown.tolist():
        first, last = np.searchsorted(of, [track, track + 1])
        when, what = _within(time[first:last], value[first:last], begin, end)
        if not len(when):
            continue
        whole = wholes.get(track)
        if whole is None:
            kept = _kept(when, what, begin, end, most)
        else:
            if whole not in kept_of:
                parts = [np.searchsorted(of, [part, part + 1]) for part, above in wholes.items() if above == whole]
                sums = np.sum([value[slice(*part)] for part in parts], axis=0)
                kept_of[whole] = _kept(when, _within(time[first:last], sums, begin, end)[1], begin, end, most)
            kept = kept_of[whole]
        thinned |= len(kept) < len(when)
        floor, top = _scale(value[first:last], units[track])
        owner = _path(names, parents, parents[track])
        machine = kinds[parents[track]] == TrackKind.MACHINE
        described = {
            "group": owner.partition(_BELOW)[2] or owner if machine else PROCESSES,
            "label": names[track] if machine else f"{owner}: {names[track]}",
            "machine": machine,
            **({"of": place[whole], "part": names[track]} if whole in place else {}),
        }
        place[track] = len(head)
        head.append({**described, "unit": units[track], "floor": floor, "top": top, "count": len(kept)})
        gaps.append(np.diff(when[kept], prepend=begin))
        levels.append(np.round((what[kept] - floor) / max(top - floor, 1e-300) * LEVELS).astype(np.int64))
    nothing = [np.zeros(0, dtype=np.int64)]
    return Counters(head, {"point.gap": np.concatenate(gaps or nothing), "point.value": np.concatenate(levels or nothing)}, thinned)


def _path(names: list[str], parents: list[int], track: int) -> str:
    path = []
    while track >= 0:
        path.append(names[track])
        track = parents[track]
    return _BELOW.join(reversed(path))


def _within(time: Ints, value: Floats, begin: int, end: int) -> tuple[Ints, Floats]:
    """The points in a stretch, including the value that holds at its begin."""
    first, last = np.searchsorted(time, [begin, end])
    first = max(int(np.searchsorted(time, begin, side="right")) - 1, 0) if len(time) else first
    return np.maximum(time[first:last], begin).astype(np.int64), value[first:last]


def _kept(time: Ints, value: Floats, begin: int, end: int, most: int) -> Ints:
    """All rows, or four in each of some bins."""
    if len(time) <= most:
        return np.arange(len(time))
    bins = most // _OF_A_BIN
    of = np.minimum((time - begin) * bins // max(end - begin, 1), bins - 1)
    starts = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    ends = np.append(starts[1:], len(of)) - 1
    by_value = np.lexsort((value, of))
    return np.unique(np.concatenate([starts, ends, by_value[starts], by_value[ends]]))


def _scale(value: Floats, unit: str) -> tuple[float, float]:
    """A scale for all recorded values, so that each stretch has the same scale."""
    least, most = float(value.min()), float(value.max())
    if unit == "%" and least >= 0 and _FULL_PERCENT <= most <= 100:
        return 0.0, 100.0
    floor = least if unit in _FROM_LEAST else min(least, 0.0)
    return floor, most if most > floor else floor + 1

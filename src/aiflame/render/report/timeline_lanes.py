"""Lanes: the rows in which a timeline's slices are drawn. A lane has one kind of slices of a track, at one level."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.timeline.tables import SliceKind, TrackKind
from aiflame.values import dataclass

_PLACE = {
    SliceKind.STEP: 0,
    SliceKind.PHASE: 1,
    SliceKind.LAYER: 2,
    SliceKind.OP: 3,
    SliceKind.CALL: 4,
    SliceKind.WAIT: 5,
    SliceKind.REGION: 6,
    SliceKind.MARK: 6,
    SliceKind.TRACED: 6,
    SliceKind.FUNCTION: 7,
    SliceKind.WAITING: 7,
    SliceKind.KERNEL: 8,
    SliceKind.COPY: 8,
    SliceKind.SCOPE: 9,
}
"""Positions from the top of a track; kinds with the same number share lanes."""
_LAST = max(TrackKind) + 1
"""The position of sampled stacks: after all others."""
_NESTED = (SliceKind.REGION, SliceKind.MARK, SliceKind.FUNCTION, SliceKind.WAITING, SliceKind.TRACED, SliceKind.SCOPE)


@dataclass(frozen=True, slots=True)
class Lanes:
    tracks: pl.DataFrame
    """Tracks that have slices, or are above such tracks, from the top: parent (row here, -1: none), kind, number, name."""
    rows: pl.DataFrame
    """Each lane, from the top: track (row of `tracks`), kind (of its first slice), level."""
    slices: pl.DataFrame
    """By lane and begin; without the columns of their track."""
    lane: Ints
    """The lane of each slice."""


def lanes(tracks: pl.DataFrame, slices: pl.DataFrame) -> Lanes:
    order = _order(tracks, slices)
    place_of = np.full(len(tracks), -1, dtype=np.int64)
    place_of[order] = np.arange(len(order))
    kind = slices["kind"].to_numpy()
    place = np.zeros(max(SliceKind) + 1, dtype=np.int64)
    place[list(_PLACE)] = list(_PLACE.values())
    key = (place_of[slices["track"].to_numpy()] << 32) | (place[kind] << 16) | _levels(slices)
    distinct = pl.Series(key).unique().sort().to_numpy()
    lane = np.searchsorted(distinct, key)
    # The slices of a track are already in the order of their begins.
    by_lane = np.argsort(lane.astype(np.uint16 if len(distinct) < 1 << 16 else np.int64), kind="stable")
    lane = lane[by_lane]
    first = by_lane[np.searchsorted(lane, np.arange(len(distinct)))]
    rows = pl.DataFrame({"track": distinct >> 32, "kind": kind[first], "level": distinct & 0xFFFF})
    shown = tracks[order]
    parents = shown["parent"].to_numpy()
    parent = np.where(parents >= 0, place_of[np.maximum(parents, 0)], -1)
    kept = shown.select("kind", "number", "name").with_columns(parent=pl.Series(parent, dtype=pl.Int64))
    return Lanes(kept, rows, slices.drop("track", "depth", "flow", "flows")[by_lane], lane)


def _order(tracks: pl.DataFrame, slices: pl.DataFrame) -> list[int]:
    """The tracks that are shown, each before those below it."""
    parent, kind, number = (tracks[name].to_list() for name in ("parent", "kind", "number"))
    shown: set[int] = set()
    for track in slices["track"].unique().to_list():
        while track >= 0 and track not in shown:
            shown.add(track)
            track = parent[track]
    busy = _sampled(slices)
    below: dict[int, list[int]] = {}
    place = {int(TrackKind.SAMPLES): _LAST, int(TrackKind.STREAM): int(TrackKind.PURPOSE)}
    for track in sorted(
        shown, key=lambda one: (place.get(kind[one], kind[one]), -busy.get(one, 0), _stream(number, kind, one), kind[one], one)
    ):
        below.setdefault(parent[track], []).append(track)
    order, waiting = [], below.get(-1, [])[::-1]
    while waiting:
        track = waiting.pop()
        order.append(track)
        waiting += below.get(track, [])[::-1]
    return order


def _stream(number: list[int], kind: list[int], track: int) -> int:
    """A number by which a stream and the track of its purposes are sorted together."""
    return number[track] if kind[track] in (TrackKind.PURPOSE, TrackKind.STREAM) else 0


def _sampled(slices: pl.DataFrame) -> dict[int, int]:
    """The time that each track of sampled functions shows: the busiest come first."""
    # There may be ten million others.
    at = np.flatnonzero((slices["kind"].to_numpy() == SliceKind.FUNCTION) & (slices["depth"].to_numpy() == 0))
    outer = slices.select("track", "begin_ns", "end_ns")[at]
    return dict(outer.group_by("track").agg((pl.col("end_ns") - pl.col("begin_ns")).sum()).rows())


def _levels(slices: pl.DataFrame) -> Ints:
    """The level of a slice among those of its kind. Layers are inside of steps and phases, if there are some."""
    kind, depth = slices["kind"].to_numpy(), slices["depth"].to_numpy().astype(np.int64)
    level = np.where(np.isin(kind, _NESTED), depth, 0)
    layer = kind == SliceKind.LAYER
    if layer.any():
        around = sum(_is_around(slices, kind == outer) for outer in (SliceKind.STEP, SliceKind.PHASE))
        level = np.where(layer, np.maximum(depth - around, 0), level)
    return np.minimum(level, 0xFFFF)


def _is_around(slices: pl.DataFrame, outer: NDArray[np.bool_]) -> NDArray[np.int64]:
    """1 if one of the `outer` slices, which do not overlap, is around a slice. Slices are sorted by track and begin, outer ones first."""
    track, end = slices["track"].to_numpy(), slices["end_ns"].to_numpy()
    last = np.maximum.accumulate(np.where(outer, np.arange(len(slices)), -1))
    near = np.maximum(last, 0)
    around: NDArray[np.int64] = ((last >= 0) & (track[near] == track) & (end[near] >= end)).astype(np.int64)
    return around

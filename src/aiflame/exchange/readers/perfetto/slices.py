"""Slices of tracks: each begin of an event with its end, by track and time."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Mask, Whole
from aiflame.exchange.readers.perfetto.events import BEGIN, COUNTER, END, INSTANT, NONE
from aiflame.values import dataclass

_ASYNC_BEGINS, _ASYNC_ENDS = b"bS", b"eF"
_PHASES = {
    **dict.fromkeys(b"BX", BEGIN),
    ord("E"): END,
    **dict.fromkeys(b"IiR", INSTANT),
}
_COMPLETE = ord("X")


@dataclass(frozen=True, slots=True)
class Slices:
    slices: pl.DataFrame
    """Columns of events for each slice, with `begin`, `end` (null: it has none), and the number of the event that ends it (-1: none)."""
    loose: pl.DataFrame
    """The same for slices that do not nest on a track: they overlap others, or end on another thread."""
    moments: pl.DataFrame
    counters: pl.DataFrame
    lost_ends: int
    """Ends without a begin."""
    others: dict[str, int]
    """How many events of other kinds there are."""


def slices_of(events: pl.DataFrame) -> Slices:
    """`events`: in the order of the trace, with `time` and `lane`, the number of the track."""
    kind, phase = events["type"].to_numpy(), events["phase"].to_numpy()
    old = kind == 0
    kind = np.where(old, 0, kind)
    for character, of in _PHASES.items():
        kind = np.where(old & (phase == character), of, kind)
    complete = old & (phase == _COMPLETE)
    loose_begin, loose_end = (old & np.isin(phase, list(phases)) for phases in (_ASYNC_BEGINS, _ASYNC_ENDS))
    time, lane = events["time"].to_numpy(), events["lane"].to_numpy()
    begin, stop, lost = paired(lane, time, (kind == BEGIN) & ~complete, kind == END)
    rows = np.flatnonzero(complete)
    took = np.clip(np.where(events["duration_us"].to_numpy() == NONE, 0, events["duration_us"].to_numpy()), 0, 1 << 50)[rows] * 1000
    slices = _of(
        events,
        np.concatenate([begin, rows]),
        np.concatenate([_times(time, stop), time[rows] + took]),
        np.concatenate([stop, np.full(len(rows), -1)]),
    )
    own = _ids(events, loose_begin | loose_end)
    loose, loose_stop, loose_lost = paired(own, time, loose_begin, loose_end)
    used = (kind > 0) | loose_begin | loose_end
    others = _others(events.filter(~used | (kind > COUNTER)))
    return Slices(
        slices,
        _of(events, loose, _times(time, loose_stop), loose_stop),
        events.filter(kind == INSTANT),
        events.filter((kind == COUNTER) & ~old),
        lost + loose_lost,
        others,
    )


def paired(lane: Whole, time: Whole, begins: Mask, ends: Mask) -> tuple[Whole, Whole, int]:
    """The rows that begin something, the row that ends each (-1: none), and the number of ends of something that did not begin. An end
    belongs to the last begin of its lane that is open."""
    rows = np.flatnonzero(begins | ends)
    rows = rows[np.lexsort((rows, time[rows], lane[rows]))]
    if not len(rows):
        return rows, rows, 0
    own, opens = lane[rows], begins[rows]
    starts = np.append(True, own[1:] != own[:-1])
    level = np.cumsum(np.where(opens, 1, -1))
    first = np.flatnonzero(starts)
    which = np.cumsum(starts) - 1
    before = level[first] - np.where(opens[first], 1, -1)
    level -= before[which]
    # An end that goes below everything before it in its lane has no begin. Lanes are kept apart by offsets that only fall.
    offset = (len(first) - which) * (2 * len(rows) + 2)
    lowest = np.minimum(np.minimum.accumulate(level + offset) - offset, 0)
    lowest_before = np.where(starts, 0, np.append(0, lowest[:-1]))
    lost = ~opens & (level < lowest_before)
    depth = level - lowest + ~opens
    kept = np.flatnonzero(~lost)
    order = kept[np.lexsort((kept, depth[kept], which[kept]))]
    begin_at = np.flatnonzero(opens[order])
    after = begin_at + 1
    there = after < len(order)
    following = order[np.minimum(after, len(order) - 1)]
    here = order[begin_at]
    there &= ~opens[following] & (which[following] == which[here]) & (depth[following] == depth[here])
    return rows[here], np.where(there, rows[following], -1), int(lost.sum())


def _times(time: Whole, rows: Whole) -> Whole:
    return np.where(rows >= 0, time[rows] if len(time) else rows, NONE)


def _of(events: pl.DataFrame, rows: Whole, end: Whole, end_event: Whole) -> pl.DataFrame:
    ends = pl.Series("end", end, dtype=pl.Int64)
    return (
        events[rows]
        .rename({"time": "begin"})
        .with_columns(end=pl.select(pl.when(ends != NONE).then(ends)).to_series(), end_event=pl.Series(end_event, dtype=pl.Int64))
    )


def _ids(events: pl.DataFrame, loose: Mask) -> Whole:
    """A number for events that belong together: equal for equal ids, scopes and categories. Local ids are those of a process."""
    rows = events.select(
        pl.col("shared"),
        pl.col("local"),
        pl.col("unscoped"),
        pl.when(pl.col("shared") == NONE).then("pid_of_lane").otherwise(-1).alias("owner"),
        pl.when(pl.col("id_scope") > 0).then(0).otherwise("category").alias("category"),
        "id_scope",
        pl.when(pl.col("phase").is_in([ord(one) for one in "SF"])).then("name").otherwise(0).alias("called"),
    ).filter(loose)
    number = np.zeros(len(events), dtype=np.int64)
    if len(rows):
        number[loose] = rows.select(pl.struct(pl.all()).rank("dense")).to_series().to_numpy()
    return number


def _others(events: pl.DataFrame) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind, phase in events.select("type", "phase").iter_rows():
        name = f"events of phase {chr(phase)!r}" if not kind and 32 < phase < 127 else f"events of type {kind}"
        counts[name] = counts.get(name, 0) + 1
    return counts

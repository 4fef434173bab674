"""Spans of time on threads, as traces have them: nested calls become stacks, and the time that each spent itself becomes samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Mask, Whole
from aiflame.errors import AiflameError
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.nesting import in_order, nest
from aiflame.exchange.readers.overlaps import without_overlaps
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.schema.kinds import CALL_COUNTS
from aiflame.values import dataclass, replace

_AT_ONCE = 1 << 17
_MOST_PIECES = 2_000_000
"""92 days of threads: a damaged time is easily longer, and its pieces need memory."""
_LONGEST_NS = 4_000_000_000
"""A sample's period is a number of 32 bits: longer times become several samples."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Calls, sorted by thread, begin, and longest first."""

    tracks: Whole
    """The threads that have calls, in order: process << 32 | row of `threads`."""
    track_row: Whole
    """For each call the row of `tracks`."""
    begin: Whole
    end: Whole
    frame: Whole
    parent: Whole
    """Row of the call around each; -1: none."""
    cut: int
    """Calls that ended after the one around them; they end with it."""
    again: Mask | None = None
    """Where calls are divided: True for all pieces of a call but the first."""
    divided: int = 0
    """Calls of several pieces."""
    last_end: Whole | None = None
    """Where calls are divided: the end of the whole call."""

    @staticmethod
    def of(
        process: Whole, thread: Whole, begin: Whole, end: Whole, frame: Whole, yields: Mask | None = None
    ) -> tuple[Spans, Whole | slice]:
        """The spans, and the order in which they take the given rows, as an index. With `yields` (functions of Python), calls that end
        after the one around them are divided, and an index has some rows several times."""
        spans, order = Spans._of(process, thread, begin, end, frame)
        if yields is None or not spans.cut:
            return spans, order
        pieces = without_overlaps(_numbered(process.astype(np.int64) << 32 | thread)[1], begin, end, yields)
        row = pieces.row
        spans, order = Spans._of(process[row], thread[row], pieces.begin, pieces.end, frame[row])
        return replace(spans, again=pieces.again[order], divided=pieces.divided, last_end=end[row][order]), row[order]

    @staticmethod
    def _of(process: Whole, thread: Whole, begin: Whole, end: Whole, frame: Whole) -> tuple[Spans, Whole | slice]:
        tracks, row = _numbered(process.astype(np.int64) << 32 | thread)
        order: Whole | slice = slice(None)
        if not in_order(row, begin, end):
            order = np.lexsort((-end, begin, row))
            row, begin, end, frame = row[order], begin[order], end[order], frame[order]
        nested = nest(row, begin, end)
        return Spans(tracks, row, begin, nested.end, frame.astype(np.int32), nested.parent, nested.cut), order

    @property
    def call_end(self) -> Whole:
        """The end of each call; of one that is divided, of its last piece."""
        return self.end if self.last_end is None else self.last_end

    @property
    def track(self) -> Whole:
        """For each call, process << 32 | row of `threads`."""
        track: Whole = self.tracks[self.track_row]
        return track

    @property
    def process(self) -> Whole:
        process: Whole = (self.tracks >> 32)[self.track_row]
        return process

    @property
    def thread(self) -> Whole:
        thread: Whole = (self.tracks & 0xFFFFFFFF)[self.track_row]
        return thread

    def process_of(self, row: Whole) -> Whole:
        """The process of each of these calls."""
        process: Whole = (self.tracks >> 32)[self.track_row[row]]
        return process

    def thread_of(self, row: Whole) -> Whole:
        """The thread of each of these calls: its row of `threads`."""
        thread: Whole = (self.tracks & 0xFFFFFFFF)[self.track_row[row]]
        return thread

    def nearest(self, mark: Mask, *, strict: bool = False) -> Whole:
        """The nearest marked call at or around each (strict: around it); -1 for none."""
        parent = np.concatenate([[-1], self.parent + 1]).astype(np.int32)
        place = nodes.nearest(parent, np.append(False, mark), strict=strict)[1:]
        return np.maximum(place, 0) - 1

    def add_samples(self, making: Making, stack: Whole, waits: Mask, columns: Mapping[str, Whole] = MappingProxyType({})) -> None:
        """Writes samples of wall-clock time. `stack`: of each span. `waits`: for each frame, whether it only waits. `columns`: more columns
        of samples, with a value for each span."""
        for row, begin, end in self.own_time():
            making.add(
                "cpu_samples",
                pl.DataFrame(
                    {
                        "process": self.process_of(row),
                        "thread": self.thread_of(row),
                        "stack": stack[row],
                        "weight": np.ones(len(row), dtype=np.int64),
                        "time_ns": end,
                        "period_ns": end - begin,
                        "state": np.where(waits[self.frame[row]], int(SampleState.WAITING), int(SampleState.ON_CPU)),
                        "clock": np.ones(len(row), dtype=np.int64),
                        **{name: column[row] for name, column in columns.items()},
                    }
                ),
            )

    def add_counts(self, making: Making, stack: Whole, counted: Mask) -> None:
        """Writes how often each stack was called. `stack`: of each span; `counted`: by frame, those whose calls count."""
        row = np.flatnonzero(counted[self.frame] if self.again is None else counted[self.frame] & ~self.again)
        if not len(row):
            return
        distinct, count = np.unique(self.track_row[row].astype(np.int64) << 32 | stack[row], return_counts=True)
        track = self.tracks[distinct >> 32]
        counts = pl.DataFrame({"process": track >> 32, "thread": track & 0xFFFFFFFF, "stack": distinct & 0xFFFFFFFF, "value": count})
        processes = counts["process"].unique().sort()
        kinds = making.numbered("value_kinds", pl.DataFrame({"process": processes, "name": CALL_COUNTS, "unit": "calls"}))
        making.add("value_kinds", kinds)
        kind = kinds.select("process", kind="id")
        making.add("stack_values", counts.join(kind, on="process", how="left", maintain_order="left"))

    def innermost(self, process: Whole, thread: Whole, moment: Whole) -> Whole:
        """The row of the innermost call that runs on a thread at each moment; -1: none."""
        if not len(self.begin):
            return np.full(len(moment), -1, dtype=np.int64)
        own = self.track_row.astype(np.int64)
        asked = process << 32 | thread
        track = np.searchsorted(self.tracks, asked)
        has_calls = (track < len(self.tracks)) & (self.tracks[np.minimum(track, len(self.tracks) - 1)] == asked)
        moments, of = np.unique(np.concatenate([self.begin, moment]), return_inverse=True)
        key = own * len(moments) + of[: len(self.begin)]
        place = np.searchsorted(key, track * len(moments) + of[len(self.begin) :], side="right") - 1
        place = np.where(has_calls & (place >= 0) & (own[np.maximum(place, 0)] == track), place, -1)
        while (over := (place >= 0) & (self.end[np.maximum(place, 0)] < moment)).any():
            place = np.where(over, self.parent[np.maximum(place, 0)], place)
        return place

    def own_time(self) -> Iterator[tuple[Whole, Whole, Whole]]:
        """The time that each call spent itself, in pieces (row, begin, end), many at once: before each of its calls, and after the last."""
        over = self._end_before()
        last = self.begin.copy()
        inner = np.flatnonzero(self.parent >= 0)
        np.maximum.at(last, self.parent[inner], self.end[inner])
        _not_too_long(int(((self.end - self.begin)[self.parent < 0] // _LONGEST_NS).sum()))
        for at in range(0, len(self.begin), _AT_ONCE):
            rows = np.arange(at, min(at + _AT_ONCE, len(self.begin)))
            called = rows[self.parent[rows] >= 0]
            row = np.concatenate([self.parent[called], rows])
            begin, end = np.concatenate([over[called], last[rows]]), np.concatenate([self.begin[called], self.end[rows]])
            some = end > begin
            yield from divided(row[some], begin[some], end[some])

    def _end_before(self) -> Whole:
        """For each call the end of the one before it in the same caller; of a first call, the begin of its caller."""
        order = np.argsort(self.parent, kind="stable")
        same = np.append(False, self.parent[order][1:] == self.parent[order][:-1])
        over = np.empty(len(order), dtype=np.int64)
        over[order] = np.where(same, self.end[np.roll(order, 1)], self.begin[np.maximum(self.parent[order], 0)])
        return over


def _numbered(track: Whole) -> tuple[Whole, Whole]:
    """The distinct values in order, and the row of each value among them. There are few, and long runs of the same one."""
    begins = np.flatnonzero(np.append(True, track[1:] != track[:-1])) if len(track) else np.zeros(0, dtype=np.int64)
    tracks, row = np.unique(track[begins], return_inverse=True)
    return tracks, np.repeat(row.astype(np.uint32), np.diff(begins, append=len(track)))


def divided(row: Whole, begin: Whole, end: Whole) -> Iterator[tuple[Whole, Whole, Whole]]:
    """Pieces of which none is too long for a sample, many at once."""
    pieces = -(-(end - begin) // _LONGEST_NS)
    if (pieces <= 1).all():
        yield row, begin, end
        return
    before = np.cumsum(pieces) - pieces
    count = int(pieces.sum())
    _not_too_long(count)
    for first in range(0, count, _AT_ONCE):
        number = np.arange(first, min(first + _AT_ONCE, count))
        which = np.searchsorted(before + pieces, number, side="right")
        at = begin[which] + (number - before[which]) * _LONGEST_NS
        yield row[which], at, np.minimum(at + _LONGEST_NS, end[which])


def _not_too_long(pieces: int) -> None:
    if pieces > _MOST_PIECES:
        raise AiflameError(f"the calls of the trace last for {pieces * _LONGEST_NS // 10**9 // 86400:,} days in all")

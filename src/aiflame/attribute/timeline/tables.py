"""The tables of a timeline, and the class that builds them: tracks, slices and points on them, names and facts.

All times are CLOCK_MONOTONIC in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import islice

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.values import dataclass


class TrackKind(IntEnum):
    """The kind of a track, in the order in which tracks are shown."""

    PROCESS = 1
    """no slices; the tracks of its threads and devices are below it"""
    THREAD = 2
    """steps, phases, layers, ops and, innermost, calls that launch work on a device or wait for it; without a GPU, from CPU samples"""
    REGIONS = 3
    """regions that the program marked on a thread, or (below a process) frames of the whole process"""
    SAMPLES = 4
    """functions in the CPU samples of a thread; below one SAMPLES track without slices for each process"""
    DEVICE = 5
    """no slices: a device as one process uses it"""
    PURPOSE = 6
    """steps, phases, layers and ops of the kernels of a stream"""
    STREAM = 7
    """kernels and copies"""
    COUNTER = 8
    """`points`; counters below a counter have the same times, and add up to it at these"""
    MACHINE = 9
    """no slices: the machine, or one of its devices; belongs to no process"""
    INSIDE = 10
    """scopes that a kernel recorded: a track for each warp of a multiprocessor, below a track without slices for the launch"""


class SliceKind(IntEnum):
    STEP = 1
    PHASE = 2
    LAYER = 3
    OP = 4
    CALL = 5
    """a row of `launches`"""
    WAIT = 6
    """a row of `syncs`, inside of its call"""
    KERNEL = 7
    """a row of `kernels`"""
    COPY = 8
    """a row of `copies`"""
    REGION = 9
    """a row of `regions`"""
    MARK = 10
    """a row of `regions` that is a moment"""
    FUNCTION = 11
    """consecutive CPU samples in a function"""
    TRACED = 12
    """a row of `calls`"""
    SCOPE = 13
    """a row of `intra_spans`"""
    WAITING = 14
    """consecutive CPU samples of a thread that waits, with the reason"""


TRACKS: Mapping[str, type[pl.DataType]] = {
    "track": pl.UInt32,  # row of the process
    "parent": pl.Int32,  # row of the parent track, -1 for processes and the machine
    "kind": pl.UInt8,  # TrackKind
    "process": pl.UInt32,
    "thread": pl.UInt32,  # row of `threads`; 0: no thread, or one that was not recorded
    "number": pl.UInt32,  # pid, tid or number of the stream
    "name": pl.String,  # for people; tracks whose slices together show one thing (they overlap) have the same name and parent
    "full_name": pl.String,  # for a process its arguments, separated by NUL
    "unit": pl.String,  # unit of a counter: bytes, %, W …, or empty
    "begin_ns": pl.Int64,  # for a process or thread: when it was first seen, else 0
}
SLICES: Mapping[str, type[pl.DataType]] = {
    "track": pl.UInt32,
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,  # at least the begin
    "depth": pl.UInt16,  # number of slices of the same track around it
    "kind": pl.UInt8,  # SliceKind
    "name": pl.UInt32,  # row of `names`
    "facts": pl.UInt32,  # `set` in `facts`, 0: none
    "step": pl.Int32,  # of calls, kernels and copies; -1: none
    "flow": pl.UInt32,  # of a call: the first arrow to its kernels and copies; of a kernel or copy: the arrow that ends here; 0: none
    "flows": pl.UInt32,  # of a call: the number of arrows that begin here; their numbers are consecutive
    "launch": pl.Int32,  # of a call: its row in `launches`; of a kernel or copy: that of its launch; -1: none
}
POINTS: Mapping[str, type[pl.DataType]] = {"track": pl.UInt32, "time_ns": pl.Int64, "value": pl.Float64}
FACTS: Mapping[str, type[pl.DataType]] = {
    "set": pl.UInt32,  # from 1, sorted; slices with the same facts share a set
    "key": pl.String,  # adjacent rows with the same key are a list
    "text": pl.String,  # null if the value is in `number`
    "number": pl.UInt64,
}
LATEST = (1 << 62) - 1
"""A later moment comes from a damaged record."""


@dataclass(frozen=True, slots=True)
class Timeline:
    tracks: pl.DataFrame
    """TRACKS; a track comes after its parent."""
    slices: pl.DataFrame
    """SLICES, by track, begin and depth; slices of a track are beside or inside each other."""
    points: pl.DataFrame
    """POINTS, by track and time: a value holds until the next."""
    names: pl.Series
    facts: pl.DataFrame
    """FACTS"""
    without: frozenset[SliceKind]
    """Kinds of slices that were left out."""


class Making:
    """Builds a timeline. Each call of `slices` passes all rows so far to `taker` and drops them: a part has only tracks, names and sets of
    facts that no earlier part had."""

    def __init__(self, without: frozenset[SliceKind] = frozenset(), taker: Callable[[Timeline], None] | None = None) -> None:
        self.without = without
        self._taker = taker
        self._given = (0, 0)
        """The numbers of tracks and of names that `taker` already has."""
        self._tracks: list[tuple[object, ...]] = []
        self._slices: list[pl.DataFrame] = []
        self._points: list[pl.DataFrame] = []
        self._facts: list[pl.DataFrame] = []
        self._sets = 0
        self._names: dict[str, int] = {}
        self._texts: list[str] = []

    def track(
        self,
        kind: TrackKind,
        parent: int,
        process: int,
        name: str,
        *,
        thread: int = 0,
        number: int = 0,
        full_name: str = "",
        unit: str = "",
        begin_ns: int = 0,
    ) -> int:
        row = len(self._tracks)
        self._tracks.append((row, parent, int(kind), process, thread, number, name, full_name, unit, begin_ns))
        return row

    def name_of_track(self, row: int) -> str:
        return str(self._tracks[row][6])

    def names(self, texts: Iterable[str]) -> Ints:
        """The row of each text."""
        rows = self._names
        return np.array([rows.setdefault(text, len(rows)) for text in texts], dtype=np.int64)

    def name(self, row: int) -> str:
        """The text of a row."""
        if len(self._texts) < len(self._names):
            self._texts = list(self._names)
        return self._texts[row]

    def facts(self, sets: pl.DataFrame, keys: Sequence[str]) -> Ints:
        """Adds a set of facts for each row of a table with these columns (texts, numbers, and lists of texts), and returns its number.
        Empty texts and nulls are left out."""
        first = self._sets + 1
        self._sets += len(sets)
        numbered = sets.with_columns(pl.int_range(first, first + len(sets), dtype=pl.UInt32).alias("set"), pl.lit(0).alias("at"))
        parts = []
        for place, key in enumerate(keys):
            value = numbered.select("set", pl.lit(place).alias("at"), pl.lit(key).alias("key"), value=key)
            if sets.schema[key] == pl.List(pl.String):
                value = value.explode("value")
            text = sets.schema[key].is_numeric()
            has_value = pl.col("value").is_not_null() if text else pl.col("value").str.len_bytes() > 0
            none = pl.lit(None)
            text_of, number_of = (none, pl.col("value")) if text else (pl.col("value"), none)
            parts.append(
                value.filter(has_value).select(
                    "set", "at", "key", text=text_of.cast(pl.String), number=number_of.cast(pl.UInt64, strict=False)
                )
            )
        self._facts.append(pl.concat(parts).sort("set", "at", maintain_order=True).select(list(FACTS)))
        return np.arange(first, first + len(sets))

    def slices(self, *rows: pl.DataFrame) -> None:
        """All slices of some tracks, as tables with columns of SLICES; missing columns are 0 (-1: step, launch)."""
        nothing = {"facts": 0, "step": -1, "flow": 0, "flows": 0, "launch": -1}
        parts = [
            each.select(
                (pl.col(name) if name in each.columns else pl.lit(nothing[name]).alias(name)).cast(kind) for name, kind in SLICES.items()
            )
            for each in rows
            if len(each)
        ]
        if self.without:
            left_out = [int(kind) for kind in self.without]
            parts = [each.filter(~pl.col("kind").is_in(left_out)) for each in parts]
        if not parts:
            return
        # Of slices that begin together, the outer one comes first; at the same depth, a mark comes before a slice with a duration.
        self._slices.append(pl.concat(parts).sort("track", "begin_ns", "depth", "end_ns", maintain_order=True))
        if self._taker is not None:
            self._taker(self._part(points=[]))

    def points(self, rows: pl.DataFrame) -> None:
        self._points.append(rows.select(pl.col(name).cast(kind) for name, kind in POINTS.items()))

    def finish(self) -> Timeline:
        """The whole timeline, or the part that `taker` did not get."""
        return self._part(self._points)

    def _part(self, points: list[pl.DataFrame]) -> Timeline:
        tracks, names = self._given
        self._given = len(self._tracks), len(self._names)
        part = Timeline(
            pl.DataFrame(self._tracks[tracks:], schema=TRACKS, orient="row"),
            pl.concat(self._slices or [pl.DataFrame(schema=SLICES)], rechunk=False),
            pl.concat(points or [pl.DataFrame(schema=POINTS)]).sort("track", "time_ns", maintain_order=True),
            pl.Series("name", list(islice(self._names, names, None)), dtype=pl.String),
            pl.concat(self._facts or [pl.DataFrame(schema=FACTS)]),
            self.without,
        )
        self._slices, self._facts = [], []
        return part


_NOT_RECORDED = "[thread not recorded]"


class Owners:
    """The tracks of processes and threads; a track is added with the first thing on it."""

    def __init__(self, making: Making, processes: pl.DataFrame, names: Mapping[int, str], threads: pl.DataFrame) -> None:
        self._making = making
        self._processes = {row["process"]: row for row in processes.unique("process", keep="first").iter_rows(named=True)}
        self._names = names
        self._threads = {(row["process"], row["id"]): row for row in threads.iter_rows(named=True)}
        self._of_process: dict[int, int] = {}
        self._of_thread: dict[tuple[int, int], int] = {}
        self._keys: dict[int, tuple[int, int]] = {}
        self._of_samples: dict[int, int] = {}

    def process(self, process: int) -> int:
        if process not in self._of_process:
            row = self._processes.get(process, {"pid": 0, "command": "", "start_ns": 0})
            self._of_process[process] = self._making.track(
                TrackKind.PROCESS,
                -1,
                process,
                self._names.get(process, "[process not recorded]"),
                number=row["pid"],
                full_name=row["command"],
                begin_ns=min(row["start_ns"], LATEST),
            )
        return self._of_process[process]

    def thread(self, process: int, thread: int) -> int:
        key = process, thread
        if key not in self._of_thread:
            row = self._threads.get(key)
            name, number, begin = (row["name"], row["tid"], row["start_ns"]) if row else (_NOT_RECORDED, 0, 0)
            self._of_thread[key] = self._making.track(
                TrackKind.THREAD, self.process(process), process, name, thread=thread, number=number, begin_ns=min(begin, LATEST)
            )
            self._keys[self._of_thread[key]] = key
        return self._of_thread[key]

    def samples(self, track: int) -> int:
        """The track for the samples of the thread that has this track."""
        process, thread = self._keys[track]
        if process not in self._of_samples:
            self._of_samples[process] = self._making.track(TrackKind.SAMPLES, self.process(process), process, "Sampled stacks")
        row = self._threads.get((process, thread))
        name, number = (row["name"], row["tid"]) if row else (_NOT_RECORDED, 0)
        return self._making.track(TrackKind.SAMPLES, self._of_samples[process], process, name, thread=thread, number=number)

    def threads(self, process: Ints, thread: Ints) -> Ints:
        """The track of each thread."""
        key = process << 32 | thread
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])  # rows of a thread often follow each other
        distinct, which = np.unique(key[first], return_inverse=True)
        tracks = np.array([self.thread(one >> 32, one & 0xFFFFFFFF) for one in distinct.tolist()], dtype=np.int64)
        return np.repeat(tracks[which], np.diff(first, append=len(key)))

"""The events of a trace in Chrome's JSON, which torch.profiler writes too, as columns: calls on threads, work of devices, marks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from aiflame.exchange.readers.json_rows import NONE, Batch, JsonRows, Key, Kind
from aiflame.exchange.readers.source import Source
from aiflame.values import dataclass

WORK = ("kernel", "gpu_memcpy", "gpu_memset", "concurrent_kernel", "memcpy", "memset", "Kernel", "Memcpy", "Memset", "gpu_op")
"""Categories of kernels, copies and fills."""

_EVENTS = "traceEvents"
_TEXTS = {
    "ph": "ph", "cat": "cat", "name": "name", "pid": "pid", "tid": "tid", "id": "id", "args.name": "given_name",
    "args.memcpy_details": "copied",
}  # fmt: skip
_TIMES = {"ts": "begin", "dur": "took"}
"""Microseconds with decimals: nanoseconds here."""
_NUMBERS = {
    "args.External id": "external",
    "args.correlation": "correlation",
    "args.correlation_id": "xla_correlation",
    "args.Sequence number": "sequence",
    "args.Fwd thread id": "forward_thread",
    "args.device": "device",
    "args.stream": "stream",
    "args.bytes": "bytes",
    "args.graph node id": "node",
    "args.registers per thread": "registers",
    "args.shared memory": "shared",
    "args.In msg nelems": "elements",
    "args.Group size": "group_size",
    "args.Bytes": "allocated",
    "args.Device Type": "device_type",
    "args.step_num": "step",
}
_AS_WRITTEN = {
    "args.grid": "grid",
    "args.block": "block",
    "args.dtype": "dtype",
    "args.Collective name": "collective",
    "args.Process Group Name": "group",
    "args.Process Group Ranks": "members",
    "args.external id": "old_external",
    "args.Input Dims": "dims",
    "args.Input type": "types",
    "args.Concrete Inputs": "values",
}
_KEYS = (
    *(Key(path, Kind.TEXT, name=name) for path, name in _TEXTS.items()),
    *(Key(path, Kind.DECIMAL, 3, name) for path, name in _TIMES.items()),
    *(Key(path, Kind.INT, name=name) for path, name in _NUMBERS.items()),
    *(Key(path, Kind.RAW, name=name) for path, name in _AS_WRITTEN.items()),
)

MISSING = -1
"""A number that an event lacks, in these columns: """
_SMALL = ("external", "correlation", "sequence", "forward_thread", "device", "registers", "shared")
_MOST_SMALL = (1 << 31) - 1

_OF_CALLS = ("pid", "tid", "cat", "name", "begin", "end", "external", "correlation", "sequence", "forward_thread")
_OF_COLLECTIVES = ("collective", "elements", "dtype", "group", "group_size", "members")
_OF_COPIED = ("pid", "tid", "begin", "copied")
_OF_STEPS = ("pid", "tid", "name", "begin", "end", "step")
_OF_SHAPES = ("dims", "types", "values")
_OF_WORK = (
    *("pid", "tid", "cat", "name", "begin", "end", "external", "correlation"),
    *("device", "stream", "bytes", "node", "grid", "block", "registers", "shared"),
)
_OF_MARKS = ("pid", "tid", "cat", "name", "begin", "ph")
_OF_ARROWS = ("pid", "tid", "cat", "id", "begin", "ph")
_ARROWS = r"^((CL_)?Flow_H2D_.*|flow)$"
"""Categories of arrows from calls to the work that they launched, where nothing else says so."""
PROFILES = ("Profile", "ProfileChunk", "CpuProfile")
_OF_PROFILES = ("pid", "tid", "name", "id", "begin")
_OF_MEMORY = ("pid", "tid", "begin", "allocated", "device_type")
MEMORY = "[memory]"
"""The name of torch's moments at which memory was allocated or freed."""
_OF_NAMES = ("pid", "tid", "name", "given_name")


@dataclass(slots=True)
class Events:
    """Texts are rows of `texts`; numbers that an event lacks are MISSING, or NONE in columns of 64 bits; times are nanoseconds as the file
    counts them."""

    texts: pl.Series
    calls: list[pl.DataFrame]
    """Calls on threads, in the pieces in which the file was read, as there may be millions: columns pid, tid, cat, name, begin, end,
    external, correlation, sequence, forward_thread."""
    collectives: pl.DataFrame
    """Calls that communicate: `call` (row of `calls`), collective, elements, dtype, group, group_size, members."""
    shapes: pl.DataFrame
    """Of calls of ops whose inputs the trace describes: `call` (row of `calls`), dims, types, values."""
    copied: pl.DataFrame
    """Descriptions of copies by XLA, which has them as calls: pid, tid, begin, copied."""
    steps: pl.DataFrame
    """Calls that JAX or TensorFlow numbered as a step (`StepTraceAnnotation`): pid, tid, name, begin, end, step."""
    work: pl.DataFrame
    """Kernels, copies and fills of devices."""
    marks: pl.DataFrame
    """Moments: pid, tid, cat, name, begin, ph."""
    arrows: pl.DataFrame
    """Begin (ph: s) and end of arrows from a call to the work that it launched: pid, tid, cat, id, begin, ph."""
    memory: pl.DataFrame
    """Moments at which torch allocated or freed memory: pid, tid, begin, allocated (bytes; negative: freed), device_type."""
    profiles: pl.DataFrame
    """Events that hold parts of V8's CPU profiles, in the order of the file: pid, tid, name, id, begin."""
    names: pl.DataFrame
    """Names of processes and threads: pid, tid, name (process_name, thread_name …), given_name."""
    members: dict[str, Any]
    """The file's other facts."""
    unused: Counter[str]
    open_calls: int
    """Calls without an end; they end with the last event."""
    damaged: int
    """Places of the file that could not be read."""
    cut: bool
    """The file ends before its end."""

    def texts_of(self, column: pl.Series) -> pl.Series:
        """The texts that a column refers to."""
        return self.texts.gather(column)

    def take_calls(self) -> Iterator[pl.DataFrame]:
        """The pieces of the calls. Each is removed from here first: a caller that drops it frees its memory."""
        self.calls.reverse()
        while self.calls:
            yield self.calls.pop()

    def take_work(self) -> pl.DataFrame:
        work, self.work = self.work, self.work.clear()
        return work


def read_events(source: Source, progress: Callable[[float], None]) -> Events:
    """All events of a file that a view shows; the others are counted."""
    rows = JsonRows(_KEYS, _EVENTS, source=source.name)
    parts = _Parts(rows)
    for block, share in source.blocks():
        parts.add(rows.feed(block))
        progress(share)
    parts.add(rows.finish())
    return parts.finish()


class _Parts:
    """Sorts the events of each piece of the file into calls, work of devices, marks, arrows and names."""

    def __init__(self, rows: JsonRows) -> None:
        self._rows = rows
        self._calls: list[pl.DataFrame] = []
        self._collectives: list[pl.DataFrame] = []
        self._shapes: list[pl.DataFrame] = []
        self._copied: list[pl.DataFrame] = []
        self._steps: list[pl.DataFrame] = []
        self._work: list[pl.DataFrame] = []
        self._marks: list[pl.DataFrame] = []
        self._arrows: list[pl.DataFrame] = []
        self._memory: list[pl.DataFrame] = []
        self._profiles: list[pl.DataFrame] = []
        self._chunks = 0
        self._names: list[pl.DataFrame] = []
        self._halves: list[pl.DataFrame] = []
        self._unused: Counter[str] = Counter()
        self._count = 0

    def add(self, batch: Batch) -> None:
        if not batch.rows:
            return
        rows = pl.DataFrame(batch.columns)
        began = rows.filter(pl.col("begin") != NONE)
        phase = self._texts_of(rows["ph"])
        self._names.append(rows.filter(phase == "M").select(_OF_NAMES))
        rows, phase = began, self._texts_of(began["ph"])
        rows = rows.with_columns(_small(name) for name in _SMALL).with_columns(end=pl.col("begin") + pl.max_horizontal("took", 0))
        of_xla = (pl.col("correlation") == MISSING) & pl.col("xla_correlation").is_between(0, _MOST_SMALL)
        rows = rows.with_columns(correlation=pl.when(of_xla).then("xla_correlation").otherwise("correlation").cast(pl.Int32))
        complete, where = phase == "X", self._texts_of(rows["cat"])
        work = complete & where.is_in(WORK)
        self._work.append(rows.filter(work).select(_OF_WORK))
        calls = rows.filter(complete & ~work)
        calls = calls.with_columns(pl.int_range(self._count, self._count + pl.len()).alias("call"))
        self._collectives.append(calls.filter(pl.col("collective") > 0).select("call", *_OF_COLLECTIVES))
        self._copied.append(calls.filter(pl.col("copied") > 0).select(_OF_COPIED))
        self._steps.append(calls.filter(pl.col("step") != NONE).select(_OF_STEPS))
        self._shapes.append(calls.filter(pl.col("dims") > 0).select("call", *_OF_SHAPES))
        self._calls.append(calls.select(_OF_CALLS))
        self._count += len(calls)
        self._halves.append(rows.filter(phase.is_in(["B", "E"])).select("ph", *_OF_CALLS))
        self._add_profiles(rows.filter(phase.is_in(["P", "I"])))
        self._marks.append(rows.filter(phase.is_in(["i", "I", "R"])).select(_OF_MARKS))
        self._add_memory(rows.filter(phase == "i"))
        arrows = phase.is_in(["s", "t", "f"]) & where.str.contains(_ARROWS)
        self._arrows.append(rows.filter(arrows).select(_OF_ARROWS))
        used = phase.is_in(["X", "B", "E", "i", "I", "R", "M"]) | arrows
        for kind, count in phase.filter(~used).value_counts().iter_rows():
            self._unused[f"events of phase {kind!r}"] += count

    def _add_profiles(self, rows: pl.DataFrame) -> None:
        rows = rows.filter(self._texts_of(rows["name"]).is_in(PROFILES))
        self._profiles.append(rows.select(_OF_PROFILES))
        self._chunks += int((self._texts_of(rows["ph"]) == "P").sum())

    def _add_memory(self, rows: pl.DataFrame) -> None:
        complete = (pl.col("allocated") != NONE) & (pl.col("device_type") != NONE)
        self._memory.append(rows.filter(self._texts_of(rows["name"]) == MEMORY).filter(complete).select(_OF_MEMORY))

    def finish(self) -> Events:
        halves = pl.concat(self._halves) if self._halves else None
        open_calls = 0
        if halves is not None and len(halves):
            pairs, open_calls = self._paired(halves)
            self._calls.append(pairs)
        read = self._rows.summary()
        self._unused["events of phase 'P'"] -= self._chunks
        self._unused += Counter()  # without those that are 0
        self._unused.update(read.unused)
        self._unused.update({f"{name} (of another type)": count for name, count in read.unfit.items()})
        members = {name: _value(text) for name, text in read.members.items()}
        empty = pl.DataFrame(
            schema={key.name: pl.UInt32 if key.kind in (Kind.TEXT, Kind.RAW) else pl.Int64 for key in _KEYS}
            | dict.fromkeys(_SMALL, pl.Int32)
            | {"end": pl.Int64, "call": pl.Int64}
        )
        return Events(
            texts=self._rows.texts().fill_null(""),
            calls=[empty.select(_OF_CALLS), *self._calls],
            collectives=_joined(self._collectives, empty.select("call", *_OF_COLLECTIVES)),
            shapes=_joined(self._shapes, empty.select("call", *_OF_SHAPES)),
            copied=_joined(self._copied, empty.select(_OF_COPIED)),
            steps=_joined(self._steps, empty.select(_OF_STEPS)),
            work=_joined(self._work, empty.select(_OF_WORK)),
            marks=_joined(self._marks, empty.select(_OF_MARKS)),
            arrows=_joined(self._arrows, empty.select(_OF_ARROWS)),
            memory=_joined(self._memory, empty.select(_OF_MEMORY)),
            profiles=_joined(self._profiles, empty.select(_OF_PROFILES)),
            names=_joined(self._names, empty.select(_OF_NAMES)),
            members=members,
            unused=self._unused,
            open_calls=open_calls,
            damaged=read.damaged_places,
            cut=read.cut,
        )

    def _texts_of(self, column: pl.Series) -> pl.Series:
        """The text of each row of a column with few different ones."""
        if column.is_empty():
            return pl.Series(dtype=pl.String)  # polars would keep the type of the column
        rows = column.unique()
        texts = pl.Series([self._rows.text(row) or "" for row in rows.to_list()], dtype=pl.String)
        named: pl.Series = column.replace_strict(rows, texts, return_dtype=pl.String)
        return named if len(named) else texts  # polars keeps the type of a column without rows

    def _paired(self, halves: pl.DataFrame) -> tuple[pl.DataFrame, int]:
        """Calls of which the file has begin and end apart: an end closes the last call of its thread that is open."""
        begins = (self._texts_of(halves["ph"]) == "B").to_numpy()
        track = halves.select(pl.struct("pid", "tid").rank("dense")).to_series().to_numpy()
        moment = halves["begin"].to_numpy()
        last = int(moment.max())
        end = np.full(len(halves), last)
        open_: dict[int, list[int]] = {}
        for row in np.lexsort((np.arange(len(halves)), moment, track)).tolist():
            stack = open_.setdefault(track[row], [])
            if begins[row]:
                stack.append(row)
            elif stack:
                end[stack.pop()] = moment[row]
        return halves.with_columns(end=pl.Series(end)).filter(pl.Series(begins)).select(_OF_CALLS), sum(map(len, open_.values()))


def _small(name: str) -> pl.Expr:
    """A column of numbers that are seldom large, in half the space."""
    return pl.when(pl.col(name).is_between(0, _MOST_SMALL)).then(name).otherwise(MISSING).cast(pl.Int32).alias(name)


def _value(text: str) -> Any:
    """A fact of the file; None for a damaged one."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _joined(parts: list[pl.DataFrame], empty: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([empty, *parts])

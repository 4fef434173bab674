"""torch.profiler's traces (Kineto) and others in Chrome's JSON, as a profile.

Calls on threads become stacks, with their own time as samples of wall-clock time. Kernels and copies are joined to the calls that launched
them by their correlation ids, else to ops by their external ids. Large traces are read, and left again, piece by piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.chrome import linked, v8_profiles
from aiflame.exchange.readers.chrome.autograd import Autograd
from aiflame.exchange.readers.chrome.collectives import add_collectives
from aiflame.exchange.readers.chrome.devices import add_launches, add_work
from aiflame.exchange.readers.chrome.events import Events, read_events
from aiflame.exchange.readers.chrome.jax_devices import find_devices
from aiflame.exchange.readers.chrome.jax_steps import add_steps
from aiflame.exchange.readers.chrome.meaning import OPS, add_layers, add_regions, frames_of, is_annotation, is_python
from aiflame.exchange.readers.chrome.op_shapes import add_op_work
from aiflame.exchange.readers.chrome.op_sums import add_op_sums
from aiflame.exchange.readers.chrome.threads import Threads
from aiflame.exchange.readers.frames import Frames
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.exchange.readers.overlaps import AGAIN
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.folder.meta import JobRank
from aiflame.profile.ranks.job import MOST_RANKS
from aiflame.profile.schema.kinds import PROFILER_MODULES

_NO_THREADS = ("Trace", "gpu_user_annotation", *PROFILER_MODULES, "cuda_sync", "cuda_event")
"""Categories of calls that no thread of the program made."""
_MOST_OVERHEADS = 50
"""So many pieces of the profiler's own work, the longest ones, are placed on a thread: the trace names none for them."""
_LINES = "lines of calls (a place is where its function begins)"
_FIRST_EVENT = re.compile(rb'\[\s*\{[^{}]*"(ph|ts|pid)"\s*:')


def is_one(head: bytes) -> bool:
    begin = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if begin.startswith(b"{"):
        return b'"traceEvents"' in head or b'"schemaVersion"' in head[:4096]
    return bool(_FIRST_EVENT.match(begin))


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    making.lacks = ("stall reasons of kernels", "counters of devices", "CPU time (calls have wall-clock time)", _LINES)
    events = read_events(source, lambda share: progress(0.7 * share))
    _say_damage(events, making)
    if linked.is_linked(events):
        linked.read(events, making)
        return
    find_devices(events, making)
    pieces = _calls_of_threads(events, making)
    shift = _shift(events, pieces, making)
    making.rank = _rank(events)
    sampled = events.profiles.select("pid", "tid", "begin", correlation=pl.lit(-1, dtype=pl.Int32))
    threads = Threads.of(events, [*pieces, sampled], shift)
    threads.add(making)
    calls, annotated = _placed(events, pieces, threads)
    work = threads.work(events, (calls, annotated))
    add_regions(making, events, annotated)
    add_steps(making, events, threads)
    add_work(making, events, work)
    last_ns = int(work["end"].max() or 0)  # type: ignore[arg-type]
    work = work.select("process", "external", "correlation", took=pl.col("end") - pl.col("begin"))

    frames = Frames()
    kinds = frames_of(events, calls, frames)
    places = calls.select("process", "thread", "begin", "end")
    calls = calls.drop(places.columns)
    process, thread, begin, end = (places[name].to_numpy() for name in places.columns)
    spans, order = Spans.of(process, thread, begin, end, kinds.frame, is_python(events, calls).to_numpy())
    del places, process, thread, begin, end
    calls = _once(calls[order], spans)
    del order
    if spans.divided:
        making.note(f"{spans.divided:,} calls of the trace cross others, of which neither lies within the other: they are in pieces")
    if spans.cut:
        making.note(f"{spans.cut:,} calls of the trace end after the call around them: they are cut to its end")
    add_layers(making, kinds, spans)
    autograd = Autograd.of(calls, spans, kinds.innermost_layer(spans))
    autograd.add_layer_calls(making)
    waits, named = kinds.waits, kinds.named
    calls = calls.drop("sequence", "forward_thread")
    del kinds
    progress(0.8)
    profiles = v8_profiles.read(source, events, threads, frames, making)
    stack = _add_stacks(making, frames, spans, profiles, shift)
    spans.add_samples(making, stack, waits, autograd.columns())
    spans.add_counts(making, stack, named)
    progress(0.9)
    launches = add_launches(making, events, calls, spans, stack, autograd.columns(), work)
    add_op_work(making, events, calls, spans, launches)
    add_op_sums(making, events, calls, spans, launches, work, annotated, threads.memory(events))
    add_collectives(making, events, calls, spans, stack)
    making.last_ns = max(making.last_ns, last_ns, int(spans.end.max(initial=0)))


def _once(calls: pl.DataFrame, spans: Spans) -> pl.DataFrame:
    """The calls; of those that are in pieces the first piece alone has ids that others know it by."""
    if spans.again is None:
        return calls
    again = pl.Series(spans.again)
    nobody = {"call": AGAIN, "correlation": -1, "external": -1}
    return calls.with_columns(
        pl.when(again).then(pl.lit(none, calls.schema[name])).otherwise(name).alias(name) for name, none in nobody.items()
    )


def _add_stacks(making: Making, frames: Frames, spans: Spans, profiles: v8_profiles.Profiles, shift: int) -> Whole:
    """Writes the stacks of all calls, and the samples of V8. Gives the stack of each span."""
    of_spans = spans.process, spans.parent, spans.frame
    if not len(profiles.process):
        return frames.add_stacks(making, *of_spans)
    before = len(spans.begin)
    own = (np.array(column, dtype=np.int64) for column in (profiles.process, profiles.parent, profiles.frame))
    process, parent, frame = (np.concatenate(pair) for pair in zip(of_spans, own, strict=True))
    parent[before:] = np.where(parent[before:] >= 0, parent[before:] + before, -1)
    stack = frames.add_stacks(making, process, parent, frame)
    profiles.write(stack[before:], shift)
    return stack[:before]


def _calls_of_threads(events: Events, making: Making) -> list[pl.DataFrame]:
    """The calls that threads made, in pieces, with their number (`call`); the others are counted."""
    number, foreign = 0, list[pl.DataFrame]()
    pieces = list[pl.DataFrame]()
    for rows in events.take_calls():
        calls = rows.with_row_index("call", offset=number)
        number += len(rows)
        without_thread = events.texts_of(rows["cat"]).is_in(_NO_THREADS)
        foreign.append(calls.filter(without_thread))
        pieces.append(calls.filter(~without_thread))
    others = pl.concat(foreign) if foreign else pl.DataFrame()
    if len(others):
        placed = _with_threads(events, others, pieces)
        unused = events.texts_of(others.filter(~pl.col("call").is_in(placed["call"].implode()))["cat"])
        for name, count in unused.value_counts().iter_rows():
            making.unused[f"events of category {name}"] += count
        pieces.append(placed)
    return pieces


def _with_threads(events: Events, foreign: pl.DataFrame, pieces: list[pl.DataFrame]) -> pl.DataFrame:
    """The profiler's own work that lies within an op, where one thread alone had an op all the while: as a call of that thread."""
    overhead = events.texts_of(foreign["cat"]).is_in(PROFILER_MODULES)
    longest = foreign.filter(overhead).sort(pl.col("begin") - pl.col("end"), maintain_order=True).head(_MOST_OVERHEADS)
    placed = []
    for row in longest.iter_slices(1):
        begin, end = row["begin"][0], row["end"][0]
        around = [piece.filter(pl.col("begin") <= begin, pl.col("end") >= end) for piece in pieces]
        ops = pl.concat(rows.filter(events.texts_of(rows["cat"]).is_in(OPS)) for rows in around)
        owners = ops.select("pid", "tid").unique()
        if len(owners) == 1:
            placed.append(row.with_columns(owners["pid"], owners["tid"]))
    return pl.concat(placed) if placed else foreign.clear()


def _placed(events: Events, pieces: list[pl.DataFrame], threads: Threads) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The calls with the rows of their threads, and the annotations among them apart. Empties the list, to free its memory."""
    calls, annotations = [], []
    pieces.reverse()
    while pieces:
        rows = threads.with_rows(pieces.pop())
        annotated = is_annotation(events, rows)
        annotations.append(rows.filter(annotated))
        calls.append(rows.filter(~annotated))
    return pl.concat(calls), pl.concat(annotations)


def _shift(events: Events, pieces: list[pl.DataFrame], making: Making) -> int:
    """From the file's times to the profile's."""
    columns = [*(piece["begin"] for piece in pieces), events.work["begin"], events.profiles["begin"]]
    first = min((int(column.min()) for column in columns if len(column)), default=0)  # type: ignore[arg-type]
    base = events.members.get("baseTimeNanoseconds")
    since_1970 = first + (base if isinstance(base, int) else 0)
    making.realtime_ns = since_1970 if since_1970 > _YEAR_2001 else 0
    return FIRST_NS - first


_YEAR_2001 = 1_000_000_000 * 10**9


def _rank(events: Events) -> JobRank | None:
    given = events.members.get("distributedInfo")
    if not isinstance(given, dict):
        return None
    rank, size = given.get("rank"), given.get("world_size")
    if not isinstance(rank, int) or not isinstance(size, int) or not 0 <= rank < size <= MOST_RANKS:
        return None
    return JobRank(rank, size, launcher=str(given.get("backend", ""))[:40])


def _say_damage(events: Events, making: Making) -> None:
    making.unused.update(events.unused)
    if events.damaged:
        making.note(f"the trace is damaged in {events.damaged:,} place{'s' if events.damaged > 1 else ''}: events there are missing")
    if events.cut:
        making.note("the trace is cut short: its end is missing")
    if events.open_calls:
        making.note(f"{events.open_calls:,} calls have no end in the trace: they end with its last event")

"""torch.profiler's traces (Kineto) and others in Chrome's JSON, as a profile.

Calls on threads become stacks, with their own time as samples of wall-clock time; what ran on devices becomes kernels and copies, joined to
the calls that launched it by their correlation ids, else to ops by their external ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

from aiflame.exchange.readers.chrome import linked
from aiflame.exchange.readers.chrome.autograd import Autograd
from aiflame.exchange.readers.chrome.collectives import add_collectives
from aiflame.exchange.readers.chrome.devices import add_launches, add_work
from aiflame.exchange.readers.chrome.events import Events, read_events
from aiflame.exchange.readers.chrome.meaning import add_layers, add_regions, frames_of, is_annotation
from aiflame.exchange.readers.chrome.op_shapes import add_op_work
from aiflame.exchange.readers.chrome.threads import Threads
from aiflame.exchange.readers.frames import Frames
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.folder.meta import JobRank
from aiflame.profile.ranks.job import MOST_RANKS

_NO_THREADS = ("Trace", "gpu_user_annotation", "overhead", "Overhead", "cuda_sync", "cuda_event")
"""Categories of calls that no thread of the program made."""
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
    calls = _calls_of_threads(events)
    shift = _shift(events, calls, making)
    making.rank = _rank(events)
    threads = Threads.of(events, calls, shift)
    threads.add(making)
    calls = threads.with_rows(calls)
    work = threads.work(events, calls, shift)
    annotated = is_annotation(events, calls)
    add_regions(making, events, calls.filter(annotated))
    calls = calls.filter(~annotated)

    frames = Frames()
    kinds = frames_of(events, calls, frames)
    process, thread, begin, end = (calls[name].to_numpy() for name in ("process", "thread", "begin", "end"))
    spans, order = Spans.of(process, thread, begin, end, kinds.frame)
    del process, thread, begin, end
    calls = calls.select("call", "cat", "name", "external", "correlation", "sequence", "forward_thread")[order]
    if spans.cut:
        making.note(f"{spans.cut:,} calls of the trace end after the call around them: they are cut to its end")
    add_layers(making, kinds, spans)
    autograd = Autograd.of(calls, spans, kinds.innermost_layer(spans))
    autograd.add_layer_calls(making)
    progress(0.8)
    stack = spans.add(making, frames, kinds.waits, autograd.columns())
    progress(0.9)
    launches = add_launches(making, events, calls, spans, stack, autograd.columns(), work)
    add_op_work(making, events, calls, spans, launches)
    add_work(making, events, work)
    add_collectives(making, events, calls, spans, stack)
    making.last_ns = max([making.last_ns, *(int(column.max()) for column in (spans.end, work["end"].to_numpy()) if len(column))])


def _calls_of_threads(events: Events) -> pl.DataFrame:
    """The calls that threads made; the others are counted."""
    rows = events.take_calls().with_row_index("call")
    category = events.texts_of(rows["cat"])
    foreign = category.is_in(_NO_THREADS)
    for name, count in category.filter(foreign).value_counts().iter_rows():
        events.unused[f"events of category {name}"] += count
    return rows.filter(~foreign)


def _shift(events: Events, calls: pl.DataFrame, making: Making) -> int:
    """From the file's times to the profile's."""
    columns = [calls["begin"], events.work["begin"]]
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

"""Why a device was idle: the activity, during the gap, of the thread that launched the next work.

The cause of a gap is the first of these that holds:

- `device`: the work that ended the gap was launched before the gap began;
- `data`: the thread waited for data for at least half of it;
- `sync`: when the gap began, the thread was in a call that waits for the device, and it launched again soon after;
- `optimizer`: the thread was in an optimizer's step for at least half of it;
- `launch`: the thread had launched something just before, and this is the time between two launches;
- `host`: otherwise, the thread did something else.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.device.device_join import DeviceJoin, Launches
from aiflame.analyze.places import place_of
from aiflame.analyze.spans import Spans, union
from aiflame.attribute.arrays.chunks import take_or
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.steps import DATA, OPTIMIZER, automatic_regions
from aiflame.attribute.stacks.sample_time import sample_ns
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass


class Cause(IntEnum):
    DEVICE = 1
    DATA = 2
    SYNC = 3
    OPTIMIZER = 4
    LAUNCH = 5
    HOST = 6
    UNKNOWN = 7


SAYS = {
    Cause.DEVICE: "between kernels that were launched already",
    Cause.DATA: "waiting for data",
    Cause.SYNC: "the program had waited for the GPU",
    Cause.OPTIMIZER: "the optimizer's Python",
    Cause.LAUNCH: "waiting for the next launch",
    Cause.HOST: "other work of the program",
    Cause.UNKNOWN: "the launch is not known",
}
BLOCKING_NS = 50_000
"""A request for a copy takes 2 to 10 µs. A call that lasts longer than this waits for the end of the copy, as for a copy from pageable
memory."""
SOON_NS = 1_000_000
"""After a wait for the device, a program launches again within this time, unless it does something else."""
BETWEEN_LAUNCHES_NS = 200_000
"""An op of eager torch costs its thread 5 to 50 µs, with hooks a few times that; a longer pause has another reason."""


@dataclass(frozen=True, slots=True)
class _Calls:
    """Launches of one thread, in the order of their begins."""

    row: NDArray[np.integer] | None
    """None: all launches, in their order."""
    begin: Ints

    def last(self, moment: Ints) -> Ints:
        """The row of the last launch that began at or before each moment, -1: none."""
        at = np.searchsorted(self.begin, moment, side="right") - 1
        return at if self.row is None else take_or(self.row, at, -1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Threads:
    """The activity of each thread (process << 32 | thread)."""

    calls: dict[int, _Calls]
    waits_for_data: dict[int, Spans]
    optimizes: dict[int, Spans]
    samples: dict[int, tuple[Ints, Ints, Ints]]
    """Times and places of each thread's samples, and the time that each stands for."""
    copies: NDArray[np.bool_]
    """For each launch, whether it requests a copy."""

    @staticmethod
    def of(join: DeviceJoin) -> Threads:
        launches = join.launches
        calls = {}
        for place, thread in enumerate(launches.threads.tolist()):
            row = np.flatnonzero(launches.thread == place).astype(np.int32 if len(launches.id) < 1 << 31 else np.int64)
            if not len(row):
                continue
            begin = launches.begin_ns if len(row) == len(launches.id) else launches.begin_ns[row]
            if (begin[1:] < begin[:-1]).any():
                order = np.argsort(begin, kind="stable")
                row, begin = row[order], begin[order]
            calls[thread] = _Calls(None if begin is launches.begin_ns else row, begin)
        marked = automatic_regions(join.profile).filter(pl.col("end_ns") < LATEST)
        return Threads(calls, _regions(marked, DATA), _regions(marked, OPTIMIZER), _samples(join, set(calls)), _copies(join))


def _regions(marked: pl.DataFrame, name: str) -> dict[int, Spans]:
    parts = marked.filter(name=name).partition_by("process", "thread", as_dict=True)
    return {
        process << 32 | thread: union(*(rows[side].to_numpy() for side in ("begin_ns", "end_ns")))
        for (process, thread), rows in parts.items()
    }


def _copies(join: DeviceJoin) -> NDArray[np.bool_]:
    copies = np.zeros(len(join.launches.id), dtype=np.bool_)
    copying = (join.sites["kind"] == int(Kind.GPU_COPY)).to_numpy()
    executions = join.work.executions.filter(pl.Series(copying[join.work.executions["site"].to_numpy()])).select("site", "launch")
    process = join.sites["process"].to_numpy()[executions["site"].to_numpy()]
    row = join.launches.rows(process, executions["launch"].to_numpy().astype(np.int64))
    copies[row[row >= 0]] = True
    return copies


def _samples(join: DeviceJoin, threads: set[int]) -> dict[int, tuple[Ints, Ints, Ints]]:
    """Times, places and lengths of samples by thread, of wall-clock time if it was sampled: samples of CPU time show no waiting thread."""
    rows = join.profile.scan("cpu_samples").select(
        *(pl.col(name).cast(pl.Int64) for name in ("process", "thread", "stack")), "clock", "time_ns", ns=sample_ns().cast(pl.Int64)
    )
    samples = rows.with_columns(pl.col("time_ns").clip(upper_bound=LATEST).cast(pl.Int64)).collect()
    if (samples["clock"] == 1).any():
        samples = samples.filter(pl.col("clock") == 1)
    samples = samples.filter((pl.col("process") * (1 << 32) + pl.col("thread")).is_in(list(threads))).sort("time_ns")
    process, thread, stack = (samples[name].to_numpy() for name in ("process", "thread", "stack"))
    samples = samples.with_columns(place=place_of(join.profile, process, thread, stack))
    parts = samples.partition_by("process", "thread", as_dict=True)
    columns = ((key, (part["time_ns"].to_numpy(), part["place"].to_numpy(), part["ns"].to_numpy())) for key, part in parts.items())
    return {process << 32 | thread: arrays for (process, thread), arrays in columns}


def causes(launches: Launches, threads: Threads, idle: Spans, launch: Ints) -> tuple[NDArray[np.int8], Ints]:
    """The cause of each gap, given the launch of the work that ended it; and the call that was waiting for the device when the gap began,
    -1: none."""
    cause = np.full(len(idle), Cause.UNKNOWN, dtype=np.int8)
    call = np.full(len(idle), -1)
    queued = (launch >= 0) & (take_or(launches.end_ns, launch, 0) <= idle.begin)
    cause[queued] = Cause.DEVICE
    late = np.flatnonzero((launch >= 0) & ~queued)
    for thread, mother, rows in _by_threads(launches, launch, late):
        begin, end = idle.begin[rows], idle.end[rows]
        launched = launches.begin_ns[launch[rows]]
        half = (end - begin + 1) // 2
        of_rows = np.full(len(rows), Cause.HOST, dtype=np.int8)
        calls = threads.calls[thread]
        before = calls.last(launched - 1)
        resumed = take_or(launches.end_ns, before, 0)
        of_rows[(before >= 0) & (launched - resumed <= BETWEEN_LAUNCHES_NS)] = Cause.LAUNCH
        for one in (mother, thread):
            of_rows[_within(threads.optimizes, one, begin, end) >= half] = Cause.OPTIMIZER
        for one in (mother, thread):
            waiting = _waiting(launches, threads, one, begin)
            soon = (waiting >= 0) & (waiting != launch[rows]) & (launched - take_or(launches.end_ns, waiting, 0) <= SOON_NS)
            of_rows[soon], call[rows[soon]] = Cause.SYNC, waiting[soon]
        for one in (mother, thread):
            of_rows[_within(threads.waits_for_data, one, begin, end) >= half] = Cause.DATA
        cause[rows] = of_rows
    return cause, call


def _by_threads(launches: Launches, launch: Ints, rows: Ints) -> Iterator[tuple[int, int, Ints]]:
    """The rows for each launching thread and the thread for which it works."""
    thread, mother = launches.thread[launch[rows]], launches.mother[launch[rows]]
    key = launches.threads.tolist()
    for one in np.unique(thread).tolist():
        own = thread == one
        for other in np.unique(mother[own]).tolist():
            yield key[one], key[other], rows[own & (mother == other)]


def _within(spans: dict[int, Spans], thread: int, begin: Ints, end: Ints) -> Ints:
    return spans[thread].within(begin, end) if thread in spans else np.zeros(len(begin), dtype=np.int64)


def _waiting(launches: Launches, threads: Threads, thread: int, moment: Ints) -> Ints:
    """The call in which a thread waited for the device at each moment, -1: none."""
    if thread not in threads.calls:
        return np.full(len(moment), -1)
    last = threads.calls[thread].last(moment)
    begin, end = launches.begin_ns[last], launches.end_ns[last]
    waits = launches.waits[last] | (threads.copies[last] & (end - begin > BLOCKING_NS))
    return np.where((last >= 0) & (end >= moment) & waits, last, -1)


def places_of_calls(join: DeviceJoin, call: Ints) -> Ints:
    launches = join.launches
    thread, stack = launches.threads[launches.thread[call]], launches.stack[call].astype(np.int64)
    return place_of(join.profile, thread >> 32, thread & 0xFFFFFFFF, stack)


def sampled(launches: Launches, threads: Threads, idle: Spans, launch: Ints) -> Ints:
    """The place where the thread was for most of each gap, by its samples, before it launched the work that ended the gap; 0: none."""
    none = len(launches.threads)
    thread, mother = (take_or(of.astype(np.uint32), launch, none) for of in (launches.thread, launches.mother))
    until = np.minimum(idle.end, take_or(launches.begin_ns, launch, 0))
    rows, places, lengths = [], [], []
    for one, (times, place, ns) in threads.samples.items():
        code = int(np.searchsorted(launches.threads, one))
        here = slice(*np.searchsorted(times, [idle.begin[0], idle.end[-1]])) if len(idle) else slice(0)
        times, place, ns = times[here], place[here], ns[here]
        at = np.searchsorted(idle.begin, times, side="right") - 1
        near = np.maximum(at, 0)
        inside = (at >= 0) & (place > 0)
        inside &= (times < until[near]) & ((thread[near] == code) | (mother[near] == code)) if len(idle) else False
        rows.append(at[inside])
        places.append(place[inside])
        lengths.append(np.minimum(ns, times - idle.begin[near])[inside] if len(idle) else ns[:0])
    place_of_gap = np.zeros(len(idle), dtype=np.int64)
    columns = {"gap": rows, "place": places, "ns": lengths}
    pairs = pl.DataFrame({name: np.concatenate([*parts, place_of_gap[:0]]) for name, parts in columns.items()})
    most = (
        pairs.group_by("gap", "place")
        .agg(pl.col("ns").sum())
        .sort("ns", "place", descending=[True, False])
        .unique("gap", keep="first", maintain_order=True)
    )
    place_of_gap[most["gap"].to_numpy()] = most["place"].to_numpy()
    return place_of_gap

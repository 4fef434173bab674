"""When a device had nothing to do, and why: what the thread did meanwhile that launched the work which ended the gap.

A gap lies between two stretches of time in which anything ran on a device. Its cause is the first of these that holds:

- the work that ended it had been launched before it began: `device`;
- the thread waited for data for half of it or more: `data`;
- the thread was in a call that waits for the device when it began, and launched again soon after: `sync`;
- the thread was in an optimizer's step for half of it or more: `optimizer`;
- the thread had launched something just before: `launch`, the time between two launches;
- else the thread did something of its own: `host`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.joined import Joined, Launches
from aiflame.analyze.layer_groups import collapsed
from aiflame.analyze.occupancy import Device
from aiflame.analyze.places import place_of
from aiflame.analyze.spans import Ints, Spans, gaps, union
from aiflame.analyze.step_times import steady
from aiflame.attribute.items import LATEST
from aiflame.attribute.steps import DATA, OPTIMIZER, automatic_regions

Mask = NDArray[np.bool_]


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
"""A launch takes 2 to 10 µs; one that lasts longer than this waits for the device, as a copy from pageable memory does."""
SOON_NS = 1_000_000
"""After it has waited for the device, a program launches again within this time, unless it does something of its own."""
BETWEEN_LAUNCHES_NS = 200_000
"""An op of eager torch costs its thread 5 to 50 µs, with hooks around it some times that; a longer pause is something else."""
LONGEST = 200
"""Single gaps that are listed."""
GAPS = {
    "process": pl.Int64,
    "device": pl.String,
    "begin_ns": pl.Int64,
    "length": pl.Int64,
    "cause": pl.Int8,
    "place": pl.Int64,  # row of `places.rows` that tells gaps of one cause apart, 0: none
    "ended_at": pl.Int64,  # place of the launch that ended it
    "site": pl.Int64,  # of the work that ended it
    "sampled": pl.Int64,  # place where the thread was met most often meanwhile, 0: never
    "steady": pl.Boolean,  # in a step that is not its process's first
}
GROUPS = {
    "cause": pl.String,
    "says": pl.String,
    "file": pl.String,
    "line": pl.Int64,
    "function": pl.String,
    "own": pl.Boolean,  # the file is the program's
    "phase": pl.String,
    "layer": pl.String,
    "count": pl.Int64,
    "total": pl.Int64,
    "median": pl.Int64,
    "longest": pl.Int64,
    "share": pl.Float64,
    "step_share": pl.Float64,
}
_OF_PHASES = (Cause.DEVICE, Cause.LAUNCH, Cause.UNKNOWN)
"""Causes whose gaps are told apart by phase: there are many of them, everywhere."""


@dataclass(frozen=True, slots=True)
class IdleGaps:
    groups: pl.DataFrame
    """GROUPS: gaps of equal cause at one place, the longest in all first. `file` and `line`: what the thread did meanwhile, by its samples,
    else what it launched then. `layer`: where most of it is, indices as `*`. `share`: of the time from the first to the last activity of
    the devices; `step_share`: the part in steps, the first of each process aside, of the time of these steps."""
    longest: pl.DataFrame
    """GAPS: the LONGEST longest, with columns file, line, says and step in addition."""
    step_time: int
    """The time of steps, the first of each process aside, on all devices; 0 where there are none."""


def idle_gaps(known: Joined, used: Sequence[Device], steps: pl.DataFrame) -> IdleGaps:
    """`steps`: `occupancy.per_step`."""
    threads = _Threads.of(known)
    found = [_of_device(known, threads, device, _steady(steps, device)) for device in used]
    every = pl.concat([pl.DataFrame(schema=GAPS), *found])
    whole = sum(int(device.every.end[-1] - device.every.begin[0]) for device in used)
    step_time = sum(_steady(steps, device).total() for device in used)
    return IdleGaps(_grouped(known, every, whole, step_time), _longest(known, every, steps), step_time)


@dataclass(frozen=True, slots=True)
class _Calls:
    """Launches of one thread, in the order of their beginnings."""

    row: Ints
    begin: Ints

    def last(self, moment: Ints) -> Ints:
        """Row of the last that began at or before each moment, -1: none."""
        at = np.searchsorted(self.begin, moment, side="right") - 1
        return np.where(at >= 0, self.row[np.maximum(at, 0)], -1) if len(self.row) else np.full(len(moment), -1)


@dataclass(frozen=True, slots=True)
class _Threads:
    """What each thread (process << 32 | thread) did."""

    calls: dict[int, _Calls]
    waits_for_data: dict[int, Spans]
    optimizes: dict[int, Spans]
    samples: dict[int, tuple[Ints, Ints]]
    """Times and places of its samples."""

    @staticmethod
    def of(known: Joined) -> _Threads:
        launches = known.launches
        calls = {}
        for thread in np.unique(launches.thread).tolist():
            row = np.flatnonzero(launches.thread == thread)
            begin = launches.begin_ns[row]
            if (begin[1:] < begin[:-1]).any():
                order = np.argsort(begin, kind="stable")
                row, begin = row[order], begin[order]
            calls[thread] = _Calls(row, begin)
        marked = automatic_regions(known.profile).filter(pl.col("end_ns") < LATEST)
        return _Threads(calls, _regions(marked, DATA), _regions(marked, OPTIMIZER), _samples(known, set(calls)))


def _regions(marked: pl.DataFrame, name: str) -> dict[int, Spans]:
    parts = marked.filter(name=name).partition_by("process", "thread", as_dict=True)
    return {
        process << 32 | thread: union(*(rows[side].to_numpy() for side in ("begin_ns", "end_ns")))
        for (process, thread), rows in parts.items()
    }


def _samples(known: Joined, threads: set[int]) -> dict[int, tuple[Ints, Ints]]:
    """Of wall-clock time where that was sampled: samples of CPU time do not meet a thread that waits."""
    rows = known.profile.scan("cpu_samples").select(
        *(pl.col(name).cast(pl.Int64) for name in ("process", "thread", "stack")), "clock", "time_ns"
    )
    samples = rows.with_columns(pl.col("time_ns").clip(upper_bound=LATEST).cast(pl.Int64)).collect()
    if (samples["clock"] == 1).any():
        samples = samples.filter(pl.col("clock") == 1)
    samples = samples.filter((pl.col("process") * (1 << 32) + pl.col("thread")).is_in(list(threads))).sort("time_ns")
    process, thread, stack = (samples[name].to_numpy() for name in ("process", "thread", "stack"))
    samples = samples.with_columns(place=place_of(known.profile, known.places, process, thread, stack))
    parts = samples.partition_by("process", "thread", as_dict=True)
    return {process << 32 | thread: (part["time_ns"].to_numpy(), part["place"].to_numpy()) for (process, thread), part in parts.items()}


def _steady(steps: pl.DataFrame, device: Device) -> Spans:
    """The time of a device in steps but the first."""
    own = steady(steps.filter((pl.col("process") == device.process) & (pl.col("device") == device.name)))
    return union(own["begin_ns"].to_numpy(), own["end_ns"].to_numpy())


def _of_device(known: Joined, threads: _Threads, device: Device, steady: Spans) -> pl.DataFrame:
    idle = gaps(device.every)
    ran = device.row[np.searchsorted(device.begin, idle.end)]
    launch = known.launches.rows(np.full(len(ran), device.process), known.work.ran["launch"].to_numpy()[ran].astype(np.int64))
    site = known.work.ran["site"].to_numpy()[ran].astype(np.int64)
    ended_at = known.sites["place"].to_numpy()[site]
    cause, call = _causes(known.launches, threads, idle, launch)
    place = np.where(np.isin(cause, [int(one) for one in _OF_PHASES]), 0, ended_at)
    waited = cause == Cause.SYNC
    place[waited] = _places_of_calls(known, call[waited])
    return pl.DataFrame(
        {
            "process": np.full(len(idle), device.process),
            "device": pl.repeat(device.name, len(idle), eager=True),
            "begin_ns": idle.begin,
            "length": idle.end - idle.begin,
            "cause": cause,
            "place": place,
            "ended_at": ended_at,
            "site": site,
            "sampled": _sampled(known.launches, threads, idle, launch),
            "steady": steady.within(idle.begin, idle.end) * 2 > idle.end - idle.begin,
        },
        schema=GAPS,
    )


def _causes(launches: Launches, threads: _Threads, idle: Spans, launch: Ints) -> tuple[NDArray[np.int8], Ints]:
    """The cause of each gap, which the work of this launch ended; and the call that was waiting for the device when it began, -1: none."""
    cause = np.full(len(idle), Cause.UNKNOWN, dtype=np.int8)
    call = np.full(len(idle), -1)
    queued = (launch >= 0) & (np.append(launches.end_ns, 0)[launch] <= idle.begin)
    cause[queued] = Cause.DEVICE
    late = np.flatnonzero((launch >= 0) & ~queued)
    for thread, mother, rows in _by_threads(launches, launch, late):
        begin, end = idle.begin[rows], idle.end[rows]
        launched = launches.begin_ns[launch[rows]]
        half = (end - begin + 1) // 2
        known = np.full(len(rows), Cause.HOST, dtype=np.int8)
        calls = threads.calls[thread]
        before = calls.last(launched - 1)
        resumed = np.append(launches.end_ns, 0)[before]
        known[(before >= 0) & (launched - resumed <= BETWEEN_LAUNCHES_NS)] = Cause.LAUNCH
        for one in (mother, thread):
            known[_within(threads.optimizes, one, begin, end) >= half] = Cause.OPTIMIZER
        for one in (mother, thread):
            waiting = _waiting(launches, threads.calls.get(one), begin)
            soon = (waiting >= 0) & (waiting != launch[rows]) & (launched - np.append(launches.end_ns, 0)[waiting] <= SOON_NS)
            known[soon], call[rows[soon]] = Cause.SYNC, waiting[soon]
        for one in (mother, thread):
            known[_within(threads.waits_for_data, one, begin, end) >= half] = Cause.DATA
        cause[rows] = known
    return cause, call


def _by_threads(launches: Launches, launch: Ints, rows: Ints) -> Iterator[tuple[int, int, Ints]]:
    """Rows of each launching thread and the thread that it works for."""
    thread, mother = launches.thread[launch[rows]], launches.mother[launch[rows]]
    for one in np.unique(thread).tolist():
        own = thread == one
        for other in np.unique(mother[own]).tolist():
            yield one, other, rows[own & (mother == other)]


def _within(spans: dict[int, Spans], thread: int, begin: Ints, end: Ints) -> Ints:
    return spans[thread].within(begin, end) if thread in spans else np.zeros(len(begin), dtype=np.int64)


def _waiting(launches: Launches, calls: _Calls | None, moment: Ints) -> Ints:
    """The call in which a thread waited for the device at each moment, -1: none."""
    if calls is None:
        return np.full(len(moment), -1)
    last = calls.last(moment)
    begin, end = launches.begin_ns[last], launches.end_ns[last]
    waits = (last >= 0) & (end >= moment) & (launches.waits[last] | (end - begin > BLOCKING_NS))
    return np.where(waits, last, -1)


def _places_of_calls(known: Joined, call: Ints) -> Ints:
    thread, stack = known.launches.thread[call], known.launches.stack[call]
    return place_of(known.profile, known.places, thread >> 32, thread & 0xFFFFFFFF, stack)


def _sampled(launches: Launches, threads: _Threads, idle: Spans, launch: Ints) -> Ints:
    """Where the thread was met most often in each gap, before it launched what ended it; 0: nowhere."""
    thread, mother = (np.append(of, -1)[launch] for of in (launches.thread, launches.mother))
    until = np.minimum(idle.end, np.append(launches.begin_ns, 0)[launch])
    rows, places = [], []
    for one, (times, place) in threads.samples.items():
        at = np.searchsorted(idle.begin, times, side="right") - 1
        near = np.maximum(at, 0)
        inside = (at >= 0) & (place > 0)
        inside &= (times < until[near]) & ((thread[near] == one) | (mother[near] == one)) if len(idle) else False
        rows.append(at[inside])
        places.append(place[inside])
    found = np.zeros(len(idle), dtype=np.int64)
    met = pl.DataFrame({"gap": np.concatenate([*rows, found[:0]]), "place": np.concatenate([*places, found[:0]])})
    most = (
        met.group_by("gap", "place")
        .agg(many=pl.len())
        .sort("many", "place", descending=[True, False])
        .unique("gap", keep="first", maintain_order=True)
    )
    found[most["gap"].to_numpy()] = most["place"].to_numpy()
    return found


def _grouped(known: Joined, every: pl.DataFrame, whole: int, step_time: int) -> pl.DataFrame:
    of_sites = (
        known.sites.select("phase", layer=collapsed(pl.col("layer"))).with_row_index("site").with_columns(pl.col("site").cast(pl.Int64))
    )
    told = every.lazy().join(of_sites.lazy(), on="site", how="left", maintain_order="left")
    told = told.with_columns(of_phase=pl.when(pl.col("cause").is_in([int(one) for one in _OF_PHASES])).then("phase").otherwise(pl.lit("")))
    key = ["cause", "place", "of_phase"]
    length = pl.col("length")
    summed = told.group_by(key).agg(
        count=pl.len().cast(pl.Int64),
        total=length.sum(),
        median=length.median().round().cast(pl.Int64),
        longest=length.max(),
        in_steps=length.filter("steady").sum(),
    )
    most = [_most(told, key, by) for by in ("sampled", "ended_at", "layer", "phase")]
    groups = summed
    for one in most:
        groups = groups.join(one, on=key, how="left")
    rows = groups.collect()
    at = pl.when(pl.col("cause") == int(Cause.SYNC)).then("place").when(pl.col("sampled") > 0).then("sampled").otherwise("ended_at")
    place = rows.select(at.fill_null(0).cast(pl.Int64)).to_series().to_numpy()
    names = {int(cause): cause.name.lower() for cause in Cause}
    says = {int(cause): text for cause, text in SAYS.items()}
    return (
        rows.hstack(known.places.rows[place])
        .with_columns(
            pl.col("layer", "phase").fill_null(""),
            cause=pl.col("cause").replace_strict(names, return_dtype=pl.String),
            says=pl.col("cause").replace_strict(says, return_dtype=pl.String),
            share=pl.col("total") / max(whole, 1),
            step_share=pl.col("in_steps") / max(step_time, 1),
        )
        .sort("total", "cause", "file", "line", "phase", descending=[True, *[False] * 4])
        .select(pl.col(name).cast(kind) for name, kind in GROUPS.items())
    )


def _most(told: pl.LazyFrame, key: list[str], by: str) -> pl.LazyFrame:
    """The value of a column that most of a group's time has; of `sampled`, of those that have one."""
    rows = told.filter(pl.col("sampled") > 0) if by == "sampled" else told
    return (
        rows.group_by(*key, by if by != "phase" else pl.col("phase"))
        .agg(weight=pl.col("length").sum())
        .sort("weight", by, descending=[True, False])
        .unique(key, keep="first", maintain_order=True)
        .select(*key, by)
    )


def _longest(known: Joined, every: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    rows = every.top_k(LONGEST, by="length").sort("length", "begin_ns", descending=[True, False])
    place = rows.select(
        pl.when(pl.col("sampled") > 0).then("sampled").when(pl.col("place") > 0).then("place").otherwise("ended_at")
    ).to_series()
    says = {int(cause): text for cause, text in SAYS.items()}
    spans = steps.select("process", "device", "begin_ns", "end_ns", "step").sort("begin_ns")
    told = (
        rows.with_row_index("row")
        .sort("begin_ns")
        .join_asof(spans, on="begin_ns", by=["process", "device"], strategy="backward", check_sortedness=False)
        .sort("row")
        .with_columns(step=pl.when(pl.col("begin_ns") < pl.col("end_ns")).then("step"))
    )
    return rows.hstack(known.places.rows[place.to_numpy()].select("file", "line")).with_columns(
        told["step"], says=pl.col("cause").replace_strict(says, return_dtype=pl.String)
    )

"""Waiting in the scope of a profile: in its steady steps, if these are the scope."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.scope import steady_scope
from aiflame.analyze.spans import Spans, union
from aiflame.analyze.waiting import Waiting, threads_of, waiting
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.meaning.steady import Steady
from aiflame.values import replace


@once
def scoped_waiting(profile: Analysis) -> Waiting | None:
    """None if waits were not recorded."""
    of, steps = waiting(profile), steady_scope(profile)
    return of if of is None or steps is None else _within(of, steps)


def scoped_threads(profile: Analysis) -> pl.DataFrame:
    """`waiting.threads_of`, with the elapsed time of each in the scope."""
    threads, steps = threads_of(profile), steady_scope(profile)
    return threads if steps is None else _threads_within(threads, steps)


def _within(of: Waiting, steps: Steady) -> Waiting:
    """Waits, work and threads, cut to the steps."""
    seen = inside_steps(of.seen, "begin_ns", "end_ns", steps).filter(pl.col("inside") > 0)
    threads = _threads_within(of.threads, steps)
    part = int(threads["elapsed_ns"].sum()) / max(int(of.threads["elapsed_ns"].sum()), 1)
    return replace(
        of,
        seen=seen.with_columns(ns="inside").select(of.seen.columns),
        threads=threads,
        ready_ns=int(of.ready_ns * part),
    )


def _threads_within(threads: pl.DataFrame, steps: Steady) -> pl.DataFrame:
    lives = threads.with_columns(ended_ns=pl.col("began_ns") + pl.col("elapsed_ns"))
    cut = inside_steps(lives, "began_ns", "ended_ns", steps).with_columns(elapsed_ns=pl.col("inside").clip(lower_bound=1))
    return cut.select(threads.columns)


def _of_process(steps: Steady, process: int) -> Spans:
    mine = steps.process == process
    return union(steps.begin[mine], steps.end[mine])


def inside_steps(rows: pl.DataFrame, begin: str, end: str, steps: Steady) -> pl.DataFrame:
    """Adds a column `inside`: how much of each row's time is in the steps. A process without steps works for those that have some, and
    counts during all of their steps."""
    every = union(steps.begin, steps.end)
    own = {process: _of_process(steps, process) for process in steps.first}
    begins, ends, process = (rows[name].cast(pl.Int64).to_numpy() for name in (begin, end, "process"))
    inside = np.zeros(len(rows), dtype=np.int64)
    for number in np.unique(process).tolist():
        here = process == number
        inside[here] = own.get(number, every).within(begins[here], ends[here])
    return rows.with_columns(pl.Series("inside", inside))

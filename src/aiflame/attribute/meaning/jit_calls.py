"""Steps of programs with JAX: calls of the jitted function that takes most of the time, each until the next one.

JAX returns from a call before its work is done, so the time after a call (other functions, a wait for the result) belongs to the step.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.events import LATEST
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

FEWEST = 3
"""Fewer calls do not count as repetition."""
MOSTLY = 0.5
"""Steps must take a larger share of the time from the first call to the last, and a larger share of the steps must have the same calls in
the same order."""


@dataclass(frozen=True, slots=True)
class JitCalls:
    """Recorded calls of outermost jitted functions in one thread, in the order of time."""

    begin_ns: Ints
    end_ns: Ints
    function: Ints
    """Equal numbers: code of the same place."""

    def steps(self) -> tuple[Ints, Ints]:
        """Begins and ends of steps; none if no unit repeats."""
        none = self.begin_ns[:0], self.begin_ns[:0]
        if len(self.begin_ns) < FEWEST:
            return none
        until = np.append(self.begin_ns[1:], self.end_ns[-1])
        main = np.flatnonzero(self.function == np.argmax(np.bincount(self.function, until - self.begin_ns)))
        if len(main) < FEWEST:
            return none
        between = np.diff(main) - 1
        usual = int(np.argmax(np.bincount(between)))
        alike = main[:-1][between == usual]
        others = self.function[alike[:, None] + np.arange(1, usual + 1)]
        most = int(np.unique(others, axis=0, return_counts=True)[1].max()) if usual else len(alike)
        last = np.minimum(main + usual, np.append(main[1:], len(until)) - 1)
        begin, end = self.begin_ns[main], until[last]
        end[-1] = self.end_ns[last[-1]]
        whole = int(self.end_ns[-1] - self.begin_ns[0])
        return (begin, end) if most > MOSTLY * len(between) and int((end - begin).sum()) > MOSTLY * whole else none


def jit_calls(profile: Tables, process: int) -> dict[int, JitCalls]:
    """The calls of each thread that has some."""
    if not profile.has("jit_calls"):
        return {}
    calls = (
        profile.scan("jit_calls")
        .filter(pl.col("process") == process)
        .with_columns(pl.col("begin_ns", "end_ns").clip(upper_bound=LATEST).cast(pl.Int64))
        .filter(pl.col("begin_ns") < pl.col("end_ns"))
        .select("function", "thread", "begin_ns", "end_ns", place=pl.lit(None, dtype=pl.Int64))
    )
    names = (
        profile.scan("jit_functions")
        .filter(pl.col("process") == process)
        .with_columns(begin_ns=pl.col("time_ns").clip(upper_bound=LATEST).cast(pl.Int64))
        .select("function", "begin_ns", place=pl.struct("name", "file", "line").rank("dense").cast(pl.Int64))
    )
    named = pl.concat([names, calls], how="diagonal").sort("begin_ns", "end_ns", nulls_last=False)
    newest = pl.col("place").forward_fill().over("function").fill_null(0)
    rows = named.with_columns(newest).filter(pl.col("thread").is_not_null()).collect()
    threads = rows.partition_by("thread", as_dict=True)
    columns = ("begin_ns", "end_ns", "place")
    return {int(thread): JitCalls(*(own[name].to_numpy() for name in columns)) for (thread,), own in threads.items()}

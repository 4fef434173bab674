"""The steady steps of a profile: its steps without those that warm up, and all that other processes do at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.order import in_order
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.context import profile_steps

WARM_UP = 3.0
"""Times the median of the steps after it: a step at the beginning that is longer still compiles, or fills caches."""
FEW_STEPS = 5
"""Fewer do not show a usual length: the first one alone warms up."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Which steps are steady, by their process."""

    first: dict[int, int]
    """The first steady step of each process that has one. Empty: no step is, and everything counts."""
    begin: Ints
    """When stretches of steady steps began on hosts, in the order of time."""
    end: Ints
    process: Ints

    def of(self, process: Ints, step: Ints, time_ns: Ints) -> Mask:
        """Whether items lie in steady steps (`step` -1: in none): by their number. Threads and processes without steps work for
        those that have some: their items lie in them by their moment."""
        processes = pl.Series(process).unique().sort().to_numpy()
        least = np.array([self.first.get(number, np.iinfo(np.int64).max) for number in processes.tolist()], dtype=np.int64)
        inside: Mask = step >= (least[0] if len(least) == 1 else least[np.searchsorted(processes, process)])
        lost = np.flatnonzero(step < 0)
        for number in np.unique(process[lost]).tolist():
            here = lost[process[lost] == number]
            own = self.process == number if number in self.first else np.ones(len(self.process), dtype=np.bool_)
            begin, end = self.begin[own], np.maximum.accumulate(self.end[own])
            at = np.searchsorted(begin, time_ns[here], side="right") - 1
            inside[here] = (at >= 0) & (time_ns[here] < end[np.maximum(at, 0)]) if len(begin) else False
        return inside


@once
def steady(profile: Analysis) -> Steady:
    """By how long steps took on hosts. A host runs ahead of devices: a reader with their times keeps those instead
    (`analyze.scope`)."""
    rows = profile_steps(profile).rows
    return steady_by(rows, rows.select("process", "step", took=pl.col("end_ns") - pl.col("begin_ns")))


def steady_by(rows: pl.DataFrame, lengths: pl.DataFrame) -> Steady:
    """`rows`: `steps.Steps.rows`; `lengths`: process, step, took."""
    first = {}
    for (process,), own in in_order(lengths, "process", "step").partition_by("process", as_dict=True, maintain_order=True).items():
        warm = _warming(own["took"].to_numpy())
        if warm < len(own):
            first[int(process)] = int(own["step"][warm])
    least = pl.col("process").replace_strict(first, default=None, return_dtype=pl.Int64)
    kept = in_order(rows.select("process", "step", "begin_ns", "end_ns").filter(pl.col("step") >= least), "begin_ns")
    return Steady(first, *(kept[name].to_numpy().astype(np.int64) for name in ("begin_ns", "end_ns", "process")))


def in_steps(profile: Analysis, samples: pl.DataFrame) -> pl.DataFrame:
    """CPU samples (process, step, time_ns) with a column `steady`: 1 in steady steps, else 0."""
    inside = steady(profile).of(*(samples[name].cast(pl.Int64).to_numpy() for name in ("process", "step", "time_ns")))
    return samples.with_columns(pl.Series("steady", inside.astype(np.int32)))


def _warming(took: Ints) -> int:
    """How many steps at the beginning warm up."""
    warm = 1
    while len(took) - warm > FEW_STEPS and took[warm] > WARM_UP * np.median(took[warm + 1 :]):
        warm += 1
    return warm

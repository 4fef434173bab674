"""The steady steps of a profile: its steps without those that warm up, and the work of other processes at the same time."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.order import in_order
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.context import profile_steps
from aiflame.values import dataclass

WARM_UP = 3.0
"""A step at the beginning that takes more than this many times the median of later steps still compiles, or fills caches."""
FEW_STEPS = 5
"""Fewer steps do not show a usual length: only the first one counts as warm-up."""


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady steps of each process."""

    first: dict[int, int]
    """The first steady step of each process that has one. Empty: there is none, and all steps count."""
    begin: Ints
    """When intervals of steady steps began on hosts, in the order of time."""
    end: Ints
    process: Ints

    def of(self, process: Ints, step: Ints, time_ns: Ints) -> Mask:
        """Whether items are in steady steps, by their step number (-1: none). Threads and processes without steps work for those that have
        some, so their items count by time."""
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
    """Judged by the duration of steps on hosts. A host runs ahead of devices: a reader that has the devices' times uses those
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
    """CPU samples (process, step, time_ns) with a column `steady`: 1 in steady steps, otherwise 0."""
    inside = steady(profile).of(*(samples[name].cast(pl.Int64).to_numpy() for name in ("process", "step", "time_ns")))
    return samples.with_columns(pl.Series("steady", inside.astype(np.int32)))


def _warming(took: Ints) -> int:
    """The number of steps at the beginning that warm up."""
    warm = 1
    while len(took) - warm > FEW_STEPS and took[warm] > WARM_UP * np.median(took[warm + 1 :]):
        warm += 1
    return warm

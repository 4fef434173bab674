"""Metrics of trees that come from hardware counters: the values of sites, and the remainder."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.counters.another_run import has_another_run
from aiflame.attribute.counters.counted import Counts, counts_of_sites
from aiflame.attribute.counters.names import counters_of
from aiflame.attribute.devices.work import Work
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace

OF_ANOTHER_RUN = ", counted in another run"
MODELLED = ", modelled from the shapes of ops"


@dataclass(frozen=True, slots=True)
class Counted:
    sites: Ints
    """The value of each row of `Work.sites`."""
    remainder: pl.DataFrame
    """process, device, name, value: the part that belongs to nothing of the program; `name` says why"""
    estimated: float
    """The part of the values that was divided by estimated rates, 0 to 1."""
    another_run: bool = False
    """It was counted in another run of the program (`counters.another_run`)."""
    modelled: bool = False
    """Nothing was counted: it is the work of a model (the table `op_work`)."""

    @property
    def label(self) -> str:
        """A suffix for the metric's label, after a comma."""
        part = f"{100 * self.estimated:.0f}" if self.estimated >= 0.01 else "<1"
        divided = f", {part}% of it divided over kernels by their rates" if self.estimated else ""
        return f"{OF_ANOTHER_RUN if self.another_run else ''}{MODELLED if self.modelled else ''}{divided}"


def counted_of_sites(profile: Tables, gpu_work: Work, *metrics: str) -> Mapping[str, Counted]:
    """For each of these metrics of trees."""
    counts = counts_of_sites(profile, gpu_work, [counter for metric in metrics for counter in counters_of(metric)])
    another = has_another_run(profile)
    return {metric: replace(_sum(counts, metric, len(gpu_work.sites)), another_run=another) for metric in metrics}


def _sum(counts: Counts, metric: str, sites: int) -> Counted:
    there = [counter for counter in counters_of(metric) if counter in counts.values]
    value, estimated = (
        sum((of[counter] for counter in there), np.zeros(sites, dtype=np.int64)) for of in (counts.values, counts.estimated)
    )
    remainder = counts.remainder.filter(pl.col("metric").is_in(there)).group_by("process", "device", name="why").agg(pl.col("value").sum())
    return Counted(
        value, remainder.filter(pl.col("value") > 0).sort("process", "device", "name"), int(estimated.sum()) / max(int(value.sum()), 1)
    )

"""Metrics of trees that come from hardware counters: the values of sites, and the remainder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.counters.counted import Counts, counts_of_sites
from aiflame.attribute.counters.names import COUNTED
from aiflame.attribute.devices.work import Work
from aiflame.profile.tables.interface import Tables

NOT_OURS = "[nothing of this program]"


@dataclass(frozen=True, slots=True)
class Counted:
    sites: Ints
    """The value of each row of `Work.sites`."""
    remainder: pl.DataFrame
    """process, device, value: the part that belongs to no work of the program"""
    estimated: float
    """The part of the values that was divided by estimated rates, 0 to 1."""

    @property
    def label(self) -> str:
        """A suffix for the metric's label, after a comma."""
        part = f"{100 * self.estimated:.0f}" if self.estimated >= 0.01 else "<1"
        return f", {part}% of it divided over kernels by their rates" if self.estimated else ""


def counted_of_sites(profile: Tables, gpu_work: Work, *metrics: str) -> Mapping[str, Counted]:
    """The sums for each of these metrics of trees."""
    counts = counts_of_sites(profile, gpu_work, [counter for metric in metrics for counter in COUNTED[metric]])
    return {metric: _sum(counts, metric, len(gpu_work.sites)) for metric in metrics}


def _sum(counts: Counts, metric: str, sites: int) -> Counted:
    there = [counter for counter in COUNTED[metric] if counter in counts.values]
    value, estimated = (
        sum((of[counter] for counter in there), np.zeros(sites, dtype=np.int64)) for of in (counts.values, counts.estimated)
    )
    remainder = counts.remainder.filter(pl.col("metric").is_in(there)).group_by("process", "device").agg(pl.col("value").sum())
    return Counted(value, remainder.filter(pl.col("value") > 0).sort("process", "device"), int(estimated.sum()) / max(int(value.sum()), 1))

"""When values fell: how much of each group lies in each bin of time, or in each part of a step. Nothing is lost by spreading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.division import scaled

Ints = NDArray[np.int64]
MOST_ROWS = 2_000_000
"""Of moments, and of slots: more are too many for a page."""
MOST_BINS = 1 << 18
BINS_A_COLUMN = 100
SLOTS = 100
_SECOND = 1_000_000_000
PIECE = 1 << 22


@dataclass(frozen=True, slots=True)
class Bins:
    origin_ns: int
    bin_ns: int
    count: int

    @staticmethod
    def of(begin_ns: int, end_ns: int) -> Bins:
        """Bins of which 100 are a column of a second: of less in short runs, of more in long ones."""
        took = max(end_ns - begin_ns, 1)
        column = _SECOND
        for longer_than, width in ((5 * _SECOND, _SECOND), (600 * _SECOND, 10 * _SECOND), (7200 * _SECOND, 60 * _SECOND)):
            column = width if took > longer_than else column
        column = _SECOND // 10 if took <= 5 * _SECOND else column
        bins = Bins(begin_ns, column // BINS_A_COLUMN, -(-took // (column // BINS_A_COLUMN)))
        while bins.count > MOST_BINS:
            bins = bins.wider()
        return bins

    def wider(self) -> Bins:
        return Bins(self.origin_ns, self.bin_ns * 2, -(-self.count // 2))

    def at(self, time_ns: Ints) -> Ints:
        """The bin of each moment."""
        found: Ints = np.clip((time_ns - self.origin_ns) // self.bin_ns, 0, self.count - 1)
        return found


def spread_over(
    group: Ints, start: Ints, end: Ints, first: Ints, last: Ints, edge: Callable[[Ints, Ints], Ints], bins: int
) -> pl.DataFrame:
    """group, bin, value: the length of each interval (`start` to `end`) in each of the bins from its `first` to its `last`; `edge` tells
    where a bin of a row begins. Intervals of no length are left out."""
    inner = last - first
    whole = np.flatnonzero((inner == 0) & (end > start))
    found = [_sums(group[whole] * bins + first[whole], (end - start)[whole])]
    several = np.flatnonzero(inner > 0)
    upto = np.concatenate([[0], np.cumsum(inner[several] + 1)])
    cuts = np.unique(np.searchsorted(upto, np.arange(0, int(upto[-1]) + PIECE, PIECE)).clip(max=len(several)))
    for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        rows = several[low:high]
        many = inner[rows] + 1
        row = np.repeat(rows, many)
        bin_ = first[row] + np.arange(len(row)) - np.repeat(upto[low:high] - upto[low], many)
        opens = np.where(bin_ == first[row], start[row], edge(row, bin_))
        closes = np.where(bin_ == last[row], end[row], edge(row, bin_ + 1))
        found.append(_sums(group[row] * bins + bin_, closes - opens))
    sums = found[0] if len(found) == 1 else pl.concat(found).group_by("key").agg(pl.col("value").sum())
    return sums.select(group=pl.col("key") // bins, bin=pl.col("key") % bins, value="value")


def in_bins(group: Ints, start: Ints, end: Ints, bins: Bins) -> pl.DataFrame:
    """`spread_over` bins of time. What began before the first bin or after the last counts there."""
    begin, until = start - bins.origin_ns, end - bins.origin_ns
    first = np.clip(begin // bins.bin_ns, 0, bins.count - 1)
    last = np.clip((until - 1) // bins.bin_ns, first, bins.count - 1)
    return spread_over(group, begin, until, first, last, lambda _, at: at * bins.bin_ns, bins.count)


def in_slots(group: Ints, step: Ints, start: Ints, end: Ints, begins: Ints, ends: Ints, slots: int) -> pl.DataFrame:
    """group, step, slot, value: `spread_over` the parts of steps, of which `begins` and `ends` are told for each. What lies outside of its
    step counts at its edge."""
    length = np.maximum(ends - begins, 1)
    begin, long = begins[step], length[step]
    first = np.clip((start - begin) * slots // long, 0, slots - 1)
    last = np.clip((end - 1 - begin) * slots // long, first, slots - 1)
    key = group * max(len(begins), 1) + step

    def edge(row: Ints, slot: Ints) -> Ints:
        found: Ints = begin[row] - (-slot * long[row] // slots)
        return found

    found = spread_over(key, start, end, first, last, edge, slots)
    steps = max(len(begins), 1)
    return found.select(group=pl.col("group") // steps, step=pl.col("group") % steps, slot="bin", value="value")


def coarser_bins(moments: pl.DataFrame, bins: Bins, most: int = MOST_ROWS) -> tuple[pl.DataFrame, Bins]:
    """The moments (group, bin, and values) in bins wide enough to be few."""
    while len(moments) > most and bins.count > 1:
        bins = bins.wider()
        moments = moments.with_columns(pl.col("bin") // 2).group_by("group", "bin").agg(pl.all().sum())
    return moments, bins


def by_density(moments: pl.DataFrame, density: pl.Series, total: Ints) -> pl.Series:
    """The total of each group as whole numbers over its moments (group, bin, value, sorted by group): by value times density, or by value
    alone where all of a group's density is 0."""
    group, value = moments["group"].to_numpy().astype(np.int64), moments["value"].to_numpy().astype(np.float64)
    weight = value * density.to_numpy()
    sums = np.bincount(group, weight, len(total))
    weight = np.where(sums[group] > 0, weight, value)
    most = max(float(weight.max(initial=0.0)), 1e-300)
    whole = np.rint(weight / most * (1 << 40)).astype(np.int64)
    return pl.Series(scaled(group, whole, total[group]), dtype=pl.Int64)


def _sums(key: Ints, value: Ints) -> pl.DataFrame:
    return pl.DataFrame({"key": key, "value": value}).group_by("key").agg(pl.col("value").sum())

"""Divides intervals over bins of time, or over parts of steps. Sums stay exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from aiflame.attribute.arrays.apportion import scaled
from aiflame.attribute.arrays.row_keys import firsts, in_order, summed
from aiflame.attribute.arrays.types import Ints
from aiflame.values import dataclass

MOST_ROWS = 2_000_000
"""The most moments, and the most slots: a page cannot hold more."""
MOST_BINS = 1 << 18
BINS_A_COLUMN = 100
DENSE = 1 << 24
"""Up to this many sums are stored as an array; if there are more, only those that are not 0."""
LONGEST_STEP_NS = 1 << 54
"""Half a year: a longer step comes from a damaged profile."""
SAMPLED_ROWS = 1 << 20
BLOCK = 64
_SECOND = 1_000_000_000
PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Bins:
    origin_ns: int
    bin_ns: int
    count: int

    @staticmethod
    def of(begin_ns: int, end_ns: int) -> Bins:
        """Bins for this time. 100 bins are a column of the view, which stands for a second, or for less in short runs and more in long
        ones."""
        took = max(end_ns - begin_ns, 1)
        column = _SECOND // 10
        for longer_than, width in ((5 * _SECOND, _SECOND), (600 * _SECOND, 10 * _SECOND), (7200 * _SECOND, 60 * _SECOND)):
            column = width if took > longer_than else column
        bins = Bins(begin_ns, column // BINS_A_COLUMN, -(-took // (column // BINS_A_COLUMN)))
        while bins.count > MOST_BINS:
            bins = bins.wider()
        return bins

    def wider(self, factor: int = 2) -> Bins:
        return Bins(self.origin_ns, self.bin_ns * factor, -(-self.count // factor))

    def at(self, time_ns: Ints) -> Ints:
        """The bin of each moment."""
        bin_: Ints = np.clip((time_ns - self.origin_ns) // self.bin_ns, 0, self.count - 1)
        return bin_


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps, each divided into slots."""

    begins: Ints
    ends: Ints
    shown: Ints
    """For each step the row that shows it; a row may stand for several steps."""
    slots: int

    @property
    def length(self) -> Ints:
        length: Ints = np.clip(self.ends - self.begins, 1, LONGEST_STEP_NS)
        return length

    def slot(self, step: Ints, time_ns: Ints) -> Ints:
        """The slot of a moment in each step."""
        long = self.length[step]
        slot: Ints = np.clip(time_ns - self.begins[step], 0, long - 1) * self.slots // long
        return slot


def in_bins(group: Ints, start: Ints, end: Ints, bins: Bins) -> pl.DataFrame:
    """group, bin, value: the length of each interval (`start` to `end`) in each bin of time. Time before the first bin counts in the first,
    time after the last in the last; intervals without length are left out."""
    sums = Sums((int(group.max(initial=0)) + 1) * bins.count, len(group))
    for piece in _pieces(len(group)):
        begin, until = start[piece] - bins.origin_ns, end[piece] - bins.origin_ns
        first = np.clip(begin // bins.bin_ns, 0, bins.count - 1)
        last = np.clip((until - 1) // bins.bin_ns, first, bins.count - 1)
        _spread(sums, group[piece], begin, until, first, last, lambda _, at: at * bins.bin_ns, bins.count)
    key, value = sums.found()
    return pl.DataFrame({"group": key // bins.count, "bin": key % bins.count, "value": value})


def in_slots(steps: Steps, group: Ints, step: Ints, start: Ints, end: Ints) -> pl.DataFrame:
    """group, step (shown), slot, value: the same for the slots of steps. Steps that one row shows are summed. Time outside of its step
    counts at the step's edge."""
    rows, slots = int(steps.shown.max(initial=0)) + 1, steps.slots
    sums = Sums((int(group.max(initial=0)) + 1) * rows * slots, len(group))
    for piece in _pieces(len(group)):
        of, since, until = step[piece], start[piece], end[piece]
        begin, long = steps.begins[of], steps.length[of]
        first = steps.slot(of, since)
        last = np.maximum(steps.slot(of, until - 1), first)

        def edge(row: Ints, slot: Ints, begin: Ints = begin, long: Ints = long) -> Ints:
            moment: Ints = begin[row] - (-slot * long[row] // slots)
            return moment

        _spread(sums, group[piece] * rows + steps.shown[of], since, until, first, last, edge, slots)
    key, value = sums.found()
    step_of = key // slots
    return pl.DataFrame({"group": step_of // rows, "step": step_of % rows, "slot": key % slots, "value": value})


def _pieces(size: int) -> list[slice]:
    return [slice(low, low + PIECE) for low in range(0, size, PIECE)]


def _spread(
    sums: Sums, group: Ints, start: Ints, end: Ints, first: Ints, last: Ints, edge: Callable[[Ints, Ints], Ints], bins: int
) -> None:
    """Adds the length of each interval in each bin from its `first` to its `last`; `edge` gives the begin of a row's bin."""
    inner = last - first
    whole = np.flatnonzero((inner == 0) & (end > start))
    sums.add(group[whole] * bins + first[whole], end[whole] - start[whole])
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
        sums.add(group[row] * bins + bin_, closes - opens)


def sample_of_rows(row: Ints) -> tuple[Ints, float, int]:
    """A sample of these rows (bins or steps), in blocks of neighbouring ones: their places, how many times as many rows there are in all,
    and the length of a block."""
    size = int(row.max(initial=0)) + 1
    part = max(1, len(row) // SAMPLED_ROWS)
    block = BLOCK
    while part > 1 and block > 1 and size < 8 * block * part:
        block //= 2
    chosen = np.flatnonzero((row // block) % part == 0)
    return chosen, len(row) / max(len(chosen), 1), block


def few_enough(group: Ints, row: Ints, most: int, scale: float = 1.0, block: int = BLOCK) -> int:
    """The number of neighbouring rows, a power of 2, that must be merged so that there are at most `most` pairs of a group and a row. The
    given pairs stand for `scale` times as many."""
    size = int(row.max(initial=0)) + 1
    factor = 1
    while factor < block and _distinct(group * (size // factor + 1) + row // factor) * scale > most:
        factor *= 2
    return factor


def wide_enough(group: Ints, time_ns: Ints, bins: Bins, most: int = MOST_ROWS) -> Bins:
    """Bins of a width for which the number of moments is probably small enough."""
    row = bins.at(time_ns)
    chosen, scale, block = sample_of_rows(row)
    return bins.wider(few_enough(group[chosen], row[chosen], most, scale, block))


def coarser_bins(moments: pl.DataFrame, bins: Bins, most: int = MOST_ROWS) -> tuple[pl.DataFrame, Bins]:
    """Merges bins until the moments (group, bin, and values) are few enough."""
    while len(moments) > most and bins.count > 1:
        bins = bins.wider()
        moments = summed(moments.with_columns(pl.col("bin") // 2), ("group", "bin"))
    return moments, bins


def by_density(moments: pl.DataFrame, density: pl.Series, total: Ints) -> pl.Series:
    """Divides the total of each group into whole numbers over its moments (group, bin, value, sorted by group): in proportion to value
    times density, or to value alone where the density of a whole group is 0."""
    group, value = moments["group"].to_numpy().astype(np.int64), moments["value"].to_numpy().astype(np.float64)
    weight = value * density.to_numpy()
    sums = np.bincount(group, weight, len(total))
    weight = np.where(sums[group] > 0, weight, value)
    most = max(float(weight.max(initial=0.0)), 1e-300)
    whole = np.rint(weight / most * (1 << 40)).astype(np.int64)
    return pl.Series(scaled(group, whole, total[group]), dtype=pl.Int64)


class Sums:
    """Adds up values by keys below `size`; exact below 2^53. `rows`: about how many values will be added."""

    def __init__(self, size: int, rows: int) -> None:
        self._total = np.zeros(size) if size <= min(DENSE, 64 * rows + 1024) else None
        self._parts: list[tuple[Ints, Ints]] = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
        self._waiting = 0

    def add(self, key: Ints, value: Ints) -> None:
        if self._total is None:
            self._parts.append(_summed(key, value))
            self._waiting += len(self._parts[-1][0])
            if self._waiting > 2 * len(self._parts[0][0]) + PIECE:
                self._parts, self._waiting = [self._all()], 0
        elif len(key) > len(self._total) // 4:
            self._total += np.bincount(key, value, len(self._total))
        else:
            np.add.at(self._total, key, value.astype(np.float64))

    def found(self) -> tuple[Ints, Ints]:
        """The keys that have values, in order, and their sums."""
        if self._total is not None:
            key = np.flatnonzero(self._total)
            return key, self._total[key].astype(np.int64)
        key, value = self._all()
        there = value != 0
        return key[there], value[there]

    def _all(self) -> tuple[Ints, Ints]:
        key, value = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        return _summed(key, value)


def _summed(key: Ints, value: Ints) -> tuple[Ints, Ints]:
    order = in_order(key)
    key = key[order]
    first = firsts(key)
    return key[first], np.add.reduceat(value[order], first) if len(first) else value


def _distinct(values: Ints) -> int:
    ordered = np.sort(values)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + bool(len(ordered))

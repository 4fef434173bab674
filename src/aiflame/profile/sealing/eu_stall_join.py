"""Finds the functions of samples that have an address and a stretch of time, but no process.

A function has a sample if its code was loaded in that stretch and covers the address. Each process has addresses of its own, so several
may: then the samples are divided by the time that their kernels ran in the stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from aiflame.values import dataclass

_LATE_NS = 1_000_000_000
"""Samples of code that was unloaded may be read so much later."""

Longs = NDArray[np.int64]
Rows = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Placed:
    """A function of a process's device code, in the GPU's memory."""

    process: int
    device: str
    crc: int
    name: str
    address: int
    size: int
    begin_ns: int
    end_ns: int
    """when it was loaded and unloaded"""


@dataclass(frozen=True, slots=True)
class Share:
    """Samples of one function."""

    of: Placed | None
    """None: no code that was recorded covers their addresses."""
    offset: Longs
    reason: Longs
    count: Longs
    divided: bool = False
    """The function has a share of these samples, which others may have taken."""


class Code:
    """The functions of all processes that use a GPU."""

    def __init__(self, functions: Iterable[Placed], address_bits: int, ran_ns: Callable[[Placed, int, int], int]) -> None:
        """`address_bits`: the GPU reports so many low bits of an address. `ran_ns`: how long a kernel ran in a stretch of time."""
        self._mask, self._ran_ns = (1 << address_bits) - 1, ran_ns
        self._functions = sorted(functions, key=lambda one: one.address & self._mask)
        self._start = np.array([one.address & self._mask for one in self._functions], np.uint64)
        self._end = np.array([min((one.address & self._mask) + one.size, self._mask) for one in self._functions], np.uint64)
        self._begin_ns = np.array([one.begin_ns for one in self._functions], np.int64)
        self._end_ns = np.array([one.end_ns for one in self._functions], np.int64)

    @property
    def empty(self) -> bool:
        return not self._functions

    def nearest(self, time_ns: int) -> Placed:
        """Of the code that was loaded before the time the last; else the first."""
        earlier = [one for one in self._functions if one.begin_ns <= time_ns]
        return max(earlier, key=lambda one: one.begin_ns) if earlier else min(self._functions, key=lambda one: one.begin_ns)

    def shares(self, rows: Rows, begin_ns: int, end_ns: int) -> Iterator[Share]:
        """`rows`: address, reason and count of the samples of a stretch of time."""
        rows = rows[np.argsort(rows["address"], kind="stable")]
        alive = (self._begin_ns <= end_ns) & (self._end_ns > begin_ns)
        for low, high, functions in self._stretches(rows["address"], alive):
            if functions:
                yield from self._divided(rows[low:high], functions, begin_ns, end_ns)
            else:
                yield from self._late(rows[low:high], begin_ns)

    def _late(self, rows: Rows, begin_ns: int) -> Iterator[Share]:
        """The code that lay at an address last, if it has not been gone for long."""
        gone = (self._end_ns <= begin_ns) & (self._end_ns > begin_ns - _LATE_NS)
        for low, high, functions in self._stretches(rows["address"], gone):
            last = max(functions, key=lambda one: one.end_ns) if functions else None
            yield self._share(last, rows[low:high])

    def _stretches(self, address: NDArray[np.uint64], chosen: NDArray[np.bool_]) -> Iterator[tuple[int, int, list[Placed]]]:
        """The addresses, which are in order, in parts that the same functions cover: begin, end, functions."""
        numbers = np.flatnonzero(chosen)
        first, last = np.searchsorted(address, self._start[numbers]), np.searchsorted(address, self._end[numbers])
        covers = np.flatnonzero(last > first)
        cuts = np.unique(np.concatenate([first[covers], last[covers], [0, len(address)]])).tolist()
        for low, high in pairwise(cuts):
            inside = covers[(first[covers] <= low) & (last[covers] >= high)]
            yield low, high, [self._functions[number] for number in numbers[inside].tolist()]

    def _divided(self, rows: Rows, functions: list[Placed], begin_ns: int, end_ns: int) -> Iterator[Share]:
        if len(functions) == 1:
            yield self._share(functions[0], rows)
            return
        times = [self._ran_ns(one, max(begin_ns, one.begin_ns), min(end_ns, one.end_ns)) for one in functions]
        weights = times if any(times) else [1] * len(times)
        left = rows["count"].astype(np.int64)
        for place, one in enumerate(functions):
            mine = _part(left, weights[place], sum(weights[place:]))
            left = left - mine
            if mine.any():
                yield self._share(one, rows, mine, divided=sum(weight > 0 for weight in weights) > 1)

    def _share(self, one: Placed | None, rows: Rows, count: Longs | None = None, *, divided: bool = False) -> Share:
        count = rows["count"].astype(np.int64) if count is None else count
        start = np.uint64(one.address & self._mask if one is not None else 0)
        offset = (rows["address"] - start).astype(np.int64) if one is not None else np.zeros(len(rows), np.int64)
        some = count > 0
        return Share(one, offset[some], rows["reason"].astype(np.int64)[some], count[some], divided)


def _part(counts: Longs, weight: int, whole: int) -> Longs:
    """`weight` of `whole` of the counts, as whole numbers: their running sums are exact to one half."""
    if whole <= 0:
        return np.zeros(len(counts), np.int64)
    sums = np.floor(np.cumsum(counts) * (weight / whole) + 0.5).astype(np.int64)
    parts: Longs = np.diff(sums, prepend=0)
    return parts

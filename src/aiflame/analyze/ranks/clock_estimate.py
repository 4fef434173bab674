"""Estimates the differences between the clocks of hosts from the collectives of their ranks.

No rank leaves a barrier or an all-reduce before all have come. Each such collective bounds the difference of two clocks from both sides; a
bound is off by the time that its message took. Moreover, all ranks leave at nearly the same time. If both bounds are close, the middle
between the closest ones is used, as in NTP, so that variations of latency cancel out. If one bound is far off, because the same rank always
comes last, the median difference of the moments at which ranks leave is used. If one clock runs faster than another, its offset is a line
over time instead of a constant.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aiflame.attribute.arrays.types import Floats, Ints
from aiflame.profile.ranks.rank_of import NONE, ranks_of
from aiflame.profile.ranks.ranked import Ranked
from aiflame.profile.ranks.shifts import SAME, Shift
from aiflame.values import dataclass

FEW = 4
"""With fewer collectives there are only bounds."""
CLOSE_NS = 100_000
"""Bounds this close to each other are better than the times at which ranks leave, however similar these are."""
FASTEST = 1e-3
"""The largest relative difference between the rates of two clocks."""
_WINDOWS, _LEAST_WINDOWS, _IN_WINDOW = 64, 8, 4


@dataclass(frozen=True, slots=True)
class Meetings:
    """Collectives that no rank leaves before all have come: a row for each collective and rank in it."""

    rank: Ints
    number: Ints
    """number of the collective, equal on all its ranks and unique"""
    begin_ns: Ints
    end_ns: Ints


@dataclass(frozen=True, slots=True)
class Clock:
    """The relation of a clock to the first clock."""

    shift: Shift
    half_width_ns: int | None
    """the clock cannot be off by more than this, in either direction; None: the ranks share no collective"""
    spread_ns: int
    """standard deviation of the times at which ranks leave"""
    meetings: int
    refused: int
    """the number of meetings that contradict the others: they were matched wrongly, or a clock was set"""
    by_leaving: bool = False
    """One rank always came last, so the median of the times at which ranks left was used."""

    @property
    def residual_ns(self) -> int | None:
        """The remaining uncertainty."""
        return self.spread_ns if self.by_leaving else self.half_width_ns


FIRST = Clock(SAME, 0, 0, 0, 0)
UNKNOWN = Clock(SAME, None, 0, 0, 0)


def clocks(meetings: Meetings, clock_of: Mapping[int, int] | None = None) -> dict[int, Clock]:
    """The relation of each clock to the one with the lowest number. `clock_of`: the clock of each rank; by default each has its own."""
    ranks, row = np.unique(meetings.rank, return_inverse=True)
    of_rank = np.array([rank if clock_of is None else clock_of[int(rank)] for rank in ranks], dtype=np.int64)
    numbers = sorted({*of_rank.tolist(), *(clock_of.values() if clock_of else ())})
    seen = _seen(meetings, of_rank[row] if len(row) else of_rank, numbers)
    placed = dict.fromkeys(numbers[:1], FIRST)
    while waiting := [number for number in numbers if number not in placed]:
        nearest = {number: _nearest(seen, number, placed) for number in waiting}
        if not any(common for _, common in nearest.values()):
            return placed | dict.fromkeys(waiting, UNKNOWN)
        new = {number: _next_to(placed[other], _fit(seen[other], seen[number])) for number, (other, common) in nearest.items() if common}
        placed |= new
    return {number: placed[number] for number in numbers}


def aligned(profile: Ranked, meetings: Meetings) -> tuple[Ranked, dict[int, Clock]]:
    """The profile with the clocks of its hosts aligned by the meetings of their ranks; and the earlier clock of each rank.

    `meetings` have the times of this profile."""
    hosts = list(dict.fromkeys(part.host for part in profile.parts))
    of_process = [hosts.index(part.host) for part in profile.parts for _ in range(part.shown)]
    ranks = ranks_of(profile.table("processes"), profile.table("ranks")).tolist()
    clock_of: dict[int, int] = {}
    for rank, host in zip(ranks, of_process, strict=True):
        if rank != NONE:
            clock_of.setdefault(rank, host)
    if len(hosts) < 2:
        return profile, dict.fromkeys(clock_of, FIRST)
    of_rank = np.isin(meetings.rank, list(clock_of))
    host_clocks = clocks(
        Meetings(meetings.rank[of_rank], meetings.number[of_rank], meetings.begin_ns[of_rank], meetings.end_ns[of_rank]), clock_of
    )
    moved = profile.moved({host: host_clocks[number].shift for number, host in enumerate(hosts) if number in host_clocks})
    return moved, {rank: host_clocks[number] for rank, number in clock_of.items()}


@dataclass(frozen=True, slots=True)
class _Seen:
    """The collectives of the ranks on one clock, in its time."""

    number: Ints
    """ascending, without repetitions"""
    came: Ints
    """when the last rank came"""
    left: Ints
    """when the first rank left"""


def _seen(meetings: Meetings, clock: Ints, numbers: list[int]) -> dict[int, _Seen]:
    order = np.lexsort((meetings.number, clock))
    key = np.stack([clock[order], meetings.number[order]])
    first = np.flatnonzero(np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0)))[: len(order)]
    came = np.maximum.reduceat(meetings.begin_ns[order], first) if len(first) else meetings.begin_ns
    left = np.minimum.reduceat(meetings.end_ns[order], first) if len(first) else meetings.end_ns
    of, number = key[:, first]
    ends = np.searchsorted(of, [*numbers, np.iinfo(np.int64).max])
    parts = zip(numbers, ends[:-1], ends[1:], strict=True)
    return {each: _Seen(number[begin:end], came[begin:end], left[begin:end]) for each, begin, end in parts}


def _nearest(seen: Mapping[int, _Seen], number: int, placed: Mapping[int, Clock]) -> tuple[int, int]:
    """The first of the placed clocks, if the two share many meetings, otherwise the one with most common meetings; and their number."""
    common = {other: len(np.intersect1d(seen[number].number, seen[other].number, assume_unique=True)) for other in placed}
    first = next(iter(placed))
    best = first if common[first] >= FEW else max(common, key=lambda other: common[other])
    return best, common[best]


def _fit(first: _Seen, other: _Seen) -> Clock:
    """The relation of `other` to `first`."""
    _, mine, its = np.intersect1d(first.number, other.number, assume_unique=True, return_indices=True)
    at = int(np.median(other.left[its]))
    time = (other.left[its] - at).astype(np.float64)
    leaving = (first.left[mine] - other.left[its]).astype(np.float64)
    drift = _drift(time, leaving)
    leaving = leaving - drift * time
    least = np.sort(first.came[mine] - other.left[its] - drift * time)[::-1]
    most = np.sort(first.left[mine] - other.came[its] - drift * (other.came[its] - at))
    # As few as possible of the bounds that contradict each other are refused.
    fits = np.flatnonzero(least <= most)
    if not len(fits):
        return Clock(SAME, None, 0, len(mine), len(mine))
    refused = int(fits[0])
    low, high = float(least[refused]), float(most[refused])
    half = max(high - low, float(least[0] - most[0])) / 2
    middle = float(np.median(leaving))
    spread = 1.4826 * float(np.median(np.abs(leaving - middle)))
    by_leaving = len(mine) >= FEW and half > max(CLOSE_NS, 4 * spread)
    offset = float(np.clip(middle, low, high)) if by_leaving else (low + high) / 2
    if len(mine) < FEW:
        offset = float(np.clip(0.0, low, high))
    return Clock(Shift(round(offset), drift, at), round(half), round(spread), len(mine), refused, by_leaving)


def _drift(time: Floats, leaving: Floats) -> float:
    """How much faster one clock runs: the median slope between medians of stretches. 0 unless a line fits much better than a constant."""
    windows = min(_WINDOWS, len(time) // _IN_WINDOW)
    if windows < _LEAST_WINDOWS:
        return 0.0
    order = np.argsort(time, kind="stable")
    parts = [(float(np.median(time[part])), float(np.median(leaving[part]))) for part in np.array_split(order, windows)]
    at, value = np.array(parts).T
    one, two = np.triu_indices(windows, 1)
    apart = at[two] - at[one]
    slopes = (value[two] - value[one])[apart > 0] / apart[apart > 0]
    slope = float(np.median(slopes)) if len(slopes) else 0.0
    straight = value - slope * at
    after, before = (float(np.median(np.abs(each - np.median(each)))) for each in (straight, value))
    return slope if after < 0.7 * before and abs(slope) < FASTEST else 0.0


def _next_to(neighbour: Clock, fit: Clock) -> Clock:
    """A clock relative to the first one, from its fit to a neighbour whose clock is placed."""
    if neighbour.half_width_ns is None or fit.half_width_ns is None:
        return UNKNOWN if neighbour.half_width_ns is None else fit
    one, two = fit.shift, neighbour.shift
    offset = one.offset_ns + two.offset_ns + round((one.at_ns + one.offset_ns - two.at_ns) * two.drift)
    shift = Shift(offset, one.drift + two.drift, one.at_ns)
    return Clock(
        shift,
        fit.half_width_ns + neighbour.half_width_ns,
        round(float(np.hypot(fit.spread_ns, neighbour.spread_ns))),
        fit.meetings,
        fit.refused,
        fit.by_leaving or neighbour.by_leaving,
    )

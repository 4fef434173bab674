"""Converts cycles of a launch's multiprocessors to nanoseconds of the device's globaltimer, and estimates the cost of a record.

A record has only its multiprocessor's clock; a CTA has the globaltimer at its begin and end. No moment has both clocks, so the pace
(nanoseconds in a cycle) is derived from differences between CTAs that ran one after the other on a multiprocessor: the time before a CTA's
first record (and after its last) is the same for all, and cancels out. If each multiprocessor ran one CTA, neighbouring launches are
compared instead. In any case, the records of a CTA must fit between its begin and its end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aiflame.values import dataclass

from .decode import Ctas, Ints, Records

SLOWEST, FASTEST = 20.0, 0.2
"""Nanoseconds in a cycle: 50 MHz to 5 GHz."""
CERTAIN = 0.005
"""Relative error of a pace that counts as measured."""
RESOLUTION_NS = 32
"""Resolution of the globaltimer on Hopper; on other GPUs it ticks every microsecond, and more CTAs are needed for the same certainty."""
NEAR_NS = 50_000_000
"""Launches less than this apart are assumed to have run at the same pace."""
DEAREST = 40.0
"""In cycles, an upper bound for a record's cost (33 were measured on an H100). A larger smallest distance includes other work."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Edges:
    """The CTAs of a launch that have records, with the clocks of their first and last record."""

    ctas: Ctas
    row: Ints
    """row of each in `ctas`"""
    first: Ints
    last: Ints

    @staticmethod
    def of(decoded: Records) -> Edges:
        width = max(len(decoded.recorded), 1)
        used = np.flatnonzero(decoded.kept)
        begin = decoded.first[used]
        row = used // width
        heads = np.flatnonzero(np.append(True, row[1:] != row[:-1])[: len(row)])
        if not len(heads):
            none = np.zeros(0, dtype=np.int64)
            return Edges(decoded.ctas, none, none, none)
        first = np.minimum.reduceat(decoded.clock[begin], heads)
        last = np.maximum.reduceat(decoded.clock[begin + decoded.kept[used] - 1], heads)
        return Edges(decoded.ctas, row[heads], first, last)

    def whole(self, dropped: Ints) -> Edges:
        """The CTAs without missing records: if rings wrapped, the first remaining record is far from the CTA's begin."""
        width = max(len(dropped) // max(len(self.ctas), 1), 1)
        kept = dropped.reshape(-1, width).sum(axis=1)[self.row] == 0
        return Edges(self.ctas, self.row[kept], self.first[kept], self.last[kept])


@dataclass(frozen=True, slots=True)
class Pace:
    ns: float
    """in a cycle"""
    error: float
    """relative; infinite if it was not measured"""


def pace(edges: Edges, whole: Edges) -> Pace:
    """The pace from one launch alone. `whole`: the CTAs without missing records."""
    most = _most(edges)
    sm, begin, end = (values[whole.row] for values in (edges.ctas.sm, edges.ctas.begin, edges.ctas.before_end))
    _, of = np.unique(sm, return_inverse=True)
    group = np.concatenate([of * 2, of * 2 + 1])
    cycles, ns = np.concatenate([whole.first, whole.last]).astype(np.float64), np.concatenate([begin, end])
    count = np.bincount(group)
    if not len(count):
        return Pace(most, np.inf)
    ns_apart = (ns - ns.min()).astype(np.float64)
    dx, dy = (value - (np.bincount(group, value) / count)[group] for value in (cycles, ns_apart))
    spread, free = float((dx * dx).sum()), len(group) - len(count) - 1
    if spread <= 0 or free < 1:
        return Pace(most, np.inf)
    slope = float((dx * dy).sum()) / spread
    if not FASTEST <= slope <= SLOWEST:
        return Pace(most, np.inf)
    left = float(((dy - slope * dx) ** 2).sum()) / free + RESOLUTION_NS**2 / 12
    measured = Pace(slope, float(np.sqrt(left / spread)) / slope)
    return measured if measured.error < CERTAIN or not np.isfinite(most) else Pace(min(slope, most), measured.error)


def _most(edges: Edges) -> float:
    """The largest pace at which the records of every CTA fit between its begin and end."""
    cycles = edges.last - edges.first
    long = cycles > 0
    if not long.any():
        return float("nan")
    took = (edges.ctas.before_end - edges.ctas.begin)[edges.row][long] + RESOLUTION_NS
    return float(np.clip((took / cycles[long]).min(), FASTEST, SLOWEST))


def paces(launches: Sequence[tuple[Edges, Edges]], origins: Sequence[dict[int, int]]) -> list[Pace]:
    """The paces of successive launches of a device. `origins`: for each launch and multiprocessor, the raw clock at cycle 0."""
    alone = [pace(*one) for one in launches]
    result = list(alone)
    for place, one in enumerate(alone):
        if one.error < CERTAIN:
            continue
        near = [other for at in (place - 1, place) if 0 <= at < len(launches) - 1 if (other := _between(launches, origins, at)) is not None]
        best = min((one, *near), key=lambda each: each.error)
        if best.error >= CERTAIN and (sure := [each for each in alone if each.error < CERTAIN]):
            best = Pace(float(np.median([each.ns for each in sure])), CERTAIN)
        most = _most(launches[place][0])
        result[place] = Pace(min(best.ns, most), best.error) if np.isfinite(most) else best
    return result


def _between(launches: Sequence[tuple[Edges, Edges]], origins: Sequence[dict[int, int]], at: int) -> Pace | None:
    """The pace between two launches: progress of the globaltimer over that of the same multiprocessors' clocks."""
    (_, one), (_, two) = launches[at], launches[at + 1]
    earlier, later = _first_of_sm(one, origins[at]), _first_of_sm(two, origins[at + 1])
    both = sorted(earlier.keys() & later.keys())
    if not both:
        return None
    cycles = np.array([later[sm][0] - earlier[sm][0] for sm in both], dtype=np.float64)
    ns = np.array([later[sm][1] - earlier[sm][1] for sm in both], dtype=np.float64)
    if (cycles <= 0).any() or (ns <= 0).any() or ns.max() > NEAR_NS:
        return None
    slope = float(np.median(ns / cycles))
    if not FASTEST <= slope <= SLOWEST:
        return None
    off = float(np.median(np.abs(ns / cycles - slope))) + RESOLUTION_NS / float(ns.min())
    return Pace(slope, max(off / slope, 1e-9) + RESOLUTION_NS / float(ns.min()))


def _first_of_sm(edges: Edges, origin: dict[int, int]) -> dict[int, tuple[int, int]]:
    clocks: dict[int, tuple[int, int]] = {}
    for sm, first, begin in zip(edges.ctas.sm[edges.row].tolist(), edges.first.tolist(), edges.ctas.begin[edges.row].tolist(), strict=True):
        if sm in origin and (sm not in clocks or begin < clocks[sm][1]):
            clocks[sm] = origin[sm] + first, begin
    return clocks


def offsets(edges: Edges, ns: float) -> Floats:
    """For each CTA of the launch (row of `ctas`): globaltimer − ns · cycles on its multiprocessor, relative to the launch's first begin.

    Records are between their CTA's begin and end, which bounds the offset: the middle of the interval is used."""
    ctas = edges.ctas
    zero = int(ctas.begin.min()) if len(ctas) else 0
    sms, of = np.unique(ctas.sm, return_inverse=True)
    low, high = np.full(len(sms), -np.inf), np.full(len(sms), np.inf)
    np.maximum.at(low, of[edges.row], (ctas.begin[edges.row] - zero) - ns * edges.first)
    np.minimum.at(high, of[edges.row], (ctas.before_end[edges.row] - zero) - ns * edges.last)
    middle = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, 0.0)
    result: Floats = middle[of]
    return result


def record_cost(launches: Sequence[Records]) -> float:
    """The cost of a record in cycles: the smallest common distance between neighbouring records."""
    counted = np.zeros(256, dtype=np.int64)
    for one in launches:
        steps = np.diff(one.clock)
        same = np.diff(one.unit) == 0
        near = steps[same & (steps > 0) & (steps < len(counted))]
        counted += np.bincount(near, minlength=len(counted))
    total = int(counted.sum())
    if not total:
        return 0.0
    # Skips the smallest thousandth: a few records overlap with those of another warp.
    least = float(np.searchsorted(np.cumsum(counted), max(total // 1000, 1)))
    return least if least <= DEAREST else 0.0

"""The clocks of ranks: CLOCK_MONOTONIC counts from the start of each host.

CLOCK_REALTIME gives the difference between hosts, as precisely as they keep it; the collectives of their ranks give it better
(`analyze/ranks/clock_estimate.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aiflame.analyze.ranks.clock_estimate import Meetings, clocks
from aiflame.analyze.ranks.facts import RankFacts
from aiflame.attribute.arrays.types import Ints
from aiflame.profile.ranks.shifts import SAME, Shift
from aiflame.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clock of each rank. A rank without an entry has the first rank's clock."""

    shifts: Mapping[int, Shift] = field(default_factory=dict)
    residual_ns: Mapping[int, int | None] = field(default_factory=dict)
    """The possible error for ranks on another host than the first; None: unknown."""

    def moved(self, rank: int, moments: Ints) -> Ints:
        """Moments of a rank, converted to the clock of the first rank."""
        return self.shifts.get(rank, SAME).moments(moments)


def clocks_of(facts: Sequence[RankFacts]) -> Clocks:
    """The clocks of ranks. Those of one boot of one host have one clock."""
    return _clocks(facts, {one.rank: Shift(one.realtime_ns - facts[0].realtime_ns) for one in facts})


def residuals_of(facts: Sequence[RankFacts]) -> dict[int, int | None]:
    """The possible errors of clocks that were aligned before."""
    return dict(_clocks(facts, dict.fromkeys((one.rank for one in facts), SAME)).residual_ns)


def _clocks(facts: Sequence[RankFacts], rough: Mapping[int, Shift]) -> Clocks:
    """`rough`: the relation of each rank's clock to the first one's, to milliseconds."""
    hosts = list(dict.fromkeys((one.host, one.boot) for one in facts))
    if len(hosts) < 2:
        return Clocks()
    clock_of_host = clocks(_meetings(facts, rough), {one.rank: hosts.index((one.host, one.boot)) for one in facts})
    shifts, residuals = {}, {}
    for one in facts:
        host = hosts.index((one.host, one.boot))
        if host:
            shifts[one.rank] = rough[one.rank].then(clock_of_host[host].shift)
            residuals[one.rank] = clock_of_host[host].residual_ns
    return Clocks(shifts, residuals)


def _meetings(facts: Sequence[RankFacts], rough: Mapping[int, Shift]) -> Meetings:
    """All collectives that no rank leaves before all have come."""
    groups: dict[str, int] = {}
    parts = []
    for one in facts:
        code = np.array([groups.setdefault(group, len(groups)) for group in one.slots["group"]], dtype=np.int64)
        rows = one.collectives
        kept = one.slots["meets"].to_numpy()[rows["slot"].to_numpy()] if len(rows) else np.zeros(0, dtype=np.bool_)
        number = (
            code[rows["slot"].to_numpy()] << 32 | rows["number"].to_numpy().astype(np.int64) if len(rows) else np.zeros(0, dtype=np.int64)
        )
        moments = [rough[one.rank].moments(rows[side].to_numpy()[kept]) for side in ("begin_ns", "end_ns")]
        parts.append((np.full(int(kept.sum()), one.rank), number[kept], *moments))
    return Meetings(*(np.concatenate(column) for column in zip(*parts, strict=True)))

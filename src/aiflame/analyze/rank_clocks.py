"""The clocks of ranks: CLOCK_MONOTONIC counts from the start of each host, so that hosts differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from aiflame.analyze.rank_facts import RankFacts

ARRIVALS = {"rank": pl.Int64, "group": pl.String, "number": pl.Int64, "begin_ns": pl.Int64, "end_ns": pl.Int64}


@dataclass(frozen=True, slots=True)
class Offsets:
    offset_ns: dict[int, int]
    """By rank: what is added to its clock to have that of the first rank."""
    residual_ns: dict[int, int] = field(default_factory=dict)
    """By which it may be wrong; none where ranks have one clock."""


def by_realtime(facts: Sequence[RankFacts]) -> Offsets:
    """Ranks of one host have one clock; of others, CLOCK_REALTIME tells the difference, as well as hosts keep it."""
    if not facts:
        return Offsets({})
    first = facts[0]
    alike = {one.rank for one in facts if one.boot == first.boot}
    return Offsets({one.rank: 0 if one.rank in alike else one.realtime_ns - first.realtime_ns for one in facts})


def arrivals(facts: Sequence[RankFacts]) -> pl.DataFrame:
    """ARRIVALS at all collectives that nobody leaves before all have come, each rank by its own clock."""
    parts = [pl.DataFrame(schema=ARRIVALS)]
    for one in facts:
        slots = one.slots.with_row_index("slot").select("slot", "group", "meets")
        rows = one.collectives.join(slots, on="slot", how="left", maintain_order="left").filter("meets")
        parts.append(rows.with_columns(rank=pl.lit(one.rank)).select(pl.col(name).cast(kind) for name, kind in ARRIVALS.items()))
    return pl.concat(parts)

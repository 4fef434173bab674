"""How the clock of one host reads on another's."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .meta import Meta
from .schema import TABLES

MOMENTS = frozenset(column.name for table in TABLES for column in table.columns if column.doc.startswith("CLOCK_MONOTONIC")) | {
    "monotonic_ns"
}
"""Columns of tables that are moments on the clock of a host."""

_FURTHEST = 1 << 60
"""No clock is so far from another: 36 years."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What is to be added to a moment: a constant, and what the clock has lost since `at_ns` (as it reads itself)."""

    offset_ns: int = 0
    drift: float = 0.0
    """ns a ns"""
    at_ns: int = 0

    @property
    def none(self) -> bool:
        return self.offset_ns == 0 and self.drift == 0.0

    def then(self, further: Shift) -> Shift:
        """Both, one after the other; `further` is small: its drift is of moments that were moved by this one, whose own drift is none."""
        return Shift(self.offset_ns + further.offset_ns, self.drift + further.drift, further.at_ns - self.offset_ns)

    def moment(self, time_ns: int) -> int:
        return max(time_ns + self.offset_ns + round((time_ns - self.at_ns) * self.drift), 0) if time_ns else 0

    def of(self, column: str) -> pl.Expr:
        """The column, moved. 0 is no moment and stays; what would lie before the other host's start is its first nanosecond."""
        time = pl.col(column).cast(pl.Int64)
        moved = time + self.offset_ns
        if self.drift:
            moved = moved + ((time - self.at_ns).cast(pl.Float64) * self.drift).round().cast(pl.Int64)
        return pl.when(time == 0).then(0).otherwise(moved.clip(lower_bound=1)).cast(pl.UInt64).alias(column)


SAME = Shift()


def since_1970(meta: Meta, clocks: pl.DataFrame) -> int | None:
    """What a host's clock of the time of day is ahead of its CLOCK_MONOTONIC: the median of all readings. None: unknown."""
    told = clocks.select("monotonic_ns", "realtime_ns").rows()
    told += [(each.monotonic_ns, each.realtime_ns) for each in (meta.started, meta.ended) if each is not None]
    ahead = sorted(realtime - monotonic for monotonic, realtime in told if 0 < monotonic < _FURTHEST * 2 and 0 < realtime < _FURTHEST * 2)
    return ahead[len(ahead) // 2] if ahead else None

"""Shifts between the clocks of hosts, and their application to columns of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.all_tables import TABLES
from aiflame.values import dataclass

MOMENTS = frozenset(column.name for table in TABLES for column in table.columns if column.doc.startswith("CLOCK_MONOTONIC")) | {
    "monotonic_ns"
}
"""Names of the columns that hold a moment on the clock of a host."""

_FURTHEST = 1 << 60
"""36 years: no clock differs that much from another."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A shift of moments: a constant, plus the time that the clock has lost since `at_ns` (on that clock)."""

    offset_ns: int = 0
    drift: float = 0.0
    """nanoseconds lost in each nanosecond"""
    at_ns: int = 0

    @property
    def none(self) -> bool:
        return self.offset_ns == 0 and self.drift == 0.0

    def then(self, further: Shift) -> Shift:
        """This shift followed by `further`. Assumes that this one has no drift."""
        return Shift(self.offset_ns + further.offset_ns, self.drift + further.drift, further.at_ns - self.offset_ns)

    def moment(self, time_ns: int) -> int:
        """The shifted moment. 0 means no moment and stays; results are at least 1."""
        return max(int(self._moved(time_ns, round)), 0) if time_ns else 0

    def moments(self, time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The shifted moments, which may be negative."""
        moved: NDArray[np.int64] = self._moved(time_ns, lambda lost: np.round(lost).astype(np.int64))
        return moved

    def of(self, column: str) -> pl.Expr:
        """The shifted column. 0 means no moment and stays; a moment before the other host's start becomes its first nanosecond."""
        time = pl.col(column).cast(pl.Int64)
        moved: pl.Expr = self._moved(time, lambda lost: lost.round().cast(pl.Int64))
        return pl.when(time == 0).then(0).otherwise(moved.clip(lower_bound=1)).cast(pl.UInt64).alias(column)

    def _moved(self, time: Any, rounded: Callable[[Any], Any]) -> Any:
        """A number, an array or an expression, shifted; `rounded` converts to whole numbers of that kind."""
        moved = time + self.offset_ns
        return moved + rounded((time - self.at_ns) * self.drift) if self.drift else moved


SAME = Shift()


def since_1970(meta: Meta, clocks: pl.DataFrame) -> int | None:
    """The difference between a host's clock of the time of day and its CLOCK_MONOTONIC: the median of all readings. None: unknown."""
    readings = clocks.select("monotonic_ns", "realtime_ns").rows()
    readings += [(each.monotonic_ns, each.realtime_ns) for each in (meta.started, meta.ended) if each is not None]
    ahead = sorted(
        realtime - monotonic for monotonic, realtime in readings if 0 < monotonic < _FURTHEST * 2 and 0 < realtime < _FURTHEST * 2
    )
    return ahead[len(ahead) // 2] if ahead else None

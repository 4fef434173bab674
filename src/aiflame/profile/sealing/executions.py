"""Answers for how long a kernel of a process ran in a stretch of time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.values import dataclass

Key = tuple[int, str, str]
"""process, device, name as compiled"""
_LATEST = 1 << 62


class Executions:
    def __init__(self, tables: Mapping[int, tuple[pl.DataFrame, pl.DataFrame]]) -> None:
        """`kernel_shapes` and `kernels` of each process."""
        self._tables = tables
        self._known: dict[Key, _Times] = {}

    def ran_ns(self, key: Key, begin_ns: int, end_ns: int) -> int:
        """The sum of all executions, also of those at the same time."""
        if key not in self._known:
            process, device, name = key
            shapes, kernels = self._tables[process]
            ids = shapes.filter((pl.col("device") == device) & (pl.col("name") == name))["id"]
            self._known[key] = _Times.of(kernels.filter(pl.col("shape").is_in(ids.implode())))
        return self._known[key].before(end_ns) - self._known[key].before(begin_ns) if end_ns > begin_ns else 0


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Moments in order, and their running sum."""

    times: NDArray[np.int64]
    sums: NDArray[np.float64]

    @staticmethod
    def of(times: pl.Series) -> _Sorted:
        moments = np.sort(np.minimum(times.to_numpy(), _LATEST).astype(np.int64))
        return _Sorted(moments, np.concatenate([np.zeros(1), np.cumsum(moments - _first(moments), dtype=np.float64)]))

    def passed(self, moment: int) -> int:
        """The sum of the times that have passed since those before the moment."""
        count = int(np.searchsorted(self.times, moment))
        return round(count * (moment - _first(self.times)) - float(self.sums[count]))


@dataclass(frozen=True, slots=True)
class _Times:
    starts: _Sorted
    ends: _Sorted

    @staticmethod
    def of(kernels: pl.DataFrame) -> _Times:
        sound = kernels.filter(pl.col("end_ns") >= pl.col("start_ns"))
        return _Times(_Sorted.of(sound["start_ns"]), _Sorted.of(sound["end_ns"]))

    def before(self, moment: int) -> int:
        """For how long the executions ran before the moment."""
        return self.starts.passed(moment) - self.ends.passed(moment)


def _first(moments: NDArray[np.int64]) -> int:
    return int(moments[0]) if len(moments) else 0

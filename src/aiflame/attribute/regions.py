"""Regions that a program marks: when each began and ended, and in which ones a thread was at a moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.growth import Forest
from aiflame.attribute.stacks import Tables
from aiflame.attribute.tree import frame_table


@dataclass(frozen=True, slots=True)
class Regions:
    forest: Forest
    """Region paths, outermost first. Node 0: in no region."""
    intervals: pl.DataFrame

    def paths(self, process: NDArray[np.int64], thread: NDArray[np.int64], time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The region path (node of `forest`) in which a thread was at each moment."""
        return np.zeros(len(process), dtype=np.int64)


def regions(profile: Tables) -> Regions:
    """The regions that the program marked itself."""
    return Regions(Forest.of_frames(frame_table([])[1:]), pl.DataFrame())

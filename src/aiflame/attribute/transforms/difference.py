"""Two profiles in one tree."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.stacks.process_frames import unnumbered
from aiflame.attribute.tree import FRAME_COLUMNS, Metric, Tree, assemble

BASE, NEW = "base", "new"
SAME = ["name", "kind", "file", "module", "full_name"]
"""Frames of two runs are the same if these columns are equal. The line is not one of them: it moves when a file is edited."""


def diff(base: Tree, new: Tree, metric: str, *, normalize: bool = False) -> Tree:
    """A tree with the metrics `base` and `new`, in which equal frames of both are merged; numbers of processes and threads are left out for
    that.

    `normalize` scales the base to the total of `new`, for runs of unequal length.
    """
    before, after = base.values[metric], new.values[metric]
    if normalize:
        before = _scaled(before, int(after.sum()))
    # One tree with unordered nodes: both under one root, the new nodes after the base's.
    shift = len(base) - 1
    parent = np.concatenate([base.parent, np.where(new.parent[1:] > 0, new.parent[1:] + shift, 0)]).astype(np.int32)
    frame = np.concatenate([base.frame, new.frame[1:] + len(base.frames)]).astype(np.uint32)
    values = {
        BASE: np.concatenate([before, np.zeros(len(new) - 1, dtype=np.int64)]),
        NEW: np.concatenate([after[:1], np.zeros(shift, dtype=np.int64), after[1:]]),
    }
    unit = new.metric(metric)
    metrics = (Metric(BASE, unit.unit, f"{unit.label}, before"), Metric(NEW, unit.unit, f"{unit.label}, now"))
    return assemble(_aligned(base.frames, new.frames), parent, frame, values, metrics)


def _aligned(base: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """The frames of both, those of the base first; frames of the same function are equal."""
    frames = unnumbered(pl.concat([base, new]))
    return frames.with_columns(pl.col("line").last().over(SAME), pl.col("approximate").any().over(SAME)).select(list(FRAME_COLUMNS))


def _scaled(values: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """The values in proportion, with the exact sum `total`: running sums are rounded, so errors do not add up."""
    running = np.cumsum(values)
    if not len(running) or running[-1] == 0:
        return values
    reached = np.rint(running.astype(np.longdouble) * total / running[-1]).astype(np.int64)
    reached[-1] = total
    scaled: NDArray[np.int64] = np.diff(reached, prepend=0)
    return scaled

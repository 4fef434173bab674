"""Groupings by meaning: they put frames between a process and its code, or in place of its code."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest, NodeIds, TreeBuilder
from aiflame.attribute.tree import Frame, frame_table
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

STEADY = "steady"
"""A column: 1 in steady steps (`meaning.steady`), otherwise 0."""
STEADY_FRAME = Frame("steady steps", Kind.UNATTRIBUTED)


@dataclass(frozen=True, slots=True)
class Prefix:
    columns: tuple[str, ...]
    """Columns of `context.CONTEXT`, `family` or STEADY, from the outermost."""
    code: bool = False
    """Threads, Python and native functions follow; otherwise only the kernel, or the innermost function."""


BY_CODE_AND_MEANING = Prefix(("phase", "layer", "op"), code=True)
"""Without the step: each launch has a step, and every site would be repeated in each of them."""


def in_steady_steps(by: Prefix | None) -> Prefix:
    """The same grouping, with work in steady steps separated, so that `trees.steady_part` can extract it."""
    return Prefix((STEADY, *(by.columns if by is not None else ())), by is None or by.code)


def add_prefix(builder: TreeBuilder, place: NodeIds, rows: pl.DataFrame, prefix: Prefix, forests: Mapping[str, Forest]) -> NodeIds:
    """Adds a frame for each column of the prefix under each node. Rows without a value get `[no step]` … only where siblings have one."""
    for column in prefix.columns:
        node = rows[column].cast(pl.Int64).to_numpy()
        if column == "step":
            forest, node = _steps(node)
        else:
            forest = forests.get(column) or _STEADY
        shared = np.isin(place, np.unique(place[node > 0]))
        none = Forest.of_frames(frame_table([Frame(f"[no {column}]", Kind.UNATTRIBUTED)])[1:])
        without = builder.add(place, none, ((node == 0) & shared).astype(np.int64))
        place = np.where(node == 0, without, builder.add(place, forest, node))
    return place


_STEADY = Forest.of_frames(frame_table([STEADY_FRAME])[1:])


def _steps(step: Ints) -> tuple[Forest, Ints]:
    """Frames of the steps that occur (there may be millions), and the node of each row, 0 without a step."""
    there = nodes.distinct(step[step >= 0])
    forest = Forest.of_frames(frame_table([Frame(f"Step.{number}", Kind.STEP) for number in there.tolist()])[1:])
    return forest, np.where(step >= 0, np.searchsorted(there, step) + 1, 0)

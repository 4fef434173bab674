"""Parts of a tree's chains of frames, as forests over one table of frames. The report's page joins them into the chains of a grouping."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest
from aiflame.attribute.tree import FRAME_COLUMNS, ROOT, Tree
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """A forest in depth-first order. Node 0 is unused."""

    parent: NDArray[np.int32]
    """0 for an outermost frame, and for node 0; otherwise smaller than the node."""
    frame: NDArray[np.uint32]
    """Row of the common frames; 0 for node 0."""


def forest_of(tree: Tree) -> Forest:
    """A tree without its root."""
    return Forest(tree.frames, tree.parent, tree.frame)


def segments(parts: Mapping[str, tuple[Forest, Ints]]) -> tuple[pl.DataFrame, dict[str, Segment], dict[str, Ints]]:
    """The given nodes of each forest, with those above them: the common frames (FRAME_COLUMNS, row 0 unused), each part's segment, and the
    new numbers of the given nodes."""
    pruned = {name: _pruned(forest, node) for name, (forest, node) in parts.items()}
    tables = [forest.frames[np.unique(forest.frame[1:])].select(list(FRAME_COLUMNS)) for forest, _ in pruned.values()]
    # In this order neighbours have much text in common.
    frames = pl.concat(tables).unique().sort("kind", "module", "file", "name", "line", "full_name", "approximate")
    numbered = frames.with_row_index("row", offset=1)
    by_name, named = {}, {}
    for name, (forest, node) in pruned.items():
        rows = forest.frames.select(list(FRAME_COLUMNS)).join(numbered, on=list(FRAME_COLUMNS), how="left", maintain_order="left")["row"]
        row = np.append(rows.fill_null(0).to_numpy(), 0)[forest.frame].astype(np.uint32)
        row[0] = 0
        parent, frame, place = nodes.merge_siblings(forest.parent, row)
        order, _ = nodes.preorder(parent)
        above = np.zeros(len(parent), dtype=np.int32)
        above[order] = order[np.maximum(parent, 0)]
        of_node = np.zeros(len(parent), dtype=np.uint32)
        of_node[order] = frame
        by_name[name] = Segment(above, of_node)
        named[name] = order[place[node]]
    unused = pl.DataFrame([tuple(ROOT)], schema=dict(FRAME_COLUMNS), orient="row")
    return pl.concat([unused, frames]), by_name, named


def _pruned(forest: Forest, node: Ints) -> tuple[Forest, Ints]:
    """The forest of the given nodes and their ancestors, and the new numbers of the given nodes."""
    named = np.zeros(len(forest.parent), dtype=np.int64)
    named[node] = 1
    kept = nodes.sum_up(forest.parent, named) > 0
    kept[0] = True
    number = np.cumsum(kept) - 1
    parent = number[np.maximum(forest.parent[kept], 0)].astype(np.int32)
    parent[0] = -1
    frame = forest.frame[kept].copy()
    frame[0] = 0
    return Forest(forest.frames, parent, frame), number[node]

"""The part of a tree that belongs to steady steps."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Mask
from aiflame.attribute.prefixes import STEADY_FRAME
from aiflame.attribute.transforms.reshape import hide_nodes, subset
from aiflame.attribute.tree import Tree


def steady_part(tree: Tree) -> Tree:
    """The work in steady steps, from a tree that is grouped by `prefixes.in_steady_steps`."""
    inside = nodes.nearest(tree.parent, _marks(tree)) >= 0
    kept = nodes.sum_up(tree.parent, inside.astype(np.int64)) > 0
    kept[0] = True
    values = {name: np.where(inside, value, 0) for name, value in tree.values.items()}
    part = subset(tree, kept, tree.parent, values)
    return hide_nodes(part, _marks(part))


def _marks(tree: Tree) -> Mask:
    mark = (pl.col("name") == STEADY_FRAME.name) & (pl.col("kind") == int(STEADY_FRAME.kind))
    marks: Mask = tree.frames.select(mark).to_series().to_numpy()[tree.frame]
    return marks

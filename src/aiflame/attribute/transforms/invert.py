"""The tree bottom-up: the functions that spent the time, and below each its callers."""

from __future__ import annotations

import numpy as np

from aiflame.attribute.arrays import nodes
from aiflame.attribute.transforms.reshape import hide_nodes
from aiflame.attribute.tree import Tree, assemble
from aiflame.profile.schema.kinds import Kind


def inverted_for_reading(tree: Tree) -> Tree:
    """Inverts a tree. A GPU's samples begin with their stall reasons: offsets are left out, since they mean nothing outside of their
    kernel."""
    return invert(hide_nodes(tree, tree.kinds() == Kind.GPU_OFFSET))


def invert(tree: Tree) -> Tree:
    """Reverses every stack, and puts its value at the new end; inverting twice gives the original tree.

    All nodes with a value move outwards together, one caller in each round, and are merged where their paths are the same.
    """
    source = np.flatnonzero(np.any([value != 0 for value in tree.values.values()], axis=0))
    cursor, place = source.astype(np.int64), np.zeros(len(source), dtype=np.int64)
    parents, frames, count = [np.array([-1])], [np.array([0])], 1
    climbing = np.flatnonzero(cursor > 0)
    while len(climbing):
        merged, which = np.unique(place[climbing] << 32 | tree.frame[cursor[climbing]], return_inverse=True)
        parents.append(merged >> 32)
        frames.append(merged & 0xFFFFFFFF)
        place[climbing] = count + which
        count += len(merged)
        cursor[climbing] = tree.parent[cursor[climbing]]
        climbing = climbing[cursor[climbing] > 0]
    values = {name: nodes.gather(place, value[source], count) for name, value in tree.values.items()}
    return assemble(tree.frames, np.concatenate(parents).astype(np.int32), np.concatenate(frames).astype(np.uint32), values, tree.metrics)

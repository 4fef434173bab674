"""The building blocks of transforms: remove nodes from a tree, and move their values up or drop them."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Mask
from aiflame.attribute.tree import Tree, assemble, merged
from aiflame.errors import AiflameError


def hide_nodes(tree: Tree, hidden: Mask) -> Tree:
    """Removes the marked nodes: their callees move to their callers, which also get their values. The root stays."""
    if not hidden[1:].any():
        return tree
    shown, place = without_nodes(tree, hidden)
    values = {name: nodes.gather(place, value, len(shown)) for name, value in tree.values.items()}
    return shown.with_values(values, tree.metrics)


def without_nodes(tree: Tree, hidden: Mask) -> tuple[Tree, NDArray[np.int32]]:
    """The tree without the marked nodes and without any metric; and for each old node the new one that gets its value."""
    shown = ~hidden
    shown[0] = True
    at = nodes.nearest(tree.parent, shown)
    above = nodes.nearest(tree.parent, shown, strict=True)
    number = np.cumsum(shown, dtype=np.int32) - np.int32(1)
    parent = number[above[shown]]
    parent[0] = -1
    new, place = merged(tree.frames, parent, tree.frame[shown])
    return new, place[number[at]]


def subset(tree: Tree, kept: Mask, above: NDArray[np.int32], values: dict[str, NDArray[np.int64]]) -> Tree:
    """The kept nodes, each under the kept node in `above` (an index of the old tree; the root's is -1)."""
    place = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    parent = place[above[kept]]
    parent[0] = -1
    return assemble(tree.frames, parent, tree.frame[kept], {name: value[kept] for name, value in values.items()}, tree.metrics)


def matching(tree: Tree, pattern: str) -> Mask:
    """Nodes whose name or full name contains the regular expression; never the root."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise AiflameError(f"{pattern!r} is not a regular expression: {error}") from None
    matches = [
        bool(compiled.search(name) or (full and compiled.search(full))) for name, full in tree.frames.select("name", "full_name").rows()
    ]
    mask: Mask = np.array(matches, dtype=np.bool_)[tree.frame]
    mask[0] = False
    return mask

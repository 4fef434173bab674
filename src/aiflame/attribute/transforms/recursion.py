"""Merges recursion: a function that calls itself, directly or through others, takes one place in a stack instead of many."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.transforms.reshape import subset
from aiflame.attribute.tree import Tree
from aiflame.profile.schema.kinds import Kind

LONGEST_CYCLE = 6
"""The most functions in a cycle that is recognized as recursion."""
_CODE = [int(Kind.PYTHON), int(Kind.C), int(Kind.CPP)]


def merge_recursion(tree: Tree, longest: int = LONGEST_CYCLE) -> Tree:
    """Merges repeated calls: a run that repeats itself at once (`a a`, `a b a b`, `a b c a b c` …) is merged into its first turn.

    A function that appears twice with different callees in between (`a b c a d`) is not merged.
    """
    code = tree.frames.select(pl.col("kind").is_in(_CODE)).to_series().to_numpy()[tree.frame]
    # `place` is the node to which a node's own value and callees move; a node that is not its own place is removed. `above` is the caller
    # of a place.
    place = np.arange(len(tree), dtype=np.int32)
    above = tree.parent.copy()
    # For each period p, how many consecutive frames up to here equal the frame p callers above: p of them are a full repeat.
    repeats = np.zeros((longest + 1, len(tree)), dtype=np.uint8)
    for level in list(nodes.levels(tree.depths()))[1:]:
        caller = place[tree.parent[level]]
        above[level] = caller
        undecided = code[level]
        ancestor = caller
        for period in range(1, longest + 1):
            same = undecided & (tree.frame[ancestor] == tree.frame[level]) & (ancestor > 0)
            count = np.where(same, np.minimum(repeats[period][caller], longest) + 1, 0).astype(np.uint8)
            repeats[period][level] = count
            full = count >= period
            place[level[full]] = ancestor[full]
            undecided = undecided & ~full
            if not undecided.any():
                break
            ancestor = np.maximum(above[ancestor], 0)
    kept = place == np.arange(len(tree))
    values = {name: nodes.gather(place, value, len(tree)) for name, value in tree.values.items()}
    return subset(tree, kept, above, values)

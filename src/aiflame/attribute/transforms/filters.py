"""Filters of a tree: functions from Tree to Tree that never change their argument, nor any total unless they say so."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.metrics import WITH_IDLE
from aiflame.attribute.transforms.reshape import hide_nodes, matching, subset
from aiflame.attribute.tree import FRAME_COLUMNS, Frame, Tree, assemble, frame_table
from aiflame.profile.schema.kinds import Kind
from aiflame.values import replace


def hide(tree: Tree, which: str | pl.Expr) -> Tree:
    """Removes the frames that a regular expression finds, or that an expression over FRAME_COLUMNS selects. Their time counts for their
    callers; the total stays."""
    if isinstance(which, str):
        return hide_nodes(tree, matching(tree, which))
    return hide_nodes(tree, tree.frames.select(which.cast(pl.Boolean)).to_series().to_numpy()[tree.frame])


def focus(tree: Tree, pattern: str) -> Tree:
    """Keeps only the frames that match a regular expression, as outermost frames, and their callees. The new total is the matched part of
    the old one; a match within a match counts once."""
    matches = matching(tree, pattern)
    inside = nodes.nearest(tree.parent, matches) >= 0
    outermost = matches & ~(nodes.nearest(tree.parent, matches, strict=True) >= 0)
    inside[0] = True
    above = np.where(outermost, 0, tree.parent).astype(np.int32)
    not_root = np.arange(len(tree)) > 0
    values = {name: value * not_root for name, value in tree.values.items()}
    return subset(tree, inside, above, values)


def without(tree: Tree, pattern: str) -> Tree:
    """Removes the frames that match a regular expression and all their callees. The total decreases by the total of `focus`."""
    outside = ~(nodes.nearest(tree.parent, matching(tree, pattern)) >= 0)
    return subset(tree, outside, tree.parent, dict(tree.values))


def without_idle(tree: Tree) -> Tree:
    """Removes idle time of devices: the total is the time of kernels and copies."""
    idle = tree.kinds() == Kind.GPU_IDLE
    metrics = tuple(replace(metric, label=metric.label.removesuffix(WITH_IDLE)) for metric in tree.metrics)
    if not idle.any():
        return replace(tree, metrics=metrics)
    return replace(subset(tree, ~idle, tree.parent, dict(tree.values)), metrics=metrics)


def prune(tree: Tree, share: float, metric: str | None = None) -> Tree:
    """Merges siblings with less than this share of the total into one frame, `[… 12 smaller]`, with the number of nodes in it. The total
    stays."""
    total = tree.totals(metric or tree.metrics[0].name)
    small = total < share * int(total[0])
    small[0] = False
    small = nodes.nearest(tree.parent, small) >= 0  # nodes below may be large in another metric
    if not small.any():
        return tree
    keeper = nodes.nearest(tree.parent, ~small)
    count = np.bincount(keeper[small], minlength=len(tree))
    folders = np.flatnonzero(count)

    kept = np.flatnonzero(~small)
    place = np.zeros(len(tree), dtype=np.int32)
    place[kept] = np.arange(len(kept))
    folder_place = np.zeros(len(tree), dtype=np.int32)
    folder_place[folders] = len(kept) + np.arange(len(folders))
    counts, row = np.unique(count[folders], return_inverse=True)
    labels = frame_table([Frame(f"[… {number} smaller]", Kind.UNATTRIBUTED) for number in counts.tolist()])[1:]

    parent = np.concatenate([place[tree.parent[kept]], place[folders]])
    parent[0] = -1
    frame = np.concatenate([tree.frame[kept], len(tree.frames) + row])
    to = np.where(small, folder_place[keeper], place)
    values = {name: nodes.gather(to, value, len(parent)) for name, value in tree.values.items()}
    frames = pl.concat([tree.frames.select(list(FRAME_COLUMNS)), labels])
    return assemble(frames, parent.astype(np.int32), frame.astype(np.uint32), values, tree.metrics)

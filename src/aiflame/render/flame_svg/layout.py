"""The layout of a flame graph: its frames as columns in depth-first order, computed without a loop over nodes.

Siblings are ordered by name, so that two profiles of one program look alike, numbers in names as numbers (`layers.2` before `layers.10`);
idle time and unattributed frames come last. The report's worker (`web/report/worker/rpc_flame.js`) uses the same order.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.tree import Kind, Tree
from aiflame.values import dataclass

MAX_NODES = 1_000_000
"""If there are more nodes, the narrowest are folded into their callers: the browser stays fast, and totals stay the same."""
DIGITS = 20
"""Shorter numbers in names are compared as numbers."""
_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Layout:
    """The kept nodes in depth-first order: a node's subtree follows it. Row 0 is the root. Values have one row for each metric."""

    depth: NDArray[np.int32]
    frame: NDArray[np.uint32]
    parent: NDArray[np.int32]
    """-1 for the root."""
    own: NDArray[np.int64]
    total: NDArray[np.int64]
    folded: NDArray[np.int64]
    """The part of a node's total in callees that were folded."""
    start: NDArray[np.int64]
    """Left edge, in units of the first metric."""
    name_rank: NDArray[np.int64]
    """The rank of each frame of the tree among siblings."""
    folded_nodes: int
    """The number of nodes with a value that were folded."""

    def __len__(self) -> int:
        return len(self.depth)


def lay_out(tree: Tree, metrics: tuple[str, ...], max_nodes: int = MAX_NODES, min_share: float = 0.0) -> Layout:
    """Lays out the nodes of `tree`; widths come from the first metric. Nodes below `min_share` of every metric's total are folded."""
    own = np.stack([tree.values[name].astype(np.int64) for name in metrics])
    total = np.stack([nodes.sum_up(tree.parent, row) for row in own])

    kept = _kept(total, max_nodes, min_share)
    folded_nodes = int(np.count_nonzero(total.any(axis=0) & ~kept))
    rows = np.flatnonzero(kept)
    renumbered = np.full(len(tree), -1, dtype=np.int32)
    renumbered[rows] = np.arange(len(rows), dtype=np.int32)
    parent = np.where(tree.parent[rows] >= 0, renumbered[np.maximum(tree.parent[rows], 0)], np.int32(-1))
    frame, own, total = tree.frame[rows], own[:, rows], total[:, rows]

    # A value that is neither a node's own nor in a kept child was folded.
    below = np.stack([nodes.gather(parent[1:], row[1:], len(rows)) for row in total])
    folded = total - own - below

    name_rank = _name_rank(tree.frames)
    place, _ = nodes.preorder(parent, name_rank[frame])
    order = np.empty(len(rows), dtype=np.int64)
    order[place] = np.arange(len(rows))
    parent = np.concatenate(([-1], place[parent[order[1:]]])).astype(np.int32)
    return Layout(
        depth=nodes.depths(parent),
        frame=frame[order],
        parent=parent,
        own=own[:, order],
        total=total[:, order],
        folded=folded[:, order],
        start=_left_edges((own + folded)[0][order], parent),
        name_rank=name_rank,
        folded_nodes=folded_nodes,
    )


def _kept(total: NDArray[np.int64], max_nodes: int, min_share: float) -> NDArray[np.bool_]:
    """Nodes that are large enough in some metric. A callee is never larger than its caller, so the kept nodes are a tree."""
    share: NDArray[np.float64] = (total / np.maximum(total[:, :1], 1)).max(axis=0)
    kept: NDArray[np.bool_] = (share > 0) & (share >= min_share)
    if np.count_nonzero(kept) > max_nodes:
        at = len(share) - max_nodes - 1
        kept &= share > np.partition(share, at)[at]
    kept[0] = True
    return kept


def _name_rank(frames: pl.DataFrame) -> NDArray[np.int64]:
    """A distinct number for each frame, in the order of siblings."""
    padded = pl.Series([_NUMBER.sub(_padded, name) for name in frames["name"].to_list()], dtype=pl.String)
    names = padded.rank("ordinal").to_numpy()
    last = np.isin(frames["kind"].to_numpy(), (int(Kind.GPU_IDLE), int(Kind.UNATTRIBUTED)))
    rank = np.empty(len(frames), dtype=np.int64)
    rank[np.lexsort((names, last))] = np.arange(len(frames))
    return rank


def _padded(number: re.Match[str]) -> str:
    return number[0].zfill(DIGITS)


def _left_edges(inside: NDArray[np.int64], parent: NDArray[np.int32]) -> NDArray[np.int64]:
    """The left edge of each node: the sum of values inside the nodes before it, without its callers' own, since a callee starts at its
    caller's edge.

    The sum over the callers uses jumps that double in length.
    """
    callers = np.where(parent >= 0, inside[np.maximum(parent, 0)], 0)
    above = np.maximum(parent, 0)
    while above.any():
        callers += callers[above]
        above = above[above]
    left: NDArray[np.int64] = np.cumsum(inside) - inside - callers
    return left

"""Builds a tree by adding stacks, kernels and the frames inside them under existing nodes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.tree import FRAME_COLUMNS, ROOT, Metric, Tree, assemble, frame_table, merged
from aiflame.values import dataclass

NodeIds = NDArray[np.int64]
"""Numbers of nodes in a tree that is being built."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Frames to be added under a node: stacks as one trie, in which callers come first, level by level. Node 0 adds no frame."""

    frames: pl.DataFrame
    """FRAME_COLUMNS"""
    parent: NDArray[np.int32]
    """-1 for node 0, 0 for an outermost frame."""
    frame: NDArray[np.uint32]
    """Row of `frames`."""

    @staticmethod
    def of_frames(frames: pl.DataFrame) -> Forest:
        """A forest of single frames: the node of row n is n + 1."""
        rows = np.arange(-1, len(frames))
        return Forest(frames, np.where(rows < 0, -1, 0).astype(np.int32), np.maximum(rows, 0).astype(np.uint32))

    @staticmethod
    def of_chains(parent: NDArray[np.int64], frames: pl.DataFrame) -> tuple[Forest, NDArray[np.int64]]:
        """Builds a forest from unordered nodes, given by their parents' numbers (-1: none) and frames; and returns the node of each."""
        size = len(parent)
        columns = list(FRAME_COLUMNS)
        distinct = frames.select(columns).unique(maintain_order=True)
        row = frames.join(distinct.with_row_index("row"), on=columns, how="left", maintain_order="left")["row"].to_numpy()
        above = np.concatenate([[-1], np.where(parent < 0, 0, parent + 1)]).astype(np.int32)
        merged, frame, place = nodes.merge_siblings(above, np.concatenate([[0], row]).astype(np.uint32))
        return Forest(distinct, merged, frame), place[1 : size + 1].astype(np.int64)

    def with_roots(self, frames: pl.DataFrame) -> Forest:
        """The forest with a node for each of these frames added, as outermost frames; the other nodes keep their numbers."""
        return Forest(
            pl.concat([self.frames.select(frames.columns), frames]),
            np.append(self.parent, np.zeros(len(frames), dtype=np.int32)),
            np.append(self.frame, len(self.frames) + np.arange(len(frames), dtype=np.uint32)).astype(np.uint32),
        )

    def paths(self) -> list[str]:
        """The path of each node as text, from the outermost frame on: `layers.3.attn`; "" for node 0."""
        names = self.frames["name"].to_list()
        paths = [""]
        for above, frame in zip(self.parent[1:].tolist(), self.frame[1:].tolist(), strict=True):
            paths.append(f"{paths[above]}.{names[frame]}" if above > 0 else names[frame])
        return paths

    def within(self, outer: NDArray[np.int64], inner: NDArray[np.int64]) -> tuple[Forest, NDArray[np.int64]]:
        """Adds each `inner` path on top of its `outer` path, without the beginning that both share: a forest with these paths too, and
        their nodes."""
        result = np.where(inner > 0, inner, outer)
        both = (inner > 0) & (outer > 0) & (inner != outer)
        wanted = inner[both] << 32 | outer[both]
        pairs = nodes.with_callers(self.parent, nodes.distinct(wanted))
        node, part = pairs >> 32, pairs & 0xFFFFFFFF
        shared, above = np.zeros(len(pairs), dtype=np.bool_), part
        while above.any():
            shared |= above == node
            above = np.maximum(self.parent[above], 0)
        number = np.where(shared, part, len(self.parent) + np.cumsum(~shared) - 1)
        caller = self.parent[node].astype(np.int64)
        at = np.minimum(np.searchsorted(pairs, caller << 32 | part), max(len(pairs) - 1, 0))
        parent = np.where(caller > 0, number[at], part)[~shared]
        merged, frame, place = nodes.merge_siblings(
            np.concatenate([self.parent, parent]).astype(np.int32),
            np.concatenate([self.frame, self.frame[node[~shared]]]).astype(np.uint32),
        )
        result[both] = number[np.searchsorted(pairs, wanted)]
        return Forest(self.frames, merged, frame), place[result].astype(np.int64)


class TreeBuilder:
    """New nodes are added under existing ones only."""

    def __init__(self) -> None:
        root = frame_table([])
        assert root.row(0) == tuple(ROOT)
        self._frames = [root]
        self._frame_count = 1
        self._known: dict[int, tuple[pl.DataFrame, int]] = {}
        self._parent: list[NDArray[np.int64]] = [np.array([-1])]
        self._frame: list[NDArray[np.int64]] = [np.array([0])]
        self._size = 1

    def __len__(self) -> int:
        return self._size

    def add(self, place: NodeIds, forest: Forest, leaf: NDArray[np.int64]) -> NodeIds:
        """Adds the stacks that end at the forest's nodes `leaf` to the nodes `place`, and returns where each ends. Equal stacks on one node
        are added once in a call; leaf 0 adds nothing."""
        ended = place.astype(np.int64, copy=True)
        has = leaf > 0
        if not has.any():
            return ended
        ground, which = np.unique(ended[has], return_inverse=True)
        wanted = leaf[has].astype(np.int64) << 32 | which
        # A pair is a node of the forest and the node of ours under which it is added. Pairs sort callers first, as forests do.
        pairs = nodes.with_callers(forest.parent, nodes.distinct(wanted))
        node, on = pairs >> 32, pairs & 0xFFFFFFFF
        caller = forest.parent[node].astype(np.int64)
        above = self._size + np.searchsorted(pairs, caller << 32 | on)
        ended[has] = self._size + np.searchsorted(pairs, wanted)
        self._parent.append(np.where(caller == 0, ground[on], above))
        self._frame.append(self._first_row(forest) + forest.frame[node].astype(np.int64))
        self._size += len(pairs)
        return ended

    def finish(self, metrics: tuple[Metric, ...], values: Mapping[str, tuple[NodeIds, NDArray[np.int64]]]) -> Tree:
        """The Tree, with values for each metric and the nodes to which they belong."""
        gathered = {name: nodes.gather(place, value.astype(np.int64), self._size) for name, (place, value) in values.items()}
        return assemble(*self._loose(), gathered, metrics)

    def build(self) -> tuple[Tree, NodeIds]:
        """The Tree without metrics, and the final node of each place."""
        tree, place = merged(*self._loose())
        return tree, place.astype(np.int64)

    def _loose(self) -> tuple[pl.DataFrame, NDArray[np.int32], NDArray[np.uint32]]:
        return pl.concat(self._frames), np.concatenate(self._parent).astype(np.int32), np.concatenate(self._frame).astype(np.uint32)

    def _first_row(self, forest: Forest) -> int:
        """The first row of the forest's frames among all frames; a forest that is added again reuses its rows."""
        key = id(forest.frames)
        if key not in self._known:
            self._known[key] = forest.frames, self._frame_count
            self._frames.append(forest.frames.select(list(FRAME_COLUMNS)))
            self._frame_count += len(forest.frames)
        return self._known[key][1]

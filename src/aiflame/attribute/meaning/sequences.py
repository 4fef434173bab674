"""Forward work in the order of autograd's sequence numbers: finds the items that made a node, and their neighbours.

Numbers of a thread only grow, but begin again after 2^32, and when torch's number of a thread passes to another thread. A line is the part
of a sequence between two such moments.
"""

from __future__ import annotations

import numpy as np

from aiflame.attribute.arrays.lookup import find, latest
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.values import dataclass

NEAR = 4096
"""Neighbours of a node are at most this many numbers away."""
ALONE = 64
"""The same if there is a neighbour on one side only."""


@dataclass(frozen=True, slots=True)
class Moments:
    """The nodes and times of items: the thread that made the node (any number from 0), the node's sequence number, the time of the item."""

    owner: Ints
    sequence: Ints
    time_ns: Ints
    thread: Ints
    op: Ints
    """Equal for ops that count as the same."""


@dataclass(frozen=True, slots=True)
class Sequences:
    of: Moments
    row: Ints
    """The forward items in the order of owner and time."""
    key: Ints
    """line << 32 | sequence number of each: sorted."""
    owner: Ints
    """The owner of each line."""
    started: Ints
    """When each line began."""
    by_node: Ints
    """The items' places in `row` in the order of owner, sequence number and time."""
    group: Ints
    """For each of these, the number of its node; a node has one owner, sequence number and line."""
    first: Ints
    """For each node, the place of its first item in `by_node`."""

    @staticmethod
    def of_forward(of: Moments, forward: Ints) -> Sequences:
        """`forward`: the items that are forward work."""
        row = forward[np.lexsort((of.time_ns[forward], of.owner[forward]))]
        owner, sequence, thread = of.owner[row], of.sequence[row], of.thread[row]
        passes_on = (owner[1:] != owner[:-1]) | (thread[1:] != thread[:-1]) | (sequence[1:] < sequence[:-1])
        begins = np.append(True, passes_on)[: len(row)]
        line = np.cumsum(begins) - 1
        pair = owner << 32 | sequence
        by_node = np.argsort(pair, kind="stable")
        changes = (np.diff(pair[by_node]) != 0) | (np.diff(line[by_node]) != 0)
        opens = np.append(True, changes)[: len(row)]
        return Sequences(
            of,
            row,
            line << 32 | sequence,
            owner[begins],
            of.time_ns[row[begins]],
            by_node,
            np.cumsum(opens) - 1,
            np.flatnonzero(opens),
        )

    def makers(self, asked: Ints, op: Ints) -> Ints:
        """For each asked item the forward item that made its node, earlier in time: the first one with this op, otherwise the first of all;
        -1 if there is none."""
        if not len(self.row):
            return np.full(len(asked), -1)
        rows = self.row[self.by_node]
        pair = self.of.owner[rows] << 32 | self.of.sequence[rows]
        wanted = self.of.owner[asked] << 32 | self.of.sequence[asked]
        at = latest(pair, self.of.time_ns[rows], wanted, self.of.time_ns[asked])
        group = self.group[at]
        # `find` returns the first of equal keys, which is the first item for each op of each node.
        key = self.group << 24 | self.of.op[rows]
        order = np.argsort(key, kind="stable")
        place, there = find(key[order], group << 24 | op)
        alike = order[place]
        chosen = np.where(there & (op > 0) & (alike <= at), alike, self.first[group])
        return np.where(at >= 0, rows[chosen], -1)

    def neighbours(self, asked: Ints) -> tuple[Ints, Ints]:
        """The forward items before and after the node of each asked item in its sequence; -1 if none is near."""
        line = latest(self.owner, self.started, self.of.owner[asked], self.of.time_ns[asked])
        before, after = self._beside(line, asked)
        # If numbers began again since, the node may belong to the previous line.
        earlier = np.where((line > 0) & (before < 0) & (after < 0), line - 1, -1)
        earlier = np.where((earlier >= 0) & (np.append(self.owner, -1)[earlier] == self.of.owner[asked]), earlier, -1)
        other_before, other_after = self._beside(earlier, asked)
        return np.where(earlier >= 0, other_before, before), np.where(earlier >= 0, other_after, after)

    def _beside(self, line: Ints, asked: Ints) -> tuple[Ints, Ints]:
        if not len(self.row):
            return np.full(len(asked), -1), np.full(len(asked), -1)
        sequence, time_ns = self.of.sequence[asked], self.of.time_ns[asked]
        before = np.searchsorted(self.key, line << 32 | sequence, side="right") - 1
        after = before + 1
        has_before = (before >= 0) & self._near(before, line, sequence, NEAR)
        has_after = (after < len(self.row)) & self._near(after, line, sequence, NEAR)
        has_after &= self.of.time_ns[self.row[np.minimum(after, len(self.row) - 1)]] < time_ns
        has_before &= has_after | self._near(before, line, sequence, ALONE)
        has_after &= has_before | self._near(after, line, sequence, ALONE)
        return np.where(has_before, self.row[before], -1), np.where(has_after, self.row[np.minimum(after, len(self.row) - 1)], -1)

    def _near(self, place: Ints, line: Ints, sequence: Ints, limit: int) -> Mask:
        key = self.key[np.clip(place, 0, len(self.key) - 1)]
        near: Mask = (line >= 0) & (key >> 32 == line) & (np.abs((key & 0xFFFFFFFF) - sequence) <= limit)
        return near

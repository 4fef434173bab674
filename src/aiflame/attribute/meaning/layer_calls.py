"""Calls of modules, and the nodes of the backward graph that they made."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.lookup import latest
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.events import LATEST
from aiflame.profile.schema.frame_words import torch_thread_column
from aiflame.values import dataclass

_SEQUENCES = 1 << 32


@dataclass(frozen=True, slots=True)
class LayerCalls:
    """Calls that made nodes, in the order of process, thread number and time. Calls of a thread are nested."""

    process: Ints
    layer: Ints
    """Row of `layers`."""
    parent: Ints
    """The call around each call, -1 for none."""
    end: Ints
    """One past the sequence number of its last node; more than 32 bits if the numbers began again."""
    owner: Ints
    """The thread of each line (`frame_words.torch_thread`)."""
    started: Ints
    """When each line began. A line has the calls of a thread until sequence numbers begin again."""
    key: Ints
    """line << 32 | first sequence number, sorted."""

    def of_nodes(self, thread: Ints, sequence: Ints, time_ns: Ints) -> Ints:
        """The innermost call that made each node, which ran at a later time; -1 if none is recorded. `thread`: as in `owner`."""
        line = latest(self.owner, self.started, thread, time_ns)
        call = self._innermost(line, sequence)
        # If numbers began again since, the node may belong to the previous line.
        earlier = np.where((line > 0) & (call < 0), line - 1, -1)
        same = (earlier >= 0) & (np.append(self.owner, -1)[earlier] == thread)
        return np.where(same, self._innermost(np.where(same, earlier, -1), sequence), call)

    def cover(self, thread: Ints, time_ns: Ints) -> Mask:
        """True if any module call was recorded on the thread before that time; a node outside all calls then belongs to no module."""
        return latest(self.owner, self.started, thread, time_ns) >= 0

    def around(self, thread: Ints, sequence: Ints, time_ns: Ints) -> Mask:
        """True if calls of the thread were recorded before and after each node in its sequence; a node outside them belongs to no
        module."""
        line = latest(self.owner, self.started, thread, time_ns)
        after = np.searchsorted(self.key, line << 32 | sequence, side="right")
        lines = np.append(self.key >> 32, -1)
        between: Mask = (line >= 0) & (lines[after] == line) & (lines[after - 1] == line)
        return between

    def _innermost(self, line: Ints, sequence: Ints) -> Ints:
        if not len(self.key):
            return np.full(len(line), -1)
        at = np.searchsorted(self.key, line << 32 | sequence, side="right") - 1
        at = np.where((line >= 0) & (at >= 0) & (self.key[at] >> 32 == line), at, -1)
        while True:
            over = (at >= 0) & (self.end[at] <= sequence)
            if not over.any():
                return at
            at = np.where(over, self.parent[at], at)


@once
def layer_calls(profile: Analysis) -> LayerCalls:
    """All calls of modules that a profile records."""
    rows = (
        profile.scan("layer_calls")
        .with_columns(pl.col("begin_ns", "end_ns").clip(upper_bound=LATEST))
        .select(
            pl.col("process", "layer", "sequence_begin", "begin_ns", "end_ns").cast(pl.Int64),
            nodes=(pl.col("sequence_end").cast(pl.Int64) - pl.col("sequence_begin").cast(pl.Int64)) % _SEQUENCES,
            owner=torch_thread_column(),
        )
        .filter(pl.col("nodes").is_between(1, _SEQUENCES // 2))
        .sort("owner", "begin_ns", pl.col("end_ns").neg())
        .collect()
    )
    process, layer, begin, began, ended, nodes, owner = (rows[name].to_numpy() for name in rows.columns)
    first = np.append(True, (owner[1:] != owner[:-1]) | (begin[1:] < begin[:-1]))[: len(rows)]
    line = np.cumsum(first) - 1
    parent = _around(owner, ended)
    return LayerCalls(process, layer, parent, begin + nodes, owner[first], began[first], line << 32 | begin)


def _around(owner: Ints, ended: Ints) -> Ints:
    """For each call, the nearest earlier call of the same owner that ended no earlier; -1 for none. It is computed for all calls at once: a
    call whose candidate ended earlier takes the candidate's own candidate."""
    around = np.arange(len(owner)) - 1
    while True:
        passed: Mask = (around >= 0) & (owner[around] == owner) & (ended[around] < ended)
        if not passed.any():
            return np.where((around >= 0) & (owner[around] == owner), around, -1)
        around = np.where(passed, around[around], around)

"""The stacks of a profile as they were recorded. No other code reads the table `stacks`."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.lookup import find_rows
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.profile.schema.frame_words import FrameWords, layer_rows
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class StackKeys:
    """Finds the rows of stacks in a `StackTable`, for arrays that have a value for each row, without holding the rows."""

    key: Ints
    """process << 32 | id, sorted."""

    def find(self, process: Ints, stack: Ints) -> Ints:
        """The row of each stack, -1 if the profile has no such stack."""
        return find_rows(self.key, process << 32 | stack)

    def at(self, value: Ints, process: Ints, stack: Ints) -> Ints:
        """The value of each stack, 0 if the profile has no such stack; `value` has a value for each row."""
        return np.append(value, 0)[self.find(process, stack)]


@dataclass(frozen=True, slots=True)
class StackTable:
    """A row for each stack, sorted by process and id. The rows are a trie of frame words: node 0 is the root of all, and the stack of
    row i ends at node i + 1."""

    rows: pl.DataFrame
    """process, id, parent (the id of the stack that called the frame, 0: none), frame (its word)"""
    keys: StackKeys
    caller: Ints
    """For each row, the row of the stack that called its frame; -1 if there is none."""

    @staticmethod
    def of(rows: pl.DataFrame) -> StackTable:
        """The table of these rows, which are sorted by process and id."""
        process = rows["process"].to_numpy().astype(np.int64)
        key = process << 32 | rows["id"].to_numpy()
        caller = find_rows(key, process << 32 | rows["parent"].to_numpy())
        # A damaged profile may name a later stack as the caller, which would be a loop: such a stack counts as having no caller.
        return StackTable(rows, StackKeys(key), np.where(caller < np.arange(len(key)), caller, -1))

    @property
    def words(self) -> FrameWords:
        """The frame word of each row."""
        return self.rows["frame"].to_numpy()

    @property
    def parent(self) -> NDArray[np.int32]:
        """For each node of the trie its parent, -1 for the root."""
        return np.append(-1, self.caller + 1).astype(np.int32)

    def nearest(self, marked: Mask, *, strict: bool = False) -> Ints:
        """For each row, the nearest marked row at or above it (`strict`: above it); -1 for none."""
        return np.maximum(nodes.nearest(self.parent, np.append(False, marked), strict=strict)[1:].astype(np.int64) - 1, -1)

    def of_processes_before(self, process: int) -> StackTable:
        """The stacks of the processes with smaller numbers."""
        key = self.keys.key
        if not len(key) or key[-1] >> 32 < process:
            return self
        return StackTable.of(self.rows.filter(pl.col("process") < process))


@once
def stack_table(profile: Analysis) -> StackTable:
    """All stacks of the profile."""
    return StackTable.of(profile.table("stacks").select("process", "id", "parent", "frame").sort("process", "id"))


@once
def outermost_layers(profile: Analysis) -> Ints:
    """For each row of the stack table, the outermost torch module whose call contains the stack: a row of `layers`, 0 for none."""
    stacks = stack_table(profile)
    layer = layer_rows(stacks.words)
    outermost = (layer > 0) & (stacks.nearest(layer > 0, strict=True) < 0)
    at = stacks.nearest(outermost)
    return np.where(at >= 0, layer[at], 0) if len(layer) else layer

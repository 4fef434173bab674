"""The trie of frame words of a profile, for properties that depend on a stack's words alone.

`functions.functions` is the trie of functions.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.stacks.table import StackTable, stack_table
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class WordTrie:
    """Node 0 is the root of all; the stack of row i of `stacks` ends at node i + 1."""

    stacks: StackTable
    parent: NDArray[np.int32]
    word: Ints
    """For each node its row of `distinct`, -1 for the root."""
    distinct: pl.DataFrame
    """Each frame word once: process, frame."""

    def __len__(self) -> int:
        return len(self.parent)

    def of_nodes(self, of_words: Ints, root: int = 0) -> Ints:
        """Values of distinct words as values of the nodes."""
        return np.append(of_words, root)[self.word]

    def nearest(self, value: Ints) -> Ints:
        """For each node, the value of the nearest node at or above it whose value is not 0; 0 if there is none."""
        at = nodes.nearest(self.parent, value != 0)
        return np.where(at >= 0, value[at], 0)


@once
def word_trie(profile: Analysis) -> WordTrie:
    """The trie of frame words of a profile."""
    stacks = stack_table(profile)
    words = stacks.rows.select("process", "frame")
    distinct = words.unique(maintain_order=True)
    numbered = distinct.with_row_index("word")
    word = words.join(numbered, on=["process", "frame"], how="left", maintain_order="left")["word"]
    return WordTrie(stacks, stacks.parent, np.concatenate([[-1], word.to_numpy().astype(np.int64)]), distinct)

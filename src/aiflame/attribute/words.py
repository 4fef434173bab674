"""The stacks of a profile as they were recorded: one trie of frame words, for questions that each stack answers by itself.

Where functions matter and not their frames, `stacks.functions` is the trie to use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute import nodes
from aiflame.attribute.stacks import callers
from aiflame.profile.tables import Tables

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Words:
    """Node 0 is the root of all; the stack with `key[i]` ends at node i + 1."""

    key: Ints
    """process << 32 | stack id, sorted."""
    parent: NDArray[np.int32]
    word: Ints
    """For each node its row of `distinct`, -1 for the root."""
    distinct: pl.DataFrame
    """Each frame word once: process, frame."""

    def __len__(self) -> int:
        return len(self.parent)

    def of_nodes(self, of_words: Ints, root: int = 0) -> Ints:
        """What was found for each distinct word, as values of the nodes."""
        return np.append(of_words, root)[self.word]

    def nearest(self, value: Ints) -> Ints:
        """For each node the value of the nearest node at or above it that has one other than 0; 0 where there is none."""
        at = nodes.nearest(self.parent, value != 0)
        return np.where(at >= 0, value[at], 0)


def stack_words(profile: Tables) -> Words:
    """The trie of frame words of a profile."""
    stacks = profile.table("stacks").select("process", "id", "parent", "frame").sort("process", "id")
    key, caller = callers(stacks)
    distinct = stacks.select("process", "frame").unique(maintain_order=True)
    numbered = distinct.with_row_index("word")
    word = stacks.select("process", "frame").join(numbered, on=["process", "frame"], how="left", maintain_order="left")["word"]
    parent = np.concatenate([[-1], caller + 1]).astype(np.int32)
    return Words(key, parent, np.concatenate([[-1], word.to_numpy().astype(np.int64)]), distinct)


def find(keys: Ints, wanted: Ints) -> tuple[Ints, Mask]:
    """The place of each wanted value among sorted keys, and whether it is there; a place is sound even where it is not."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


def latest(group: Ints, time_ns: Ints, wanted: Ints, before_ns: Ints) -> Ints:
    """Of moments sorted by group and time, for each wanted one the place of the last of its group at or before that time; -1 for none."""
    if not len(group):
        return np.full(len(wanted), -1)
    opens = np.append(True, group[1:] != group[:-1])
    groups, number = group[opens], np.cumsum(opens) - 1
    wanted_number, there = find(groups, wanted)
    first, last = int(time_ns.min()), int(time_ns.max())
    bits = (last - first).bit_length()
    if len(groups).bit_length() + bits < 63:
        rank, wanted_rank = time_ns - first, np.clip(before_ns, first - 1, last) - first
    else:  # times are too far apart to stand in one number with their group
        times = nodes.distinct(time_ns)
        rank, wanted_rank = np.searchsorted(times, time_ns), np.searchsorted(times, before_ns, side="right") - 1
        bits = len(times).bit_length()
    at = np.searchsorted(number << bits | rank, wanted_number << bits | np.maximum(wanted_rank, 0), side="right") - 1
    return np.where(there & (wanted_rank >= 0) & (at >= 0) & (number[at] == wanted_number), at, -1)

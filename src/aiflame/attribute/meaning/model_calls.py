"""Calls of the outermost layer of a model: recorded, or derived from launches."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.events import LATEST
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

FEWEST = 3
"""Fewer calls do not count as repetition."""
OF_ALL = 0.9
"""The smallest share of all calls that one layer has, if the program mainly calls it again and again."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls in one thread, in the order of time; they do not overlap."""

    begin_ns: Ints
    end_ns: Ints
    layer: Ints
    graded: Mask
    """The call made autograd nodes."""

    @staticmethod
    def none() -> Calls:
        nothing = np.zeros(0, dtype=np.int64)
        return Calls(nothing, nothing, nothing, nothing > 0)

    def repeated(self) -> Calls:
        """The calls that repeat: turns of layers that are always called one after the other, or calls of the one layer that has nearly all
        of them; otherwise none."""
        if not len(self.layer):
            return self
        turn = int(np.argmax(np.append(self.layer[1:] == self.layer[0], True))) + 1
        whole = len(self.layer) // turn
        if whole >= FEWEST and (self.layer[turn:] == self.layer[:-turn]).all():
            first = np.arange(whole) * turn
            return Calls(self.begin_ns[first], self.end_ns[first + turn - 1], self.layer[first], self.graded[first])
        _, which, count = np.unique(self.layer, return_inverse=True, return_counts=True)
        if count.max() < FEWEST or count.max() < OF_ALL * len(which):
            return Calls.none()
        kept = which == np.argmax(count)
        return Calls(self.begin_ns[kept], self.end_ns[kept], self.layer[kept], self.graded[kept])


def outermost_calls(profile: Tables, process: int) -> dict[int, Calls]:
    """For each thread, the recorded calls (`layer_calls`) outside of all others."""
    if not profile.has("layer_calls"):
        return {}
    rows = (
        profile.scan("layer_calls")
        .filter(pl.col("process") == process)
        .with_columns(pl.col("begin_ns", "end_ns").clip(upper_bound=LATEST))
        .sort("thread", "begin_ns", "end_ns", descending=[False, False, True])
        .collect()
    )
    threads = {}
    for (thread,), calls in rows.partition_by("thread", as_dict=True).items():
        begin, end, layer, first, past = (
            calls[name].cast(pl.Int64).to_numpy() for name in ("begin_ns", "end_ns", "layer", "sequence_begin", "sequence_end")
        )
        outside = begin >= np.concatenate([[-1], np.maximum.accumulate(end)[:-1]])[: len(end)]
        threads[int(thread)] = Calls(begin[outside], end[outside], layer[outside], (past > first)[outside])
    return threads


def calls_by_launches(time_ns: Ints, stack: Ints, root: Ints) -> Calls:
    """The calls of outermost layers (`root`, 0: none) that a thread's launches, in the order of time, show.

    A call begins where a layer's work begins after other work. If a layer's work is never interrupted, a call begins where its first launch
    comes again. All calls of a layer (but the first and the last) must begin and end alike: otherwise the repetition may be a loop inside
    of the layer, and the result is none.
    """
    begins_run = np.append(True, root[1:] != root[:-1])[: len(root)]
    begins = begins_run & (root > 0)
    for layer in np.unique(root[begins]).tolist():
        runs = np.flatnonzero(begins & (root == layer))
        if len(runs) == 1:
            again = (root == layer) & (stack == stack[runs[0]])
            again[1:] &= stack[1:] != stack[:-1]  # an op that launches twice
            begins |= again
        else:
            comes = (root == layer) & (stack == stack[runs[-1]])
            if np.count_nonzero(comes[1:] & (stack[1:] != stack[:-1])) + int(comes[0]) > len(runs):
                return Calls.none()
    first = np.flatnonzero(begins)
    if not len(first):
        return Calls.none()
    leaves = np.append(np.flatnonzero(begins_run | begins), len(root))
    last = leaves[np.searchsorted(leaves, first, side="right")] - 1
    layer_of = root[first]
    for layer in np.unique(layer_of).tolist():
        of = np.flatnonzero(layer_of == layer)
        if len(set(stack[last[of[:-1]]].tolist())) > 1 or len(set(stack[first[of[1:]]].tolist())) > 1:
            return Calls.none()
    return Calls(time_ns[first], time_ns[last] + 1, layer_of, np.zeros(len(first), dtype=np.bool_))

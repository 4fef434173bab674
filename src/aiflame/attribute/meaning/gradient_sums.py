"""Sums of gradients: autograd's engine adds up the gradients of a tensor that several ops have used, between two nodes."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.lookup import latest
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.events import LATEST
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class GradientSums:
    """Sums in the order of thread and time; the sums of a thread do not overlap."""

    thread: Ints
    """process << 32 | row of `threads`"""
    begin: Ints
    end: Ints
    last: Ints
    """The node whose gradient the sum adds: autograd << 32 | sequence number, as items have it."""
    first: Ints
    """The sequence number, in the same thread's sequence, of the node that gave the first gradient. Its op used the tensor last."""

    def first_node(self, thread: Ints, time_ns: Ints, node: Ints) -> Ints:
        """For each item (its thread, time and node), the number of the first node of the sum of which it is part; -1 for no sum."""
        at = latest(self.thread, self.begin, thread, time_ns)
        # The appended last sum matches no item: items without a sum have row -1.
        last, end, first = np.append(self.last, -1), np.append(self.end, -1), np.append(self.first, -1)
        return np.where((last[at] == node) & (time_ns <= end[at]), first[at], -1)


def gradient_sums(profile: Tables) -> GradientSums:
    """All sums that a profile records."""
    rows = (
        profile.scan("gradient_sums")
        .with_columns(pl.col("begin_ns", "end_ns").clip(upper_bound=LATEST), pl.col("process", "thread", "autograd").cast(pl.Int64))
        .select(
            (pl.col("process") * (1 << 32) + pl.col("thread")).alias("thread"),
            pl.col("begin_ns", "end_ns").cast(pl.Int64),
            (pl.col("autograd") * (1 << 32) + pl.col("last").cast(pl.Int64)).alias("last"),
            pl.col("first").cast(pl.Int64),
        )
        .sort("thread", "begin_ns")
        .collect()
    )
    return GradientSums(*(rows[name].to_numpy() for name in rows.columns))

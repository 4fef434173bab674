"""From work of the backward pass to the forward code that made its autograd node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.layers import StackLayers
from aiflame.attribute.ops import StackOps
from aiflame.attribute.stacks import Tables

BACKWARD = 1 << 15
"""Bit of the column `autograd`: work of a backward node."""


@dataclass(frozen=True, slots=True)
class Origins:
    """For each item, forward work too."""

    backward: NDArray[np.bool_]
    """It is work of a backward node."""
    stack: NDArray[np.int64]
    """The stack to take a Python line from: its own; of backward work the forward stack of the same process that made the node, 0 where
    none is known."""
    layer: NDArray[np.int64]
    """Its layer path (node of the layers' forest), 0: none. Of backward work that of its node, or what the node's neighbours share."""
    op: NDArray[np.int64]
    """Its op (row of the ops' names), 0: none. Of backward work the forward op that made its node."""


def origins(profile: Tables, items: pl.DataFrame, layers: StackLayers, ops: StackOps) -> Origins:
    """`items`: process, thread, stack, time_ns, autograd, sequence, and `gpu`: it is a launch or a graph's node, no CPU sample."""
    backward = (items["autograd"].to_numpy() & BACKWARD) != 0
    process, stack = (items[name].to_numpy().astype(np.int64) for name in ("process", "stack"))
    return Origins(backward, np.where(backward, 0, stack), layers.of_stacks(process, stack), ops.of_stacks(process, stack))

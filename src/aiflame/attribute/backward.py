"""From work of the backward pass to the forward code that made its autograd node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.layers import StackLayers
from aiflame.attribute.stacks import Tables

BACKWARD = 1 << 15
"""Bit of the column `autograd`: work of a backward node."""


@dataclass(frozen=True, slots=True)
class Origins:
    """For each item."""

    backward: NDArray[np.bool_]
    """It is work of a backward node."""
    stack: NDArray[np.int64]
    """Of backward work: the forward stack of the same process to take layer, op and Python line from, 0: none is known."""
    layer: NDArray[np.int64]
    """Of backward work without one: the layer path that its neighbours share (node of the layers' forest), 0: none."""


def origins(profile: Tables, items: pl.DataFrame, layers: StackLayers) -> Origins:
    """`items`: process, thread, stack, time_ns, autograd, sequence, and `gpu`: it is a launch or a graph's node, no CPU sample."""
    none = np.zeros(len(items), dtype=np.int64)
    backward = (items["autograd"].to_numpy() & BACKWARD) != 0
    return Origins(backward, none, none)

"""What the time of compiled kernels belongs to: a kernel that a compiler fused from several ops is divided over them.

The division is an estimate: by the bytes that each op would move on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.stacks import Tables

Ints = NDArray[np.int64]

ESTIMATED = ", fused kernels divided by estimated bytes"
"""Goes to the label of a metric that was divided."""


@dataclass(frozen=True, slots=True)
class Division:
    """Values over the parts of what they were measured of; a value of what is not compiled stays whole."""

    item: Ints
    """Row of the value that was divided; sorted."""
    part: Ints
    """Row of `KernelOrigins.parts`, -1: not compiled."""
    value: Ints
    """Whole numbers; those of an item sum up to its value."""


@dataclass(frozen=True, slots=True)
class KernelOrigins:
    """Everything that compiled code of a profile was made from, in sets: a set is what one call of one kernel was fused from."""

    parts: pl.DataFrame
    """`set` (u32, from 1; sorted), `op` (`aten::native_layer_norm`), `layer` (path below the module whose call was compiled: below the
    innermost layer of the stack; empty: that module itself), `outer` (path of the compiled code's outermost layer, which `layer` begins
    with: to be cut off where the stack has no layer at all), `type` (class of the layer), `file`, `line`, `function`, `code` (the line's
    text), `backward` (bool), `share` (i64, at least 1)."""
    labels: list[str]
    """For each set its ops as a person reads them: `fused: aten::add, aten::native_layer_norm (layers.3.norm)`; of set 0 empty."""
    key: Ints
    """process << 32 | stack id, sorted: stacks that run in generated code."""
    of_key: Ints
    """For each key its set."""

    def of_stacks(self, process: Ints, stack: Ints) -> Ints:
        """The set of each stack, 0 where it runs no compiled code."""
        if not len(self.key):
            return np.zeros(len(stack), dtype=np.int64)
        wanted = process << 32 | stack
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        return np.where(self.key[at] == wanted, self.of_key[at], 0)

    def divide(self, sets: Ints, value: Ints) -> Division:
        """Each value divided over the parts of its set."""
        return Division(np.arange(len(value)), np.full(len(value), -1), value.astype(np.int64))


def kernel_origins(profile: Tables) -> KernelOrigins:
    """What is known of all compiled code of the profile; without any, every stack has set 0."""
    none = np.zeros(0, dtype=np.int64)
    return KernelOrigins(pl.DataFrame(schema=PARTS), [""], none, none)


PARTS = {
    "set": pl.UInt32,
    "op": pl.String,
    "layer": pl.String,
    "outer": pl.String,
    "type": pl.String,
    "file": pl.String,
    "line": pl.UInt32,
    "function": pl.String,
    "code": pl.String,
    "backward": pl.Boolean,
    "share": pl.Int64,
}

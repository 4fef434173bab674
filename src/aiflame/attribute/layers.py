"""Which layer of a model each stack lies in: the modules whose `forward` runs there, as a path of names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.growth import Forest
from aiflame.attribute.stacks import Tables
from aiflame.attribute.tree import frame_table


@dataclass(frozen=True, slots=True)
class StackLayers:
    forest: Forest
    """Layer paths, a frame (Kind.LAYER) for each name: `layers.3`, then `attn`. Node 0: no layer."""
    key: NDArray[np.int64]
    """process << 32 | stack id, sorted."""
    path: NDArray[np.int64]
    """For each key its node of `forest`."""

    def of_stacks(self, process: NDArray[np.int64], stack: NDArray[np.int64]) -> NDArray[np.int64]:
        """The layer path of each stack, 0 where the profile has no such stack."""
        wanted = process << 32 | stack
        at = np.minimum(np.searchsorted(self.key, wanted), max(len(self.key) - 1, 0))
        if not len(self.key):
            return np.zeros(len(wanted), dtype=np.int64)
        return np.where(self.key[at] == wanted, self.path[at], 0)


def layers(profile: Tables) -> StackLayers:
    """The layer path of every stack of the profile."""
    none = np.zeros(0, dtype=np.int64)
    return StackLayers(Forest.of_frames(frame_table([])[1:]), none, none)

"""Which op each stack is of: `aten::addmm`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.stacks import Tables


@dataclass(frozen=True, slots=True)
class StackOps:
    names: list[str]
    """Of each op; op 0 is none, and its name is empty."""
    key: NDArray[np.int64]
    """process << 32 | stack id, sorted."""
    op: NDArray[np.int64]
    """For each key its row of `names`."""

    def of_stacks(self, process: NDArray[np.int64], stack: NDArray[np.int64]) -> NDArray[np.int64]:
        """The op of each stack, 0 where the profile has no such stack."""
        wanted = process << 32 | stack
        at = np.minimum(np.searchsorted(self.key, wanted), max(len(self.key) - 1, 0))
        if not len(self.key):
            return np.zeros(len(wanted), dtype=np.int64)
        return np.where(self.key[at] == wanted, self.op[at], 0)


def ops(profile: Tables) -> StackOps:
    """The op of every stack of the profile."""
    none = np.zeros(0, dtype=np.int64)
    return StackOps([""], none, none)

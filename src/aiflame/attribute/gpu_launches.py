"""The launch of each kernel and copy: the first of its process and API with its correlation id."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.packing import Ints, packed
from aiflame.attribute.stacks import Tables


@dataclass(frozen=True, slots=True)
class LaunchTable:
    """The table `launches`, as it lies in the profile."""

    rows: pl.DataFrame
    """process, api (u32), correlation, thread, stack, id, variant"""

    @staticmethod
    def of(profile: Tables) -> LaunchTable:
        variant = pl.col("variant") if profile.has("kernel_variants") else pl.lit(0, dtype=pl.UInt32).alias("variant")
        api = pl.col("api").cast(pl.UInt32)
        return LaunchTable(profile.scan("launches").select("process", api, "correlation", "thread", "stack", "id", variant).collect())

    def find(self, process: NDArray[np.uint32], api: NDArray[np.uint32], correlation: NDArray[np.uint64]) -> Ints:
        """The row of each one's launch, -1 where there is none. Of several with one id the first counts."""
        found = np.full(len(process), -1)
        wanted = _parts(packed([process, api], len(process)), process, api)
        ids = self.rows["id"].to_numpy()
        of_process, of_api, known = (self.rows[name].to_numpy() for name in ("process", "api", "correlation"))
        for owner, launches in _parts(packed([of_process, of_api], len(known)), of_process, of_api).items():
            asked = wanted.get(owner)
            if asked is None:
                continue
            if (ids[launches][1:] < ids[launches][:-1]).any():
                launches = launches[np.argsort(ids[launches], kind="stable")]
            key = known[launches]
            if (key[1:] < key[:-1]).any():
                order = np.argsort(key, kind="stable")
                launches, key = launches[order], key[order]
            there = correlation[asked]
            at = np.minimum(np.searchsorted(key, there), len(key) - 1)
            found[asked] = np.where(key[at] == there, launches[at], -1)
        return found


def _parts(group: Ints, process: NDArray[np.uint32], api: NDArray[np.uint32]) -> dict[tuple[int, int], Ints]:
    """The rows of each process and API, in their order."""
    if not len(group):
        return {}
    if (group == group[0]).all():
        return {(int(process[0]), int(api[0])): np.arange(len(group))}
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    return {(int(process[rows[0]]), int(api[rows[0]])): rows for rows in np.split(order, starts[1:])}

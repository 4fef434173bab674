"""Finds the launch of each kernel and copy: the first launch of its process and API with its correlation id."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.chunks import arrays
from aiflame.attribute.arrays.row_keys import packed
from aiflame.attribute.arrays.types import U32, Ints
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

U64 = NDArray[np.uint64]
_Owner = tuple[int, int]
"""A process and an API."""


@dataclass(frozen=True, slots=True)
class LaunchIndex:
    """Finds launches by the process, API and correlation id that they share with kernels."""

    owners: dict[_Owner, tuple[Ints | None, U64]]
    """Rows sorted by correlation id, and their ids; None: all rows, in their order."""

    @staticmethod
    def of(process: U32, api: U32, correlation: U64, ids: U32) -> LaunchIndex:
        owners: dict[_Owner, tuple[Ints | None, U64]] = {}
        for owner, rows in _parts(process, api).items():
            of_owner, key = (ids, correlation) if rows is None else (ids[rows], correlation[rows])
            if (of_owner[1:] < of_owner[:-1]).any():
                order = np.argsort(of_owner, kind="stable")
                rows, key = order if rows is None else rows[order], key[order]
            if (key[1:] < key[:-1]).any():
                order = np.argsort(key, kind="stable")
                rows, key = order if rows is None else rows[order], key[order]
            owners[owner] = rows, key
        return LaunchIndex(owners)

    def find(self, process: U32, api: U32, correlation: U64) -> Ints:
        """The row of the launch of each kernel or copy, -1 if there is none. If several launches have one id, the first counts."""
        launch = np.full(len(process), -1)
        for owner, asked in _parts(process, api).items():
            if owner not in self.owners:
                continue
            rows, key = self.owners[owner]
            there = correlation if asked is None else correlation[asked]
            at = np.minimum(np.searchsorted(key, there), len(key) - 1)
            row = np.where(key[at] == there, at if rows is None else rows[at], -1)
            launch[slice(None) if asked is None else asked] = row
        return launch


@dataclass(frozen=True, slots=True)
class LaunchTable:
    """The table `launches`, in the profile's order."""

    process: U32
    id: U32
    thread: U32
    stack: U32
    variant: U32
    """Empty if no launch has one."""
    index: LaunchIndex

    @staticmethod
    def of(profile: Tables) -> LaunchTable:
        variants = ["variant"] if profile.has("kernel_variants") else []
        api = pl.col("api").cast(pl.UInt32)
        read = arrays(profile.scan("launches").select("process", api, "correlation", "thread", "stack", "id", *variants))
        index = LaunchIndex.of(read["process"], read["api"], read["correlation"], read["id"])
        variant = read["variant"] if variants else np.zeros(0, dtype=np.uint32)
        return LaunchTable(read["process"], read["id"], read["thread"], read["stack"], variant, index)

    def find(self, process: U32, api: U32, correlation: U64) -> Ints:
        return self.index.find(process, api, correlation)


def _parts(process: U32, api: U32) -> dict[_Owner, Ints | None]:
    """The rows of each process and API, in their order; None: all rows."""
    if not len(process):
        return {}
    if (process == process[0]).all() and (api == api[0]).all():
        return {(int(process[0]), int(api[0])): None}
    group = packed([process, api], len(process))
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    return {(int(process[rows[0]]), int(api[rows[0]])): rows for rows in np.split(order, starts[1:])}

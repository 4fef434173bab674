"""The kinds of kernels and copies on a device, and the expected rates of each.

Bytes of the GPU's memory are expected from all kinds alike; bytes over PCIe from copies from and to the host, those over NVLink from
collectives and copies between devices, or from all kinds if there are none of these; cycles of multiprocessors from kernels.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.runs import sum_until
from aiflame.attribute.arrays.types import Floats, Ints, Mask
from aiflame.attribute.counters.intervals import Stretches
from aiflame.attribute.counters.names import ACTIVE_CYCLES, AS_TIME, NVLINK, PCIE, TENSOR_CYCLES, WARP_CYCLES
from aiflame.attribute.counters.shares import Executions
from aiflame.attribute.devices.records import COPY_NAMES
from aiflame.attribute.meaning.families import COLLECTIVE, families
from aiflame.profile.schema.enums import CopyKind
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

MOST_KINDS = 400
"""Kinds with a rate of their own: those that ran longest. All others share one rate."""
_OF_KERNELS = {ACTIVE_CYCLES, TENSOR_CYCLES, WARP_CYCLES, *AS_TIME.values()}
_KIND = ["kind", "name", "readable", "detailed"]
_HOST_COPIES = [COPY_NAMES[kind] for kind in (CopyKind.HOST_TO_DEVICE, CopyKind.DEVICE_TO_HOST)]
_PEER_COPIES = [COPY_NAMES[CopyKind.PEER]]


@dataclass(frozen=True, slots=True)
class Kinds:
    rows: pl.DataFrame
    """kind, name, readable, detailed: a kernel's specialization, or a kind of copies"""
    of_site: Ints
    copies: Mask
    between_host: Mask
    between_devices: Mask

    @staticmethod
    def of(profile: Tables, sites: pl.DataFrame) -> Kinds:
        """The kinds of a device's sites (_KIND, took)."""
        summed = sites.group_by(_KIND).agg(pl.col("took").sum()).sort(["took", *_KIND], descending=[True, *[False] * len(_KIND)])
        rows = summed.head(MOST_KINDS).select(_KIND)
        number = sites.join(rows.with_row_index("number"), on=_KIND, how="left", maintain_order="left", nulls_equal=True)["number"]
        if len(summed) > MOST_KINDS:
            rare = pl.DataFrame({"kind": [int(Kind.GPU_KERNEL)], "name": [""]}, schema={"kind": pl.UInt8, "name": pl.String})
            rows = pl.concat([rows, rare], how="diagonal_relaxed")
        names = rows["name"]
        family = families(profile, names)
        copies = (rows["kind"] == int(Kind.GPU_COPY)).to_numpy()
        peers = names.is_in([*_PEER_COPIES, *(name for name, one in family.items() if one == COLLECTIVE)]).to_numpy()
        return Kinds(
            rows, number.fill_null(len(rows) - 1).to_numpy().astype(np.int64), copies, names.is_in(_HOST_COPIES).to_numpy() & copies, peers
        )

    def weights(self, kind: Ints, took: Ints, moved: Ints) -> Floats:
        """Kernels count by their time, copies of a kind by their bytes."""
        time, whole = (np.bincount(kind, each, len(self.rows)) for each in (took, moved))
        by_bytes = self.copies & (whole > 0)
        per_byte = np.divide(time, whole, out=np.zeros(len(whole)), where=by_bytes)
        return np.where(by_bytes[kind], moved / np.maximum(took, 1) * per_byte[kind], 1.0)


def expectations(counted: Stretches, executions: Executions, kinds: Kinds) -> tuple[Floats, Floats]:
    """The rate of each metric for each kind, and last for idle time; and by how much it may be off."""
    every = np.ones(len(kinds.rows), dtype=np.bool_)
    time = {}
    shape = len(kinds.rows) + 1, len(counted.values)
    expected, spread = np.zeros(shape), np.zeros(shape)
    for at, (metric, values) in enumerate(counted.values.items()):
        first = every
        if metric in PCIE:
            first = kinds.between_host
        elif metric in NVLINK:
            first = kinds.between_devices
        elif metric in _OF_KERNELS:
            first = ~kinds.copies
        first = first if first.any() else every
        for chosen in (first, every):
            if chosen.tobytes() not in time:
                time[chosen.tobytes()] = _time(counted, executions, chosen)
        total = float(values.sum())
        expected[:-1, at][first] = total / max(time[first.tobytes()], 1)
        spread[:, at] = total / max(time[every.tobytes()], 1)
        spread[:-1, at] = np.maximum(spread[:-1, at], expected[:-1, at])
    return expected, spread


def _time(counted: Stretches, executions: Executions, chosen: Mask) -> int:
    """How long executions of the chosen kinds ran in all intervals."""
    mine = chosen[executions.kind]
    start, end = executions.start[mine], executions.end[mine]
    return int((sum_until(counted.end, start, end) - sum_until(counted.begin, start, end)).sum())

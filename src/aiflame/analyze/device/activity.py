"""How busy kernels kept the parts of a GPU, by hardware counters: bytes of its memory and their rate, tensor cores, multiprocessors."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.device.limits import device
from aiflame.analyze.layer_groups import collapsed
from aiflame.attribute.arrays.types import Floats, Mask
from aiflame.attribute.counters.counted import Counts, counts_by
from aiflame.attribute.counters.intervals import has_counts
from aiflame.attribute.counters.names import ACTIVE_CYCLES, AS_TIME, CYCLES, DRAM, TENSOR_CYCLES, WARP_CYCLES
from aiflame.attribute.devices.work import Work
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

MEASURES = ("dram_bytes", "dram_rate", "tensor", "sm_active", "occupancy")
"""Bytes; bytes a second; and shares, 0 to 1: of the full rate of tensor cores, of the time in which multiprocessors had work, and of the
warps that they can hold while they have work."""
_OF_NAMES = {"layer": "layer", "op": "op", "phase": "phase"}
_NEEDED = (*DRAM, *AS_TIME, *AS_TIME.values(), WARP_CYCLES, CYCLES)


@dataclass(frozen=True, slots=True)
class Activity:
    sites: pl.DataFrame
    """The sums of each site: dram_bytes, covered_ns (the time in which the device was counted), tensor_ns, active_ns, warp_cycles,
    held_cycles (all the warps that it could hold while active); null if unknown."""

    def of(self, rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
        """`rows`: `site`, `part` (of the site's values), and the columns of `by`. The result has `by` and MEASURES."""
        joined = rows.join(self.sites.with_row_index("site").cast({"site": pl.Int64}), on="site", how="left")
        sums = [(pl.col(name) * pl.col("part")).sum().alias(name) for name in self.sites.columns]
        presence = [pl.col(name).is_not_null().any().alias(f"{name}?") for name in self.sites.columns]
        summed = joined.group_by(by).agg(*sums, *presence)
        columns = [_known("dram_bytes").round().cast(pl.Int64).alias("dram_bytes")]
        pairs = {
            "dram_rate": (_known("dram_bytes") * 1e9, "covered_ns"),
            "tensor": (_known("tensor_ns"), "covered_ns"),
            "sm_active": (_known("active_ns"), "covered_ns"),
            "occupancy": (_known("warp_cycles"), "held_cycles"),
        }
        for name, (part, whole) in pairs.items():
            value = part / pl.col(whole)
            limited = value if name == "dram_rate" else value.clip(upper_bound=1.0)
            columns.append(pl.when(pl.col(whole) > 0).then(limited).alias(name))
        return summed.select(*by, *columns)


def _known(name: str) -> pl.Expr:
    return pl.when(pl.col(f"{name}?") & (pl.col("covered_ns") > 0)).then(name)


def activity(profile: Tables, gpu_work: Work, inside: Mask | None) -> Activity | None:
    """Of the sites of this work; `inside`: of these executions alone. None where nothing was counted."""
    if not has_counts(profile):
        return None
    sites = len(gpu_work.sites)
    target = gpu_work.executions["site"].to_numpy().astype(np.int64)
    if inside is not None:
        target[~inside] = sites
    counts = counts_by(profile, gpu_work, target, sites + 1, _NEEDED)
    warps = gpu_work.sites["device"].replace_strict(
        {name: limits.warps for name in gpu_work.sites["device"].unique() if (limits := device(name)) is not None},
        default=None,
        return_dtype=pl.Int64,
    )
    columns = {
        "dram_bytes": _sum(counts, *DRAM),
        "covered_ns": counts.covered_ns,
        "tensor_ns": _sum(counts, AS_TIME[TENSOR_CYCLES]),
        "active_ns": _sum(counts, AS_TIME[ACTIVE_CYCLES]),
        "warp_cycles": _sum(counts, WARP_CYCLES),
        "held_cycles": _sum(counts, ACTIVE_CYCLES),
    }
    schema = dict.fromkeys(columns, pl.Float64)
    rows = pl.DataFrame({name: None if of is None else of[:sites] for name, of in columns.items()}, schema=schema)
    return Activity(rows.with_columns(pl.col("held_cycles") * warps))


def _sum(counts: Counts, *metrics: str) -> Floats | None:
    there = [counts.values[metric].astype(np.float64) for metric in metrics if metric in counts.values]
    return np.sum(there, axis=0) if there else None


def with_activity(answer: pl.DataFrame, by: str, sites: pl.DataFrame, shared: pl.DataFrame, of: Activity, *, alike: bool) -> pl.DataFrame:
    """The rows of `analyze.top`, by kernel, layer, op or phase, with the counted MEASURES of the item itself. `sites` and `shared`: as in
    `DeviceJoin`. Other lists stay as they are."""
    if by == "kernel":
        own = sites.with_row_index("site").select(pl.col("site").cast(pl.Int64), name="short", module="device", part=pl.lit(1.0))
        key = ["name", "module"]
    elif by in _OF_NAMES:
        name = collapsed(pl.col("layer")) if by == "layer" and alike else pl.col(_OF_NAMES[by])
        own = parts(shared).with_columns(name=name)
        key = ["name"]
    else:
        return answer
    measured = of.of(own.select("site", "part", *key), key)
    there = [name for name in MEASURES if measured[name].is_not_null().any()]
    return answer.join(measured.select(*key, *there), on=key, how="left", maintain_order="left")


def parts(shared: pl.DataFrame) -> pl.DataFrame:
    """`DeviceJoin.shared` with `part`: the part of its site that each row has."""
    took = pl.col("took").clip(lower_bound=0)
    return shared.with_columns(
        pl.col("site").cast(pl.Int64),
        part=pl.when(took.sum().over("site") > 0).then(took / took.sum().over("site")).otherwise(1.0 / pl.len().over("site")),
    )

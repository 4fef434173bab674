"""The time that kernels would take at the limits of their device: their bytes at the peak bandwidth of its memory, their work on tensor
cores at the full rate, whichever is longer.

Tensor cores are measured in cycles: cycles in which they worked, of the cycles that passed. This needs no figure of the vendor, and holds
at the clock that the device had."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.types import Floats, Ints, Mask
from aiflame.attribute.devices.work import Work
from aiflame.attribute.limits.counted import counted
from aiflame.attribute.limits.peaks import peaks
from aiflame.attribute.meaning.families import COLLECTIVE, families
from aiflame.profile.tables.interface import Tables

READ, WRITTEN, TENSOR, ELAPSED = "dram-read-bytes", "dram-write-bytes", "tensor-cycles", "sm-cycles"
ACTIVE, WARPS = "sm-active-cycles", "warp-cycles"
NEEDED = (READ, WRITTEN, TENSOR, ELAPSED)
"""Without one of these the limit of a kernel is not known."""
MERELY_LAUNCHED_NS = 100_000
"""A device that has nothing to do for longer than this before a kernel waits for something else than its launch: a launch takes 5 to 10 µs,
with Python around it up to several times as long."""

OF_SITES = ("counted", "limit", "memory", "tensor", "active", "warps", "estimated", "dram")
"""Sums over the kernels of a site that counters cover: their time; their time at the limit, at that of the memory, at that of tensor cores;
the time in which multiprocessors had work; the share of the warps that fit there, times the time; the time of kernels whose values are
estimated (all ns); and the bytes of DRAM."""


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """For each row of `kernels`, in the order of the table. Times are ns."""

    known: Mask
    estimated: Mask
    """Its values were estimated from stretches of time in which others ran, too."""
    dram: Floats
    """Bytes that it read from the device's memory and wrote there."""
    memory: Floats
    tensor: Floats
    active: Floats
    """The time in which a multiprocessor had work, on average over all."""
    warps: Floats
    """The same, times the share of the warps that one holds at once."""

    @property
    def limit(self) -> Floats:
        return np.maximum(self.memory, self.tensor)


def has_counters(profile: Tables) -> bool:
    """Whether counters cover any kernel whose device is known."""
    return bool(kernel_limits(profile).known.any())


@once
def kernel_limits(profile: Analysis) -> KernelLimits:
    kernels = _with_devices(profile)
    took = np.maximum((kernels["end_ns"] - kernels["start_ns"]).to_numpy(), 0).astype(np.float64)
    values, exact = _wide(counted(profile), len(kernels))
    bandwidth, warps = (_figures(kernels["device"], field) for field in ("memory", "warps"))
    cycles = values.get(ELAPSED, np.full(len(kernels), np.nan))
    known = (took > 0) & (bandwidth > 0) & (cycles > 0) & ~_collective(profile, kernels["name"])
    for name in NEEDED:
        known &= np.isfinite(values[name]) if name in values else False

    def part(name: str, of: Floats) -> Floats:
        there = known & (of > 0) & np.isfinite(values.get(name, np.nan))
        return np.divide(values.get(name, 0), of, out=np.zeros(len(kernels)), where=there)

    active, dram = part(ACTIVE, cycles), np.where(known, values.get(READ, 0) + values.get(WRITTEN, np.float64(0)), 0.0)
    memory = np.divide(dram * 1e9, bandwidth, out=np.zeros(len(kernels)), where=known)
    return KernelLimits(known, known & ~exact, dram, memory, part(TENSOR, cycles) * took, active * took, part(WARPS, cycles * warps) * took)


def of_sites(profile: Tables, work: Work, inside: Mask | None = None) -> dict[str, Ints]:
    """OF_SITES for each of `work.sites`. `inside`: the executions that count.

    A limit is never more than the time taken: estimates may be, and so may clocks above the vendor's."""
    limits = kernel_limits(profile)
    executions = work.executions[: len(limits.known)]  # kernels come first
    took = (executions["end_ns"] - executions["start_ns"]).cast(pl.Int64).to_numpy()
    row = np.flatnonzero(limits.known if inside is None else limits.known & inside[: len(limits.known)])
    site = executions["site"].to_numpy()[row]

    def summed(value: Floats | Ints) -> Ints:
        return np.rint(np.bincount(site, value[row], len(work.sites))).astype(np.int64)

    whole = summed(took)
    times = {"limit": limits.limit, "memory": limits.memory, "tensor": limits.tensor, "active": limits.active, "warps": limits.warps}
    sums = {name: np.minimum(summed(value), whole) for name, value in times.items()}
    return {"counted": whole, **sums, "estimated": summed(np.where(limits.estimated, took, 0)), "dram": summed(limits.dram)}


def waited(work: Work, inside: Mask | None = None) -> Ints:
    """For each of `work.sites` the time in which its device had nothing to do before its executions, in gaps that a launch explains."""
    executions = work.executions.with_row_index("row").with_columns(
        pl.col("start_ns", "end_ns").cast(pl.Int64), device=work.sites["device"].gather(work.executions["site"])
    )
    ordered = executions.sort("device", "start_ns", "row").with_columns(before=pl.col("end_ns").cum_max().shift(1).over("device"))
    gap = (pl.col("start_ns") - pl.col("before")).fill_null(0)
    gaps = ordered.with_columns(gap=pl.when(gap.is_between(0, MERELY_LAUNCHED_NS)).then(gap).otherwise(0))
    if inside is not None:
        gaps = gaps.filter(pl.Series(inside).gather(gaps["row"]))
    return np.bincount(gaps["site"].to_numpy(), gaps["gap"].to_numpy(), len(work.sites)).astype(np.int64)


def _wide(rows: pl.DataFrame, kernels: int) -> tuple[dict[str, Floats], Mask]:
    """For each metric the value of each kernel, NaN where it has none; and whether all of a kernel's values are exact."""
    values: dict[str, Floats] = {}
    exact = np.ones(kernels, dtype=np.bool_)
    exact[rows.filter(~pl.col("exact"), pl.col("metric").is_in(NEEDED))["row"].to_numpy()] = False
    for (metric,), of_metric in rows.partition_by("metric", as_dict=True).items():
        column = np.full(kernels, np.nan)
        column[of_metric["row"].to_numpy()] = of_metric["value"].to_numpy()
        values[str(metric)] = column
    return values, exact


def _with_devices(profile: Tables) -> pl.DataFrame:
    """start_ns, end_ns, name, device of each kernel."""
    shapes = profile.table("kernel_shapes").select("process", "name", "device", shape="id").unique(["process", "shape"], keep="first")
    kernels = profile.scan("kernels").select("process", "shape", pl.col("start_ns", "end_ns").cast(pl.Int64)).collect()
    named = kernels.join(shapes, on=["process", "shape"], how="left", maintain_order="left")
    return named.select("start_ns", "end_ns", pl.col("name", "device").fill_null(""))


def _figures(device: pl.Series, field: str) -> Floats:
    """A figure of each one's device, 0 where it is not known."""
    of = {name: float(getattr(one, field)) if (one := peaks(name)) is not None else 0.0 for name in device.unique()}
    return device.replace_strict(of, default=0.0, return_dtype=pl.Float64).to_numpy()


def _collective(profile: Tables, names: pl.Series) -> Mask:
    """Collectives wait for other devices: neither memory nor arithmetic is their limit."""
    collective = [name for name, family in families(profile, names).items() if family == COLLECTIVE]
    mask: Mask = names.is_in(collective).to_numpy()
    return mask

"""The time that kernels would take at the limits of their device: their bytes at the peak bandwidth of its memory, or their work on tensor
cores at the full rate, whichever is longer.

Tensor cores are measured in cycles: those in which they worked, of those that passed. This needs no figure of the vendor, and holds at the
clock that the device had."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl

from aiflame.attribute.addresses import Addresses
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.types import Floats, Ints, Mask
from aiflame.attribute.counters.another_run import has_another_run
from aiflame.attribute.counters.counted import Counts, counts_by
from aiflame.attribute.counters.intervals import has_counts
from aiflame.attribute.counters.metric_sums import Counted
from aiflame.attribute.counters.names import ACTIVE_CYCLES, AS_TIME, DRAM, TENSOR_CYCLES, WARP_CYCLES
from aiflame.attribute.devices.work import Work, work
from aiflame.attribute.limits.modelled import of_kernels, rates
from aiflame.attribute.limits.peaks import peaks
from aiflame.attribute.meaning.families import COLLECTIVE, families
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

MOST_OF_IT = 0.5
"""Of a kernel's time: counters that cover less of it say too little about the rest."""
MOST_FLOPS = float(1 << 52)
"""Of a kernel: some seconds at the peak of the quickest device; sums of them stay numbers of 64 bits."""
MERELY_LAUNCHED_NS = 100_000
"""A device that has nothing to do for longer than this before a kernel waits for something else than its launch: a launch takes 5 to 10 µs,
with Python around it up to several times as long."""

_TENSOR, _ACTIVE = AS_TIME[TENSOR_CYCLES], AS_TIME[ACTIVE_CYCLES]


@dataclass(frozen=True, slots=True)
class KernelLimits:
    """For each row of `kernels`, in the order of the table. Times are ns; 0 where `has_limit` is False."""

    has_limit: Mask
    """Counters cover most of it, and its device is listed."""
    estimated: Mask
    """A part of its values was divided by estimated rates, as other work ran in the same stretches of counters."""
    error: Floats
    """Of `limit`, ns: a standard error."""
    dram: Floats
    """Bytes that it read from the device's memory and wrote there."""
    memory: Floats
    tensor: Floats
    active: Floats
    """The time in which a multiprocessor had work, on average over all."""
    warps: Floats
    """The same, times the share of the warps that one holds at once."""
    flops: Floats
    """Operations, where they are modelled; 0 where the counters have cycles of tensor cores instead."""

    @property
    def limit(self) -> Floats:
        return np.maximum(self.memory, self.tensor)

    @property
    def by_memory(self) -> Floats:
        """The limit of kernels that memory limits, 0 of others."""
        memory: Floats = np.where(self.memory >= self.tensor, self.memory, 0.0)
        return memory


def has_limits(profile: Tables) -> bool:
    """Whether the limit of any kernel is known."""
    return (has_counts(profile) or is_modelled(profile)) and bool(kernel_limits(profile).has_limit.any())


def is_modelled(profile: Tables) -> bool:
    """Whether limits are those of a model of ops, as nothing was counted."""
    return not has_counts(profile) and profile.has("op_work")


@once
def kernel_limits(profile: Analysis) -> KernelLimits:
    kernels = _with_devices(profile)
    if is_modelled(profile):
        return _modelled(profile, kernels)
    of, size = _counts(profile), len(kernels)
    took = np.maximum((kernels["end_ns"] - kernels["start_ns"]).to_numpy(), 0).astype(np.float64)
    covered = of.covered_ns[:size]  # kernels come first
    bandwidth, warps = (_figures(kernels["device"], field) for field in ("memory", "warps"))
    has_limit = (took > 0) & (covered >= MOST_OF_IT * took) & (bandwidth > 0) & ~_collective(profile, kernels["name"])
    has_limit &= {*DRAM, _TENSOR} <= set(of.values)
    more = np.divide(took, covered, out=np.zeros(size), where=has_limit)

    def value(*names: str) -> Floats:
        summed: Floats = sum((of.values[name][:size] for name in names if name in of.values), np.zeros(size)) * has_limit
        return summed

    dram = value(*DRAM) * more
    memory = np.divide(dram * 1e9, bandwidth, out=np.zeros(size), where=has_limit)
    tensor, active = value(_TENSOR) * more, value(_ACTIVE) * more
    held = value(ACTIVE_CYCLES) * warps
    filled = np.divide(value(WARP_CYCLES), held, out=np.zeros(size), where=held > 0)
    divided, error_of_bytes = _error(of, kernels, DRAM, took)
    worked, error_of_tensor = _error(of, kernels, (_TENSOR,), took)
    error_of_memory = np.divide(error_of_bytes * 1e9, bandwidth, out=np.zeros(size), where=has_limit)
    # The lower of the two may be the limit, if it is off by so much.
    highest = np.maximum(memory + error_of_memory, tensor + error_of_tensor * has_limit)
    own = np.where(memory >= tensor, error_of_memory, error_of_tensor * has_limit)
    error = np.minimum(np.maximum(own, highest - np.maximum(memory, tensor)), took)
    estimated = has_limit & (divided | worked)
    return KernelLimits(has_limit, estimated, error, dram, memory, tensor, active, filled * active, np.zeros(size))


def _modelled(profile: Tables, kernels: pl.DataFrame) -> KernelLimits:
    """By the work of the ops that launched. Kernels of one call of an op share its work by their time."""
    rows = of_kernels(profile, kernels)
    took, share = rows["took"].to_numpy().astype(np.float64), rows["share"].to_numpy()
    bandwidth, rate = _figures(kernels["device"], "memory"), rates(rows)
    flops, dram = rows["flops"].to_numpy() * share, rows["bytes"].to_numpy() * share
    has_limit = (took > 0) & rows["known"].to_numpy() & (bandwidth > 0) & ((flops == 0) | (rate > 0))
    has_limit &= ~_collective(profile, kernels["name"])
    nothing = np.zeros(len(kernels))
    memory = np.divide(dram * 1e9, bandwidth, out=nothing.copy(), where=has_limit)
    tensor = np.divide(flops * 1e9, rate, out=nothing.copy(), where=has_limit & (rate > 0))
    # A model may claim more bytes than a kernel had to move (a cache had them), or an op may not have done all of its work.
    memory, tensor = np.minimum(memory, took), np.minimum(tensor, took)
    estimated = has_limit & (share < 1)
    return KernelLimits(has_limit, estimated, nothing, dram * has_limit, memory, tensor, nothing, nothing, flops * has_limit)


def of_sites(profile: Tables, work: Work, inside: Mask | None = None) -> dict[str, Ints]:
    """For each of `work.sites` the sums over its kernels whose limit is known. `inside`: the executions that count.

    `counted`: their time; `limit`, `by_memory`, `memory`, `tensor`, `active`, `warps`, `error` as in KernelLimits; `estimated`: the time of
    those whose values are estimates (all ns); `dram` (bytes); `flops` (operations, where they are modelled). No time at a limit is more
    than the time taken: estimates may be."""
    limits = kernel_limits(profile)
    executions = work.executions[: len(limits.has_limit)]
    took = (executions["end_ns"] - executions["start_ns"]).cast(pl.Int64).to_numpy()
    row = np.flatnonzero(limits.has_limit if inside is None else limits.has_limit & inside[: len(limits.has_limit)])
    site = executions["site"].to_numpy()[row]

    def summed(value: Floats | Ints) -> Ints:
        return np.rint(np.bincount(site, value[row], len(work.sites))).astype(np.int64)

    whole = summed(took)
    times = ("limit", "by_memory", "memory", "tensor", "active", "warps", "error")
    sums = {name: np.minimum(summed(getattr(limits, name)), whole) for name in times}
    beside = {"dram": summed(limits.dram), "flops": summed(np.minimum(limits.flops, MOST_FLOPS))}
    return {"counted": whole, **sums, "estimated": summed(np.where(limits.estimated, took, 0)), **beside}


def could_win(profile: Tables, work: Work) -> Counted:
    """The time of each of `work.sites` beyond that at the limit."""
    sums = of_sites(profile, work)
    nothing = pl.DataFrame(schema={"process": pl.UInt32, "device": pl.String, "name": pl.String, "value": pl.Int64})
    estimated = int(sums["estimated"].sum()) / max(int(sums["counted"].sum()), 1)
    modelled = is_modelled(profile)
    won = sums["counted"] - sums["limit"]
    return Counted(won, nothing, 0.0 if modelled else estimated, has_another_run(profile), modelled)


def waited(profile: Tables, work: Work, inside: Mask | None = None) -> Ints:
    """For each of `work.sites` the time in which its device had nothing to do before its executions, in gaps that a launch explains."""
    addresses = Addresses.of(profile)
    used = work.sites.select("process", "device").unique(maintain_order=True)
    keys = pl.Series([addresses.key(process, device) for process, device in used.rows()], dtype=pl.String)
    key = work.sites.join(used.with_columns(key=keys), on=["process", "device"], how="left", maintain_order="left")["key"]
    executions = work.executions.with_row_index("row").with_columns(
        pl.col("start_ns", "end_ns").cast(pl.Int64), device=key.gather(work.executions["site"])
    )
    ordered = executions.sort("device", "start_ns", "row").with_columns(before=pl.col("end_ns").cum_max().shift(1).over("device"))
    gap = (pl.col("start_ns") - pl.col("before")).fill_null(0)
    gaps = ordered.with_columns(gap=pl.when(gap.is_between(0, MERELY_LAUNCHED_NS)).then(gap).otherwise(0))
    if inside is not None:
        gaps = gaps.filter(pl.Series(inside).gather(gaps["row"]))
    return np.bincount(gaps["site"].to_numpy(), gaps["gap"].to_numpy(), len(work.sites)).astype(np.int64)


def _counts(profile: Analysis) -> Counts:
    """By execution."""
    gpu_work = work(profile, None)
    profile.used(work.part(None))
    size = len(gpu_work.executions)
    return counts_by(profile, gpu_work, np.arange(size), size, (*DRAM, _TENSOR, _ACTIVE, ACTIVE_CYCLES, WARP_CYCLES))


def _error(of: Counts, kernels: pl.DataFrame, metrics: Collection[str], took: Floats) -> tuple[Mask, Floats]:
    """Whether a part of a kernel's counts was divided by estimated rates, and the standard error of their sum."""
    size = len(kernels)
    value, divided = (sum((each[name][:size] for name in metrics if name in each), np.zeros(size)) for each in (of.values, of.estimated))
    rates = of.rates.filter(pl.col("metric").is_in(list(metrics)), pl.col("name").is_not_null())
    by_kind = rates.group_by("device", "name").agg(pl.col("error").max(), pl.col("told_apart").all())
    joined = kernels.join(by_kind, on=["device", "name"], how="left", maintain_order="left")
    off = joined["error"].fill_null(0.0).to_numpy() * took * np.sqrt(len(metrics))
    off = np.where(joined["told_apart"].fill_null(False).to_numpy(), off, np.maximum(off, value))
    part = np.divide(divided, value, out=np.ones(size), where=value > 0)
    # A kernel without any count has none that was divided: its rate may be off nevertheless, if others have rates.
    return divided > 0, part * off * bool(divided.any())


def _with_devices(profile: Tables) -> pl.DataFrame:
    """process, api, correlation, start_ns, end_ns, name, device of each kernel."""
    shapes = profile.table("kernel_shapes").select("process", "name", "device", shape="id").unique(["process", "shape"], keep="first")
    columns = "process", "api", "correlation", "shape", pl.col("start_ns", "end_ns").cast(pl.Int64)
    kernels = profile.scan("kernels").select(*columns).collect()
    named = kernels.join(shapes, on=["process", "shape"], how="left", maintain_order="left")
    return named.select("process", "api", "correlation", "start_ns", "end_ns", pl.col("name", "device").fill_null(""))


def _figures(device: pl.Series, field: str) -> Floats:
    """A figure of each one's device, 0 where it is not known."""
    of = {name: float(getattr(one, field)) if (one := peaks(name)) is not None else 0.0 for name in device.unique()}
    figures: Floats = device.replace_strict(of, default=0.0, return_dtype=pl.Float64).to_numpy()
    return figures


def _collective(profile: Tables, names: pl.Series) -> Mask:
    """Collectives wait for other devices: neither memory nor arithmetic is their limit."""
    collective = [name for name, family in families(profile, names).items() if family == COLLECTIVE]
    mask: Mask = names.is_in(collective).to_numpy()
    return mask

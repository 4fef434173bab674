"""The times of sites' values: moments and slots, from the times of kernels on devices and of samples on CPUs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.row_keys import ordered, summed
from aiflame.attribute.arrays.time_bins import Bins, by_density, coarser_bins, in_bins, wide_enough
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.idle import IDLE, Device, Gaps
from aiflame.attribute.devices.samples import DRIVER, DROPPED, MOST_SAMPLES, Samples, counted
from aiflame.attribute.devices.work import Work
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.steady import steady
from aiflame.attribute.sites.steps import device_slots, sample_slots
from aiflame.attribute.tree import GPU_STALLS, GPU_TIME
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Times:
    bins: Bins
    first: pl.DataFrame
    """group, first (when it first ran, in µs after the origin)"""
    moments: pl.DataFrame
    """group, bin, and values"""
    slots: int
    steps: pl.DataFrame
    """STEPS: `number` of the row's first step, `process` as a node, times in ns after the origin; and `steady`"""
    slot_values: pl.DataFrame
    """group, step (row of `steps`), slot, and values"""
    steady: pl.DataFrame
    """group, and values in steady steps (`meaning.steady`); groups without any are left out"""
    notes: tuple[str, ...]
    window_ns: int = 0
    """The usual length of a sampling window; 0 if there are none."""
    period_log2: int = 0


def device_times(
    profile: Tables, gpu_work: Work, steps: pl.DataFrame, sampled: Samples | None, lone: pl.DataFrame, resting: Mapping[Device, Gaps]
) -> Times:
    """Groups are the sites of `gpu_work`, then the rows of `lone` (`sites.devices`); `resting`: the idle times of devices."""
    group, start, end = (
        _ints(gpu_work.executions, "site"),
        _moments(gpu_work.executions, "start_ns"),
        _moments(gpu_work.executions, "end_ns"),
    )
    fine = Bins.of(_origin(profile, start), int(end.max(initial=0)))
    bins = wide_enough(group, start, fine)
    lone = lone.with_row_index("group", offset=len(gpu_work.sites))
    idle_group = {
        (process, device): number for number, process, device in lone.filter(why=IDLE).select("group", "process", "device").rows()
    }
    idle = {idle_group[key]: (key[0], since.astype(np.int64), until.astype(np.int64)) for key, (since, until) in resting.items()}
    moments = [in_bins(group, start, end, bins)]
    for number, (_, since, until) in idle.items():
        moments.append(in_bins(np.zeros(len(since), dtype=np.int64), since, until, bins).with_columns(group=pl.lit(number, pl.Int64)))
    binned, bins = coarser_bins(pl.concat(moments), bins)
    timed = binned.rename({"value": GPU_TIME.name})
    binned = timed if sampled is None else _with_samples(profile, gpu_work, binned, bins, sampled, lone)
    first = np.full(len(gpu_work.sites), LATEST)
    np.minimum.at(first, group, start)
    seen = pl.DataFrame({"group": np.arange(len(first)), "first": np.maximum(first - bins.origin_ns, 0) // 1000})
    slots = device_slots(gpu_work, steps, (group, start, end), idle, bins, binned)
    window = (0, 0) if sampled is None else (window_length(profile), period_log2(profile))
    process = _ints(gpu_work.sites, "process")[group]
    inside = _steady(profile, process, _ints(gpu_work.executions, "step"), start, group, end - start, GPU_TIME.name)
    return Times(
        bins, seen, binned, slots.slots, _marked(profile, slots.steps), slots.values, inside, (*_width(bins, fine), *slots.notes), *window
    )


def window_length(profile: Tables) -> int:
    """The usual length of a sampling window; 0 if there are none."""
    begin, end = (pl.col(name).clip(upper_bound=LATEST).cast(pl.Int64) for name in ("begin_ns", "end_ns"))
    return int(profile.scan("gpu_windows").select((end - begin).filter(end > begin).median()).collect().item() or 0)


def period_log2(profile: Tables) -> int:
    """The base-2 logarithm of the sampling period in cycles: that of most windows, weighted by samples."""
    by_period = profile.scan("gpu_windows").group_by("period_log2").agg(pl.col("samples").sum(), windows=pl.len())
    periods = by_period.sort("samples", "windows", "period_log2", descending=True).collect()
    return int(periods["period_log2"][0]) if len(periods) else 0


def sample_times(profile: Tables, metric: str, items: pl.DataFrame, steps: pl.DataFrame) -> Times:
    """`items`: process, group, step, time_ns, value. A sample counts whole at its moment; one without a moment (0) at none."""
    group, time = _ints(items, "group"), _moments(items, "time_ns")
    has_time = time > 0
    fine = Bins.of(_origin(profile, time[has_time]), int(time.max(initial=0)) + 1)
    bins = wide_enough(group[has_time], time[has_time], fine)
    rows = items.select("group", "value").filter(pl.Series(has_time)).with_columns(bin=pl.Series(bins.at(time[has_time])))
    moments, bins = coarser_bins(rows.group_by("group", "bin").agg(pl.col("value").sum()), bins)
    first = (
        pl.DataFrame({"group": group, "first": np.maximum(time - bins.origin_ns, 0) // 1000}).group_by("group").agg(pl.col("first").min())
    )
    slots = sample_slots(items, steps, bins, metric)
    moments = moments.rename({"value": metric})
    inside = _steady(profile, _ints(items, "process"), _ints(items, "step"), time, group, _ints(items, "value"), metric)
    return Times(
        bins, first, moments, slots.slots, _marked(profile, slots.steps), slots.values, inside, (*_width(bins, fine), *slots.notes)
    )


def _steady(profile: Tables, process: Ints, step: Ints, time: Ints, group: Ints, value: Ints, metric: str) -> pl.DataFrame:
    """`Times.steady`"""
    steps = steady(Analysis.of(profile))
    if not steps.first:
        return pl.DataFrame(schema={"group": pl.Int64, metric: pl.Int64})
    inside = steps.of(process, step, time)
    rows = pl.DataFrame({"group": group[inside], metric: value[inside]})
    return rows.group_by("group").agg(pl.col(metric).sum()).sort("group")


def _marked(profile: Tables, steps: pl.DataFrame) -> pl.DataFrame:
    """Steps with a column `steady`, 1 or 0."""
    first = {process + 1: step for process, step in steady(Analysis.of(profile)).first.items()}
    least = pl.col("process").replace_strict(first, default=None, return_dtype=pl.Int64)
    return steps.with_columns(steady=(pl.col("number") >= least).fill_null(False).cast(pl.Int64))


def _width(bins: Bins, wanted: Bins) -> list[str]:
    return [f"moments are {bins.bin_ns / 1e6:g} ms wide, to limit their number"] if bins.bin_ns > wanted.bin_ns else []


def _origin(profile: Tables, start: Ints) -> int:
    """The begin of the first process, or of the first execution if that is earlier."""
    began = profile.table("processes")["start_ns"].to_numpy()
    return int(min((began.min() if len(began) else LATEST), start.min(initial=LATEST)))


def _with_samples(profile: Tables, gpu_work: Work, moments: pl.DataFrame, bins: Bins, sampled: Samples, lone: pl.DataFrame) -> pl.DataFrame:
    """Moments (group, bin, value) with those of samples: the samples of a window are placed where the kernels of their name ran in it; the
    sum of each site stays the same."""
    total = np.bincount(_ints(sampled.placed, "site"), _ints(sampled.placed, "value"), len(gpu_work.sites) + len(lone)).astype(np.int64)
    name = ["process", "device", "name"]
    kernels = gpu_work.sites.select(name).unique(maintain_order=True).with_row_index("kernel")
    of_group = gpu_work.sites.with_row_index("group").join(kernels, on=name).select(pl.col("group").cast(pl.Int64), "kernel")
    moments = ordered(moments.join(of_group, on="group", how="left", maintain_order="left"), ("group", "bin"))
    density = _density(profile, kernels, moments.drop_nulls("kernel"), bins)
    moments = moments.join(density, on=["kernel", "bin"], how="left", maintain_order="left")
    value = by_density(moments, moments["density"].fill_null(0.0), total)
    timed = moments.select("group", "bin", pl.col("value").alias(GPU_TIME.name), value.alias(GPU_STALLS.name))
    return summed(pl.concat([timed, _elsewhere(profile, bins, lone)], how="diagonal").fill_null(0), ("group", "bin"))


def _density(profile: Tables, kernels: pl.DataFrame, moments: pl.DataFrame, bins: Bins) -> pl.DataFrame:
    """kernel, bin, density: samples for each ns in which a kernel of that name ran."""
    run_ns = summed(moments.select("kernel", "bin", "value"), ("kernel", "bin"))
    windows = (
        profile.table("gpu_windows")
        .select("process", "device", "begin_ns", "end_ns", window="id")
        .unique(["process", "window"], keep="first")
    )
    counts = (
        counted(profile, not_issued=False, detail=False)
        .join(kernels, left_on=["process", "device", "function"], right_on=["process", "device", "name"])
        .join(windows, on=["process", "device", "window"])
    )
    begin, until = _moments(counts, "begin_ns"), _moments(counts, "end_ns")
    first = bins.at(begin)
    last = np.maximum(bins.at(until - 1), first)
    many = last - first + 1
    row = np.repeat(np.arange(len(counts)), many)
    bin_ = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    opens = bins.origin_ns + bin_ * bins.bin_ns
    shared = np.minimum(opens + bins.bin_ns, until[row]) - np.maximum(opens, begin[row])
    cells = pl.DataFrame({"row": row, "bin": bin_, "shared": np.maximum(shared, 0)}).with_columns(
        kernel=counts["kernel"].gather(row), count=counts["count"].gather(row)
    )
    weight = pl.col("shared") * pl.col("value")
    return (
        cells.join(run_ns, on=["kernel", "bin"])
        .with_columns(many=pl.col("count") * weight / weight.sum().over("row"))
        .group_by("kernel", "bin")
        .agg(density=pl.col("many").fill_nan(0.0).sum() / pl.col("value").first())
    )


def _elsewhere(profile: Tables, bins: Bins, lone: pl.DataFrame) -> pl.DataFrame:
    """Samples that were lost, or taken in the driver's kernels, in the middle of their windows."""
    windows = profile.table("gpu_windows")
    middle = bins.at((_moments(windows, "begin_ns") + _moments(windows, "end_ns")) // 2)
    count = {DROPPED: "dropped", DRIVER: "foreign"}
    sums = [pl.col(column).clip(upper_bound=MOST_SAMPLES).cast(pl.Int64).sum().alias(why) for why, column in count.items()]
    summed = windows.with_columns(bin=pl.Series(middle)).group_by("process", "device", "bin").agg(sums)
    rows = summed.unpivot(list(count), index=["process", "device", "bin"], variable_name="why", value_name=GPU_STALLS.name)
    rows = rows.filter(pl.col(GPU_STALLS.name) > 0).join(lone.filter(pl.col("function") == ""), on=["process", "device", "why"])
    return rows.select(pl.col("group").cast(pl.Int64), "bin", GPU_STALLS.name)


def _moments(rows: pl.DataFrame, name: str) -> Ints:
    moment: Ints = np.minimum(rows[name].to_numpy(), LATEST).astype(np.int64)
    return moment


def _ints(rows: pl.DataFrame, name: str) -> Ints:
    column: Ints = rows[name].cast(pl.Int64).to_numpy()
    return column

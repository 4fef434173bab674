"""When the values of facts fell: moments and slots, of devices by the times of kernels, of CPUs by those of samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from aiflame.attribute.division import Ints
from aiflame.attribute.gpu import IDLE
from aiflame.attribute.gpu_idle import idle_times
from aiflame.attribute.gpu_samples import DRIVER, DROPPED, MOST_SAMPLES, Samples, counted
from aiflame.attribute.gpu_work import Work
from aiflame.attribute.items import LATEST
from aiflame.attribute.moments import MOST_ROWS, SLOTS, Bins, by_density, coarser_bins, in_bins, in_slots
from aiflame.attribute.stacks import Tables
from aiflame.attribute.tree import GPU_STALLS, GPU_TIME

STEPS: Mapping[str, type[pl.DataType]] = {"number": pl.Int64, "process": pl.Int64, "begin": pl.Int64, "end": pl.Int64}


@dataclass(frozen=True, slots=True)
class Times:
    bins: Bins
    first: pl.DataFrame
    """group, first (µs after the origin)"""
    moments: pl.DataFrame
    """group, bin, and values"""
    slots: int
    steps: pl.DataFrame
    """STEPS: `number` of the first that a row stands for, `process` as a node, ns after the origin"""
    slot_values: pl.DataFrame
    """group, step (row of `steps`), slot, and values"""
    notes: tuple[str, ...]


def device_times(profile: Tables, done: Work, steps: pl.DataFrame, sampled: Samples | None, lone: pl.DataFrame) -> Times:
    """Groups are the sites of `done`, then the rows of `lone` (facts_device)."""
    group, start, end = _ints(done.ran, "site"), _moments(done.ran, "start_ns"), _moments(done.ran, "end_ns")
    first_bins = bins = Bins.of(_origin(profile, start), int(end.max(initial=0)))
    moments = [in_bins(group, start, end, bins)]
    first = pl.DataFrame({"group": group, "first": np.maximum(start - bins.origin_ns, 0) // 1000})
    lone = lone.with_row_index("group", offset=len(done.sites))
    idle_group = {
        (process, device): number for number, process, device in lone.filter(why=IDLE).select("group", "process", "device").rows()
    }
    for key, (since, until) in idle_times(done, profile.table("processes")).items():
        moments.append(in_bins(np.full(len(since), idle_group[key]), since.astype(np.int64), until.astype(np.int64), bins))
    found, bins = coarser_bins(pl.concat(moments), bins)
    notes = [f"moments are {bins.bin_ns / 1e6:g} ms wide, that they be not too many"] if bins.bin_ns > first_bins.bin_ns else []
    timed = found.rename({"value": GPU_TIME.name})
    found = timed if sampled is None else _with_samples(profile, done, found, bins, sampled, lone)
    rows, slot_values, slots, said = _device_slots(done, steps, group, start, end, bins, found)
    return Times(bins, first.group_by("group").agg(pl.col("first").min()), found, slots, rows, slot_values, (*notes, *said))


def sample_times(profile: Tables, metric: str, items: pl.DataFrame, steps: pl.DataFrame) -> Times:
    """`items`: process, group, step, time_ns, value. A sample counts whole at its moment."""
    group, time = _ints(items, "group"), _moments(items, "time_ns")
    first_bins = bins = Bins.of(_origin(profile, time), int(time.max(initial=0)) + 1)
    rows = items.select("group", "value", bin=pl.Series(bins.at(time)))
    moments, bins = coarser_bins(rows.group_by("group", "bin").agg(pl.col("value").sum()), bins)
    notes = [f"moments are {bins.bin_ns / 1e6:g} ms wide, that they be not too many"] if bins.bin_ns > first_bins.bin_ns else []
    first = (
        pl.DataFrame({"group": group, "first": np.maximum(time - bins.origin_ns, 0) // 1000}).group_by("group").agg(pl.col("first").min())
    )

    known = steps.sort("process", "step")
    in_step = items.with_row_index("row").filter(pl.col("step") >= 0)
    key = _ints(known, "process") << 32 | _ints(known, "step")
    used, row = np.unique(np.searchsorted(key, _ints(in_step, "process") << 32 | _ints(in_step, "step")), return_inverse=True)
    known = known[used]
    begins, ends = _ints(known, "begin_ns"), np.maximum(_ints(known, "end_ns"), _ints(known, "begin_ns") + 1)
    slot = np.clip((_moments(in_step, "time_ns") - begins[row]) * SLOTS // (ends - begins)[row], 0, SLOTS - 1)
    values = in_step.select("group", "value", step=pl.Series(row), slot=pl.Series(slot))
    values = values.group_by("group", "step", "slot").agg(pl.col("value").sum().alias(metric))
    step_rows, values, slots, said = fewer_slots(known, begins, ends, bins, values)
    return Times(bins, first, moments.rename({"value": metric}), slots, step_rows, values, (*notes, *said))


def _origin(profile: Tables, start: Ints) -> int:
    """When the first process began, or what was seen first of all."""
    began = profile.table("processes")["start_ns"].to_numpy()
    return int(min((began.min() if len(began) else LATEST), start.min(initial=LATEST)))


def _with_samples(profile: Tables, done: Work, moments: pl.DataFrame, bins: Bins, sampled: Samples, lone: pl.DataFrame) -> pl.DataFrame:
    """Moments (group, bin, value) with those of samples: the samples of a window lie where the kernels of their name ran in it; of each
    site there are as many as it has in all."""
    total = np.bincount(_ints(sampled.placed, "site"), _ints(sampled.placed, "value"), len(done.sites) + len(lone)).astype(np.int64)
    name = ["process", "device", "name"]
    kernels = done.sites.select(name).unique(maintain_order=True).with_row_index("kernel")
    of_group = done.sites.with_row_index("group").join(kernels, on=name).select(pl.col("group").cast(pl.Int64), "kernel")
    moments = moments.join(of_group, on="group", how="left").sort("group", "bin")
    density = _density(profile, kernels, moments.drop_nulls("kernel"), bins)
    moments = moments.join(density, on=["kernel", "bin"], how="left", maintain_order="left")
    value = by_density(moments, moments["density"].fill_null(0.0), total)
    timed = moments.select("group", "bin", pl.col("value").alias(GPU_TIME.name), value.alias(GPU_STALLS.name))
    return (
        pl.concat([timed, _elsewhere(profile, bins, lone)], how="diagonal")
        .group_by("group", "bin")
        .agg(pl.all().sum())
        .sort("group", "bin")
    )


def _density(profile: Tables, kernels: pl.DataFrame, moments: pl.DataFrame, bins: Bins) -> pl.DataFrame:
    """kernel, bin, density: samples in each ns that a kernel of that name ran."""
    ran = moments.group_by("kernel", "bin").agg(pl.col("value").sum())
    windows = (
        profile.table("gpu_windows")
        .select("process", "device", "begin_ns", "end_ns", window="id")
        .unique(["process", "window"], keep="first")
    )
    taken = (
        counted(profile, not_issued=False, detail=False)
        .join(kernels, left_on=["process", "device", "function"], right_on=["process", "device", "name"])
        .join(windows, on=["process", "device", "window"])
    )
    begin, until = _moments(taken, "begin_ns"), _moments(taken, "end_ns")
    first = bins.at(begin)
    last = np.maximum(bins.at(until - 1), first)
    many = last - first + 1
    row = np.repeat(np.arange(len(taken)), many)
    bin_ = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    opens = bins.origin_ns + bin_ * bins.bin_ns
    shared = np.minimum(opens + bins.bin_ns, until[row]) - np.maximum(opens, begin[row])
    cells = pl.DataFrame({"row": row, "bin": bin_, "shared": np.maximum(shared, 0)}).with_columns(
        kernel=taken["kernel"].gather(row), count=taken["count"].gather(row)
    )
    weight = pl.col("shared") * pl.col("value")
    return (
        cells.join(ran, on=["kernel", "bin"])
        .with_columns(many=pl.col("count") * weight / weight.sum().over("row"))
        .group_by("kernel", "bin")
        .agg(density=pl.col("many").fill_nan(0.0).sum() / pl.col("value").first())
    )


def _elsewhere(profile: Tables, bins: Bins, lone: pl.DataFrame) -> pl.DataFrame:
    """Samples that were lost or taken in the driver's kernels, in the middle of their windows."""
    windows = profile.table("gpu_windows")
    middle = bins.at((_moments(windows, "begin_ns") + _moments(windows, "end_ns")) // 2)
    count = {DROPPED: "dropped", DRIVER: "foreign"}
    sums = [pl.col(column).clip(upper_bound=MOST_SAMPLES).cast(pl.Int64).sum().alias(why) for why, column in count.items()]
    summed = windows.with_columns(bin=pl.Series(middle)).group_by("process", "device", "bin").agg(sums)
    rows = summed.unpivot(list(count), index=["process", "device", "bin"], variable_name="why", value_name=GPU_STALLS.name)
    rows = rows.filter(pl.col(GPU_STALLS.name) > 0).join(lone.filter(pl.col("function") == ""), on=["process", "device", "why"])
    return rows.select(pl.col("group").cast(pl.Int64), "bin", GPU_STALLS.name)


def _device_slots(
    done: Work, steps: pl.DataFrame, group: Ints, start: Ints, end: Ints, bins: Bins, moments: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, int, list[str]]:
    """Steps as devices had them, and what each group did in each of their parts."""
    process = _ints(done.sites, "process")[group]
    known = steps.sort("process", "step")
    number = _ints(done.ran, "step")
    key = _ints(known, "process") << 32 | _ints(known, "step")
    in_step = np.flatnonzero(number >= 0)
    row = np.searchsorted(key, process[in_step] << 32 | number[in_step])
    used, row = np.unique(row, return_inverse=True)
    known = known[used]
    begins, ends = _on_device(known, row, start[in_step], end[in_step])
    values = in_slots(group[in_step], row, start[in_step], end[in_step], begins, ends, SLOTS)
    return fewer_slots(known, begins, ends, bins, values.rename({"value": GPU_TIME.name}))


def _on_device(steps: pl.DataFrame, row: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """When each step (in the order of processes and time) began and ended on devices. Its work may run long after it was launched: a step
    begins with its first work, or where the one before has ended, but not before the program began it."""
    first, last = np.full(len(steps), LATEST), np.zeros(len(steps), dtype=np.int64)
    np.minimum.at(first, row, start)
    np.maximum.at(last, row, end)
    process = _ints(steps, "process")
    same = np.append(False, process[1:] == process[:-1])[: len(process)]
    before = np.where(same, np.roll(last, 1), 0)
    begins = np.minimum(first, np.maximum(_ints(steps, "begin_ns"), before))
    following = np.where(np.roll(same, -1), np.roll(first, -1), LATEST) if len(same) else first
    return begins, np.maximum(np.maximum(last, np.minimum(_ints(steps, "end_ns"), following)), begins + 1)


def fewer_slots(
    steps: pl.DataFrame, begins: Ints, ends: Ints, bins: Bins, values: pl.DataFrame, most: int = MOST_ROWS
) -> tuple[pl.DataFrame, pl.DataFrame, int, list[str]]:
    """Steps as STEPS, and values of groups in their slots: fewer slots, and then several steps in one, where there are too many of them."""
    slots, together = SLOTS, 1
    while len(values) > most and slots > 25:
        slots //= 2
        values = values.with_columns(pl.col("slot") // 2).group_by("group", "step", "slot").agg(pl.all().sum())
    rows = pl.DataFrame(
        {"number": steps["step"], "process": steps["process"] + 1, "begin": begins - bins.origin_ns, "end": ends - bins.origin_ns}
    )
    while len(values) > most and len(rows) > 1:
        together *= 2
        pair = pl.struct("process", pl.int_range(pl.len()).over("process") // 2)
        place = rows.select(pair.rle_id().cast(pl.Int64)).to_series()
        rows = (
            rows.group_by(place.alias("place"), maintain_order=True)
            .agg(pl.col("number", "process").first(), pl.col("begin").min(), pl.col("end").max())
            .select(list(STEPS))
        )
        values = values.with_columns(step=place.gather(values["step"])).group_by("group", "step", "slot").agg(pl.all().sum())
    notes = []
    if slots < SLOTS:
        notes.append(f"steps are parted into {slots}, that their parts be not too many")
    if together > 1:
        notes.append(f"{together} steps that follow each other are shown as one, that they be not too many")
    return rows, values, slots, notes


def _moments(rows: pl.DataFrame, name: str) -> Ints:
    found: Ints = np.minimum(rows[name].to_numpy(), LATEST).astype(np.int64)
    return found


def _ints(rows: pl.DataFrame, name: str) -> Ints:
    found: Ints = rows[name].cast(pl.Int64).to_numpy()
    return found

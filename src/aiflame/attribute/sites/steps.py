"""Values of each group of sites in each part of a step: the slots of a site table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.row_keys import ordered, summed
from aiflame.attribute.arrays.time_bins import (
    MOST_ROWS,
    PIECE,
    SAMPLED_ROWS,
    Bins,
    Steps,
    by_density,
    few_enough,
    in_slots,
    sample_of_rows,
)
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.work import Work
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.tree import GPU_STALLS, GPU_TIME
from aiflame.values import dataclass, replace

STEPS: Mapping[str, type[pl.DataType]] = {"number": pl.Int64, "process": pl.Int64, "begin": pl.Int64, "end": pl.Int64}


SLOTS = 100
ENOUGH_STEPS = 2000
"""The most columns of a picture of steps; if there are more steps, a column shows several."""
FEWEST_SLOTS = 25
_SLOT = ("group", "step", "slot")
Intervals = tuple[Ints, Ints, Ints]
"""Groups or rows, starts, ends."""


@dataclass(frozen=True, slots=True)
class Slots:
    slots: int
    steps: pl.DataFrame
    """STEPS: `number` of the first step of the row, `process` as a node, times in ns after the origin"""
    values: pl.DataFrame
    """group, step (row of `steps`), slot, and values"""
    notes: tuple[str, ...]
    folded: bool
    """True if a row stands for several steps."""


def device_slots(
    gpu_work: Work,
    steps: pl.DataFrame,
    executions: Intervals,
    idle: Mapping[int, tuple[int, Ints, Ints]],
    bins: Bins,
    moments: pl.DataFrame,
) -> Slots:
    """`executions`: those of `gpu_work`, by groups; `idle`: for each group of idle time its process and its times. Samples are divided over
    slots in the proportions of `moments`."""
    group, start, end = executions
    number = gpu_work.executions["step"].to_numpy()
    inside = number >= 0
    if not inside.all():
        group, start, end, number = (each[inside] for each in (group, start, end, number))
    rows = steps.sort("process", "step")
    row = _rows(rows, _ints(gpu_work.sites, "process")[group], number)
    used = np.zeros(len(rows), dtype=np.bool_)
    used[row] = True
    row, rows = (np.cumsum(used) - 1)[row], rows.filter(pl.Series(used))
    begins, ends = _on_device(rows, row, start, end)
    parted = _parted(rows, begins, ends, group, row, start)
    by_slot = [in_slots(parted, group, row, start, end)]
    for idle_group, (process, since, until) in idle.items():
        parts = []
        for low in range(0, len(since), PIECE):
            at, first, last = _cut(rows, begins, ends, process, since[low : low + PIECE], until[low : low + PIECE])
            parts.append(in_slots(parted, 0 * at, at, first, last))
        if parts:
            of_steps = summed(pl.concat(parts).select("step", "slot", "value"), ("step", "slot"))
            by_slot.append(of_steps.select(pl.lit(idle_group, pl.Int64).alias("group"), "step", "slot", "value"))
    slots = _made(rows, parted, pl.concat(by_slot), GPU_TIME.name, bins)
    stalls = GPU_STALLS.name in moments.columns and len(slots.values) > 0
    return replace(slots, values=_with_samples(slots, bins, moments)) if stalls else slots


def sample_slots(items: pl.DataFrame, steps: pl.DataFrame, bins: Bins, metric: str) -> Slots:
    """`items`: process, group, step, time_ns, value."""
    rows = steps.sort("process", "step")
    inside = items.filter(pl.col("step") >= 0)
    row, group = _rows(rows, _ints(inside, "process"), _ints(inside, "step")), _ints(inside, "group")
    begins = _ints(rows, "begin_ns")
    time = np.minimum(inside["time_ns"].to_numpy(), LATEST).astype(np.int64)
    parted = _parted(rows, begins, np.maximum(_ints(rows, "end_ns"), begins + 1), group, row, time)
    values = inside.select("group", step=pl.Series(parted.shown[row]), slot=pl.Series(parted.slot(row, time)), value="value")
    return _made(rows, parted, summed(values, _SLOT), metric, bins)


def _rows(steps: pl.DataFrame, process: Ints, number: NDArray[np.integer]) -> Ints:
    """The row of each step of a process; steps are numbered from 0 in each process."""
    first = np.searchsorted(_ints(steps, "process"), np.arange(int(process.max(initial=0)) + 1))
    row: Ints = first[process] + number
    return row


def _on_device(steps: pl.DataFrame, row: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The begin and end of each step (in the order of processes and time) on devices. Its work may run long after it was launched: a step
    begins with its first work, or when the previous step has ended, but not before the program began it."""
    first, last = np.full(len(steps), LATEST), np.zeros(len(steps), dtype=np.int64)
    np.minimum.at(first, row, start)
    np.maximum.at(last, row, end)
    process = _ints(steps, "process")
    same = np.append(False, process[1:] == process[:-1])[: len(process)]
    before = np.where(same, np.roll(last, 1), 0)
    begins = np.minimum(first, np.maximum(_ints(steps, "begin_ns"), before))
    following = np.where(np.roll(same, -1), np.roll(first, -1), LATEST)
    return begins, np.maximum(np.maximum(last, np.minimum(_ints(steps, "end_ns"), following)), begins + 1)


def _parted(steps: pl.DataFrame, begins: Ints, ends: Ints, group: Ints, row: Ints, time: Ints) -> Steps:
    """Chooses the number of slots of a step, and of steps in one row, so that there are few enough slots with values."""
    parted = Steps(begins, ends, np.arange(len(steps)), SLOTS)
    chosen, scale, block = sample_of_rows(row)
    group, row, time = group[chosen], row[chosen], time[chosen]
    while True:
        together = few_enough(group * parted.slots + parted.slot(row, time), row, MOST_ROWS, scale, block)
        if together == 1 or parted.slots <= FEWEST_SLOTS or len(steps) // together >= ENOUGH_STEPS:
            return replace(parted, shown=_shown(steps["process"], together))
        parted = replace(parted, slots=parted.slots // 2)


def _shown(process: pl.Series, together: int) -> Ints:
    """The row that shows each step: `together` consecutive steps of a process share one."""
    pair = pl.struct("process", pl.int_range(pl.len()).over("process") // together)
    shown: Ints = process.to_frame("process").select(pair.rle_id().cast(pl.Int64)).to_series().to_numpy()
    return shown


def _made(steps: pl.DataFrame, parted: Steps, values: pl.DataFrame, metric: str, bins: Bins) -> Slots:
    rows = pl.DataFrame(
        {
            "shown": parted.shown,
            "number": steps["step"],
            "process": steps["process"] + 1,
            "begin": parted.begins - bins.origin_ns,
            "end": parted.ends - bins.origin_ns,
        }
    ).cast(pl.Int64)
    slots = parted.slots
    while True:
        merged = rows.group_by("shown", maintain_order=True).agg(
            pl.col("number", "process").first(), pl.col("begin").min(), pl.col("end").max()
        )
        if len(values) <= MOST_ROWS or (len(merged) <= 1 and slots <= 1):
            break
        # The guess was too low; kernels may be longer than slots.
        if (slots > FEWEST_SLOTS and len(merged) // 2 < ENOUGH_STEPS) or len(merged) <= 1:
            slots = (slots + 1) // 2
            values = values.with_columns(pl.col("slot") // 2)
        else:
            again = pl.Series(_shown(merged["process"], 2))
            rows = rows.with_columns(shown=again.gather(rows["shown"]))
            values = values.with_columns(step=again.gather(values["step"]))
        values = summed(values, _SLOT)
    notes = []
    if slots < SLOTS:
        notes.append(f"steps have {slots} parts, to limit their number")
    if len(merged) < len(steps):
        notes.append(f"{-(-len(steps) // len(merged))} consecutive steps are shown as one, to limit their number")
    return Slots(slots, merged.select(list(STEPS)), values.rename({"value": metric}), tuple(notes), len(merged) < len(steps))


def _cut(steps: pl.DataFrame, begins: Ints, ends: Ints, process: int, since: Ints, until: Ints) -> Intervals:
    """Cuts the intervals of a process where its steps begin and end: the row of the step, start, end."""
    low, high = np.searchsorted(_ints(steps, "process"), [process, process + 1]).tolist()
    first = np.maximum(np.searchsorted(begins[low:high], since, side="right") - 1, 0)
    many = np.maximum(np.searchsorted(begins[low:high], until, side="left") - first, 0)
    which = np.repeat(np.arange(len(since)), many)
    row = low + first[which] + np.arange(len(which)) - np.repeat(np.cumsum(many) - many, many)
    start, end = np.maximum(since[which], begins[row]), np.minimum(until[which], ends[row])
    kept = end > start
    return row[kept], start[kept], end[kept]


def _with_samples(slots: Slots, bins: Bins, moments: pl.DataFrame) -> pl.DataFrame:
    """The values of slots with those of samples: a group's samples in a bin are divided over the slots that touch the bin, by the group's
    time there. If the group also ran outside of steps, that part is left out."""
    values = ordered(slots.values.rename({GPU_TIME.name: "value"}), _SLOT)
    bins_of_groups = ordered(moments, ("group", "bin")).fill_null(0)
    took = np.maximum(_ints(bins_of_groups, GPU_TIME.name), 1).astype(np.float64)
    pieces = [slice(first, first + SAMPLED_ROWS) for first in range(0, len(values), SAMPLED_ROWS)]
    # The times of slots and of bins are measured. The time of a pair is an estimate that is fitted to both.
    fit = np.ones(len(bins_of_groups))
    for _ in range(2):
        inside = np.zeros(len(bins_of_groups))
        for piece in pieces:
            touching = _Touching.of(slots, bins, values[piece], bins_of_groups, fit)
            inside += np.bincount(touching.moment, touching.time, len(bins_of_groups))
        last, fit = fit, fit * took / np.maximum(inside, 1e-9)
    each = _ints(bins_of_groups, GPU_STALLS.name) / np.maximum(inside, took)
    by_slot = np.zeros(len(values))
    for piece in pieces:
        touching = _Touching.of(slots, bins, values[piece], bins_of_groups, last)
        by_slot[piece] = np.bincount(touching.slot, touching.time * each[touching.moment], len(values[piece]))
    total = np.rint(np.bincount(_ints(values, "group"), by_slot)).astype(np.int64)
    divided = by_density(values, pl.Series(by_slot / np.maximum(_ints(values, "value"), 1)), total)
    return values.select("group", "step", "slot", pl.col("value").alias(GPU_TIME.name), divided.alias(GPU_STALLS.name))


@dataclass(frozen=True, slots=True)
class _Touching:
    """Pairs of a slot and a bin that overlap, and in both of which the group ran."""

    slot: Ints
    moment: Ints
    time: NDArray[np.float64]
    """The estimated part of the slot's time that is in the bin."""

    @staticmethod
    def of(slots: Slots, bins: Bins, values: pl.DataFrame, moments: pl.DataFrame, fit: NDArray[np.float64]) -> _Touching:
        """`values`: slots; `moments`: sorted by group and bin, each multiplied by `fit`."""
        begin, end = _ints(slots.steps, "begin"), _ints(slots.steps, "end")
        group, step, slot = (_ints(values, name) for name in ("group", "step", "slot"))
        wide = (end - begin)[step] / slots.slots
        # If a row stands for several steps, each slot spans all of them.
        opens = begin[step] + (0 if slots.folded else wide * slot)
        closes = np.where(slots.folded, end[step], np.minimum(opens + wide, end[step]))
        key = _ints(moments, "group") * bins.count + _ints(moments, "bin")
        low = np.searchsorted(key, group * bins.count + np.clip(opens // bins.bin_ns, 0, bins.count - 1))
        high = np.searchsorted(key, group * bins.count + np.clip(closes // bins.bin_ns, 0, bins.count - 1), side="right")
        many = high - low
        row = np.repeat(np.arange(len(values)), many)
        moment = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many) + low[row]
        since = _ints(moments, "bin")[moment] * bins.bin_ns
        shared = np.minimum(closes[row], since + bins.bin_ns) - np.maximum(opens[row], since)
        weight = np.maximum(shared, 1e-3) * (_ints(moments, GPU_TIME.name) * fit)[moment]
        whole = np.maximum(np.bincount(row, weight, len(values)), 1e-9)
        return _Touching(row, moment, weight / whole[row] * _ints(values, "value")[row])


def _ints(rows: pl.DataFrame, name: str) -> Ints:
    column: Ints = rows[name].cast(pl.Int64).to_numpy()
    return column

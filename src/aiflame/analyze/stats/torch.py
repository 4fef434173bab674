"""The tables of torch's `key_averages()`."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.stats.calls import call_counts, calls_of, marked_stacks, op_and_runtime_frames, op_frames, within_its_like
from aiflame.analyze.stats.op_inputs import MEMORY, by_name
from aiflame.analyze.stats.sums import percent
from aiflame.analyze.stats.torch_annotations import named_stretches, stretches_on_devices, without_stretches
from aiflame.analyze.stats.work import device_work
from aiflame.analyze.top import top
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.trees.build import metrics, tree
from aiflame.profile.schema.kinds import Kind

GPU_TIME = "gpu-time"
OUTSIDE = "[memory]"
"""The row of memory that was allocated or freed outside of all calls."""
_OF_DEVICES = ("self_device_ns", "device_ns", "launches")
"""Columns that are null where no device was used."""
_COLUMNS = {
    "name": pl.String,
    "self_cpu_ns": pl.Int64,
    "cpu_ns": pl.Int64,
    "self_device_ns": pl.Int64,
    "device_ns": pl.Int64,
    "launches": pl.Int64,
    "calls": pl.Int64,
}


def key_averages(profile: Analysis) -> pl.DataFrame:
    """Each op, call of a runtime and `record_function`: its own time and that with all it called, on CPUs and on devices."""
    rows, sums = _traced(profile) if len(op_frames(profile)) else _recorded(profile), by_name(profile)
    alone = sums.filter(pl.col("name") == OUTSIDE).with_columns(
        pl.lit(0, pl.Int64).alias(name) for name in _COLUMNS if name.endswith("_ns")
    )
    rows = pl.concat([rows.join(sums.drop("calls"), on="name", how="left"), alone], how="diagonal")
    if device_work(profile).is_empty():
        rows = rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in _OF_DEVICES)
    shown = rows.with_columns(
        percent("self_cpu_ns", name="self_cpu_percent"),
        pl.when(pl.col("self_device_ns").is_not_null()).then(percent("self_device_ns", name="self_device_percent")),
        avg_cpu_ns=pl.col("cpu_ns") / pl.col("calls"),
        avg_device_ns=pl.col("device_ns") / pl.col("calls"),
    )
    return shown.sort("self_cpu_ns", "self_device_ns", "name", descending=[True, True, False]).select(
        *("self_cpu_percent", "self_cpu_ns", "cpu_ns", "avg_cpu_ns"),
        *("self_device_percent", "self_device_ns", "device_ns", "avg_device_ns"),
        *(*MEMORY, "flops", "launches", "calls", "name"),
    )


@once
def op_calls(profile: Analysis) -> pl.DataFrame:
    """`calls.CALLS` of ops and of the runtimes of devices."""
    return calls_of(profile, op_and_runtime_frames(profile))


def _traced(profile: Analysis) -> pl.DataFrame:
    """From the calls of an imported trace. As torch does, the time of a call inside one of the same name counts for both, unless the one
    does nothing but call the other: then they are one call."""
    stretches = named_stretches(profile, op_calls(profile))
    calls = pl.concat([without_stretches(op_calls(profile), stretches), stretches])
    cpu = calls.group_by("name").agg(self_cpu_ns=pl.col("self_ns").sum(), cpu_ns=pl.col("took_ns").sum(), seen=pl.len().cast(pl.Int64))
    counts = call_counts(profile, op_and_runtime_frames(profile))
    twice = within_its_like(op_calls(profile)).group_by("name").agg(twice_ns=pl.col("took_ns").sum(), twice=pl.len().cast(pl.Int64))
    cpu = (
        cpu.join(counts, on="name", how="full", coalesce=True)
        .join(twice, on="name", how="left")
        .with_columns(pl.col("twice", "twice_ns").fill_null(0))
        .with_columns(calls=pl.coalesce("calls", "seen") - pl.col("twice"), cpu_ns=pl.col("cpu_ns") - pl.col("twice_ns"))
    )
    devices = pl.concat([_on_devices(profile), stretches_on_devices(stretches, device_work(profile))]).group_by("name").agg(pl.all().sum())
    rows = cpu.join(devices, on="name", how="full", coalesce=True).with_columns(pl.exclude("name").fill_null(0))
    return rows.select(pl.col(name).cast(kind) for name, kind in _COLUMNS.items())


def _on_devices(profile: Analysis) -> pl.DataFrame:
    """By op: the time of the work that it launched itself, with that of the ops that it called, and the number of the former."""
    work = device_work(profile).filter(pl.col("stack").is_not_null())
    parts = [pl.DataFrame(schema={name: _COLUMNS[name] for name in ("name", "self_device_ns", "device_ns", "launches")})]
    for stacks in marked_stacks(profile, op_frames(profile)):
        own = work.filter(pl.col("row") == stacks.row)
        place = stacks.place(own["stack"].to_numpy().astype(np.int64))
        took, size = own["took_ns"].to_numpy(), len(stacks.id)
        near = stacks.nearest[place]
        in_ops = near >= 0
        sums = {
            "self_device_ns": nodes.gather(near[in_ops], took[in_ops], size),
            "device_ns": nodes.sum_up(stacks.parent, nodes.gather(place, took, size)),
            "launches": nodes.gather(near[in_ops], np.ones(int(in_ops.sum()), dtype=np.int64), size),
        }
        above, mark = stacks.above(), stacks.mark
        calls_one = np.bincount(above[mark & (above >= 0)], minlength=size) == 1
        names = np.array(stacks.name, dtype=object)
        like = mark & (above >= 0) & calls_one[np.maximum(above, 0)] & (names == names[np.maximum(above, 0)])
        sums["device_ns"] = np.where(like, 0, sums["device_ns"])
        at = np.flatnonzero(mark)
        parts.append(pl.DataFrame({"name": [stacks.name[node] for node in at.tolist()], **{key: of[at] for key, of in sums.items()}}))
    return pl.concat(parts).group_by("name").agg(pl.all().sum())


def _recorded(profile: Analysis) -> pl.DataFrame:
    """From samples and launches of a recording, which does not count calls. The time of an op inside one of the same name counts once."""
    parts = [pl.DataFrame(schema=_COLUMNS)]
    there = metrics(profile)
    clock = next((name for name in there if name in CLOCK), None)
    for metric, part in ((clock, "cpu"), (GPU_TIME if GPU_TIME in there else None, "device")):
        if metric is None:
            continue
        whole = tree(profile, metric, "op")
        if not (whole.kinds() == int(Kind.OP)).any():
            continue
        rows = top(whole, "op", metric).filter(pl.col("kind") == int(Kind.OP))
        launches = ["launches"] if part == "device" and "launches" in rows.columns else []
        named = rows.select("name", *launches, pl.col("self").alias(f"self_{part}_ns"), pl.col("total").alias(f"{part}_ns"))
        parts.append(named.select(pl.col(name).cast(_COLUMNS[name]) for name in named.columns))
    both = pl.concat(parts, how="diagonal").group_by("name").agg(pl.exclude("name", "calls").sum(), calls=pl.lit(None, pl.Int64))
    return both.select(list(_COLUMNS))

"""The table `gpu_counters` as intervals ("stretches") of time of each device, with a value for each counter.

The stretches of a device should not overlap. Where they do, in a damaged profile or where two recorders counted, they go to different
lanes, which are divided one by one. A stretch without length, and values beyond the limits below, belong to no work of the program.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.counters.another_run import has_another_run, metrics_of_another_run, totals_of_another_run
from aiflame.attribute.counters.names import AS_TIME, COUNTED, CYCLES, KNOWN, counters_of
from aiflame.attribute.devices.windows import LATEST, lanes
from aiflame.attribute.metrics import is_own_counter
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

MOST = 1 << 50
"""A larger count in one stretch comes from a damaged record."""
MOST_SUM = 1 << 61
MOST_METRICS = 64
MOST_DEVICES = 256
_FIRST = {*KNOWN, *AS_TIME.values()}
ROWS = ["process", "device", "metric", "value"]


@dataclass(frozen=True, slots=True)
class Stretches:
    """The stretches of one device: sorted, without overlap."""

    begin: Ints
    end: Ints
    values: dict[str, Ints]
    """For each metric, a value for each stretch."""


def has_counters(profile: Tables) -> bool:
    return profile.has("gpu_counters")


def has_counts(profile: Tables) -> bool:
    """Whether kernels have counts, of this run or of another."""
    return has_counters(profile) or has_another_run(profile)


def counted_metrics(profile: Tables) -> list[str]:
    """The metrics of trees that were counted; a user's own counters by their names, last."""
    if not has_counts(profile):
        return []
    there = metrics_of_another_run(profile) or set(profile.scan("gpu_counters").select(pl.col("metric").unique()).collect()["metric"])
    if CYCLES in there:
        there |= {time for cycles, time in AS_TIME.items() if cycles in there}
    own = sorted(name for name in there if name is not None and is_own_counter(name))
    return [*(metric for metric, counters in COUNTED.items() if not there.isdisjoint(counters)), *own[:MOST_METRICS]]


def counted_values(profile: Tables) -> pl.DataFrame:
    """process, device, metric, begin_ns, end_ns, value; damaged values are limited. Cycles are also given as time (AS_TIME)."""
    time = (pl.col(name).clip(upper_bound=LATEST).cast(pl.Int64) for name in ("begin_ns", "end_ns"))
    value = pl.col("value").clip(upper_bound=MOST).cast(pl.Int64)
    rows = profile.scan("gpu_counters").select("process", "device", "metric", *time, value).collect()
    if rows["value"].cast(pl.Float64).sum() > MOST_SUM:
        rows = rows.with_columns(pl.col("value").clip(upper_bound=MOST_SUM // len(rows)))
    return pl.concat([rows, *_as_time(rows)])


def _as_time(rows: pl.DataFrame) -> list[pl.DataFrame]:
    stretch = ["process", "device", "begin_ns", "end_ns"]
    rows = rows.filter(pl.col("end_ns") > pl.col("begin_ns"))
    elapsed = rows.filter(pl.col("metric") == CYCLES, pl.col("value") > 0).group_by(stretch).agg(elapsed=pl.col("value").sum())
    length = (pl.col("end_ns") - pl.col("begin_ns")).cast(pl.Float64)
    part = pl.min_horizontal(pl.col("value") / pl.col("elapsed"), 1.0)
    return [
        rows.filter(pl.col("metric") == cycles)
        .group_by(stretch)
        .agg(pl.col("value").sum())
        .join(elapsed, on=stretch)
        .sort(stretch)
        .select("process", "device", pl.lit(time).alias("metric"), "begin_ns", "end_ns", value=(part * length).round().cast(pl.Int64))
        for cycles, time in AS_TIME.items()
    ]


def totals(rows: pl.DataFrame) -> pl.DataFrame:
    """process, device, metric, value: the whole counts."""
    return rows.group_by(ROWS[:-1]).agg(pl.col("value").sum()).sort(ROWS[:-1])


def counted_total(profile: Tables, metric: str) -> int:
    """The sum of a metric of trees, over all of the recording."""
    rows = totals_of_another_run(profile) if has_another_run(profile) else counted_values(profile)
    return int(rows.filter(pl.col("metric").is_in(list(counters_of(metric))))["value"].sum())


def stretches(rows: pl.DataFrame) -> Iterator[Stretches]:
    """The stretches of one device (rows of `counted_values`); metrics that were counted together share one Stretches."""
    rows = rows.filter(pl.col("end_ns") > pl.col("begin_ns"))
    there = rows["metric"].unique().sort().to_list()
    metrics = sorted(there, key=lambda metric: metric not in _FIRST)[:MOST_METRICS]
    together: dict[tuple[bytes, bytes], dict[str, Ints]] = {}
    for metric in metrics:
        own = rows.filter(pl.col("metric") == metric).group_by("begin_ns", "end_ns").agg(pl.col("value").sum()).sort("begin_ns", "end_ns")
        begin, end = own["begin_ns"].to_numpy(), own["end_ns"].to_numpy()
        together.setdefault((begin.tobytes(), end.tobytes()), {})[metric] = own["value"].to_numpy()
    for (begins, ends), values in together.items():
        begin, end = np.frombuffer(begins, dtype=np.int64), np.frombuffer(ends, dtype=np.int64)
        if (begin[1:] >= end[:-1]).all():
            yield Stretches(begin, end, values)
            continue
        for lane in lanes(begin, end):
            yield Stretches(begin[lane], end[lane], {metric: value[lane] for metric, value in values.items()})

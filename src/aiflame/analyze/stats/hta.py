"""The reports of HTA (Holistic Trace Analysis) about the time of devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from aiflame.analyze.spans import Spans, both, union, without
from aiflame.analyze.stats.sums import percent, spread
from aiflame.analyze.stats.work import COMMUNICATION, COMPUTATION, MEMORY, PLACE, device_work
from aiflame.attribute.analysis import Analysis

KERNEL_WAIT_NS = 30_000
"""A shorter gap between two kernels of a stream is the device's own."""
HOST_WAIT, KERNEL_WAIT, OTHER = "host_wait", "kernel_wait", "other"
STREAM = [*PLACE, "stream"]
KINDS = (COMPUTATION, COMMUNICATION, MEMORY)


def by_device(work: pl.DataFrame) -> Iterator[tuple[tuple[object, ...], pl.DataFrame]]:
    """The rows of each device of each process, by time; devices by rank and name."""
    for rows in work.sort(PLACE, maintain_order=True).partition_by(PLACE, maintain_order=True):
        yield rows.select(PLACE).row(0), rows


def spans_of(rows: pl.DataFrame) -> Spans:
    return union(rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy())


def temporal_breakdown(profile: Analysis) -> pl.DataFrame:
    """From the first to the last moment of work of a device: idle, computing, and busy with something else only."""
    breakdowns = []
    for place, rows in by_device(device_work(profile)):
        busy, computing = spans_of(rows), spans_of(rows.filter(kind=COMPUTATION))
        whole = int(busy.end[-1] - busy.begin[0]) if len(busy) else 0
        breakdowns.append((*place, whole, whole - busy.total(), computing.total(), busy.total() - computing.total()))
    times = ("kernel_time_ns", "idle_ns", "compute_ns", "non_compute_ns")
    answer = _frame(breakdowns, dict.fromkeys(times, pl.Int64))
    return answer.with_columns(percent(name, pl.col("kernel_time_ns"), name.replace("_ns", "_percent")) for name in times[1:])


def idle_time_breakdown(profile: Analysis) -> pl.DataFrame:
    """The gaps of each stream: the host had launched nothing, the device began the next kernel, or anything else."""
    reached = pl.col("end_ns").cum_max().shift(1).over(STREAM)
    gaps = device_work(profile).with_columns(idle_ns=pl.col("begin_ns") - reached, reached=reached).filter(pl.col("idle_ns") > 0)
    cause = (
        pl.when(pl.col("launch_begin_ns") > pl.col("reached"))
        .then(pl.lit(HOST_WAIT))
        .when(pl.col("idle_ns") < KERNEL_WAIT_NS)
        .then(pl.lit(KERNEL_WAIT))
        .otherwise(pl.lit(OTHER))
    )
    return (
        gaps.with_columns(cause=cause)
        .group_by(*STREAM, "cause")
        .agg(pl.col("idle_ns").sum(), gaps=pl.len().cast(pl.Int64), longest_ns=pl.col("idle_ns").max())
        .with_columns(percent("idle_ns", pl.col("idle_ns").sum().over(STREAM)))
        .sort(*STREAM, "cause")
        .select(*STREAM, "cause", "idle_ns", "share_percent", "gaps", "longest_ns")
    )


def kernel_types(profile: Analysis) -> pl.DataFrame:
    """The time in which each kind of work ran, alone or together with others."""
    times: list[tuple[object, ...]] = []
    for place, rows in by_device(device_work(profile)):
        spans = {kind: spans_of(rows.filter(kind=kind)) for kind in KINDS}
        times += [(*place, name, took) for name, took in _together(spans).items() if took]
    answer = _frame(times, {"kind": pl.String, "total_ns": pl.Int64})
    return answer.with_columns(percent("total_ns", pl.col("total_ns").sum().over(PLACE))).sort(
        *PLACE, "total_ns", descending=[False, False, False, True]
    )


def _together(spans: Mapping[str, Spans]) -> Mapping[str, int]:
    """For each set of kinds the time in which exactly these ran."""
    totals = {}
    for number in range(1, 1 << len(KINDS)):
        running = [kind for place, kind in enumerate(KINDS) if number >> place & 1]
        time = spans[running[0]]
        for kind in running[1:]:
            time = both(time, spans[kind])
        for kind in KINDS:
            if kind not in running:
                time = without(time, spans[kind])
        totals[" overlapping ".join(running)] = time.total()
    return totals


def kernel_breakdown(profile: Analysis) -> pl.DataFrame:
    """Each kernel and kind of copy: how often it ran and how long."""
    return (
        device_work(profile)
        .group_by(*PLACE, "kind", "name")
        .agg(pl.col("took_ns").sum().alias("total_ns"), pl.len().cast(pl.Int64).alias("count"), *spread("took_ns", "ns"))
        .with_columns(percent("total_ns", pl.col("total_ns").sum().over(PLACE)))
        .sort(*PLACE, "total_ns", "name", descending=[False, False, False, True, False])
        .select(*PLACE, "kind", "share_percent", "total_ns", "count", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns", "name")
    )


def overlap(profile: Analysis) -> pl.DataFrame:
    """The part of communication during which the device computed."""
    overlaps = []
    for place, rows in by_device(device_work(profile)):
        communicating, computing = (spans_of(rows.filter(kind=kind)) for kind in (COMMUNICATION, COMPUTATION))
        if len(communicating):
            overlaps.append((*place, communicating.total(), computing.total(), both(communicating, computing).total()))
    answer = _frame(overlaps, dict.fromkeys(("communication_ns", "compute_ns", "overlap_ns"), pl.Int64))
    return answer.with_columns(percent("overlap_ns", pl.col("communication_ns"), "overlap_percent"))


def _frame(rows: list[tuple[object, ...]], columns: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    schema: dict[str, type[pl.DataType]] = {"rank": pl.Int64, "process": pl.String, "device": pl.String, **columns}
    return pl.DataFrame(rows, schema=schema, orient="row")

"""The reports of HTA about launches: queues of streams, bandwidth of copies, delays; and their values over time."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.stats.hta import STREAM
from aiflame.analyze.stats.sums import described, percent, spread
from aiflame.analyze.stats.work import PLACE, device_work
from aiflame.attribute.analysis import Analysis

LONG_CALL_NS = 50_000
LONG_DELAY_NS = 100_000
FULL = 1024
"""Launches that a queue of CUDA holds: the next one waits."""
LAUNCH = ["launch_begin_ns", "launch_end_ns"]


def queue_length_series(profile: Analysis) -> pl.DataFrame:
    """The launches of a stream that had not begun to run: a row for each change."""
    paired = device_work(profile).filter(pl.col("launch_begin_ns").is_not_null())
    launched = paired.select(*STREAM, time_ns="launch_begin_ns", change=pl.lit(1))
    begun = paired.select(*STREAM, time_ns="begin_ns", change=pl.lit(-1))
    return (
        pl.concat([launched, begun])
        .sort(*STREAM, "time_ns", "change", descending=[False] * 5 + [True])
        .with_columns(queue_length=pl.col("change").cum_sum().over(STREAM).cast(pl.Int64))
        .drop("change")
    )


def queue_length(profile: Analysis) -> pl.DataFrame:
    """The length of each stream's queue, over its changes; and how long it was full."""
    held = (pl.col("time_ns").shift(-1) - pl.col("time_ns")).over(STREAM).fill_null(0)
    return (
        queue_length_series(profile)
        .with_columns(held=held)
        .group_by(STREAM)
        .agg(
            pl.len().cast(pl.Int64).alias("changes"),
            *described("queue_length"),
            ((pl.col("queue_length") * pl.col("held")).sum() / pl.col("held").sum()).alias("mean_over_time"),
            full_ns=pl.col("held").filter(pl.col("queue_length") >= FULL).sum(),
        )
        .sort(STREAM)
    )


def memory_bandwidth_series(profile: Analysis) -> pl.DataFrame:
    """The bandwidth of each kind of copy, added up where several run: a row for each change."""
    copies = device_work(profile).filter(pl.col("copy").is_not_null(), pl.col("took_ns") > 0)
    copies = copies.with_columns(rate=pl.col("bytes") / pl.col("took_ns"))
    began = copies.select(*PLACE, "name", time_ns="begin_ns", change="rate", running=pl.lit(1))
    ended = copies.select(*PLACE, "name", time_ns="end_ns", change=-pl.col("rate"), running=pl.lit(-1))
    key = [*PLACE, "name"]
    # Sums of fractions leave a rest where nothing runs.
    sums = pl.when(pl.col("running").cum_sum() > 0).then(pl.col("change").cum_sum()).otherwise(0.0)
    return (
        pl.concat([began, ended])
        .sort(*key, "time_ns", "running")
        .with_columns(bandwidth_gb_s=sums.over(key))
        .select(*PLACE, "time_ns", "name", "bandwidth_gb_s")
    )


def memory_bandwidth(profile: Analysis) -> pl.DataFrame:
    """The bandwidth of each kind of copy, over the changes at which something was copied."""
    key = [*PLACE, "name"]
    running = memory_bandwidth_series(profile).filter(pl.col("bandwidth_gb_s") > 0)
    figures = running.group_by(key).agg(pl.len().cast(pl.Int64).alias("changes"), *described("bandwidth_gb_s"))
    figures = figures.rename({name: f"{name}_gb_s" for name in figures.columns if name not in (*key, "changes")})
    moved = (
        device_work(profile)
        .filter(pl.col("copy").is_not_null())
        .group_by(key)
        .agg(pl.len().cast(pl.Int64).alias("copies"), pl.col("bytes").sum().alias("moved_bytes"), pl.col("took_ns").sum().alias("total_ns"))
    )
    return moved.join(figures, on=key, how="left", nulls_equal=True).sort(key).select(*PLACE, "name", pl.exclude(key))


def augmented_counters(profile: Analysis) -> pl.DataFrame:
    """Both series together, as counters of a timeline."""
    queue = queue_length_series(profile).select(
        *PLACE, "time_ns", counter=pl.format("Queue length of stream {}", "stream"), value=pl.col("queue_length").cast(pl.Float64)
    )
    rate = memory_bandwidth_series(profile).select(*PLACE, "time_ns", counter=pl.format("GB/s of {}", "name"), value="bandwidth_gb_s")
    return pl.concat([queue, rate]).sort(*PLACE, "time_ns", "counter", maintain_order=True)


def launches(profile: Analysis) -> pl.DataFrame:
    """Each kernel and copy with the call that launched it, and the time from the end of that call to its begin."""
    paired = device_work(profile).filter(pl.col("launch_begin_ns").is_not_null())
    return paired.select(
        *STREAM,
        "correlation",
        call_ns=pl.col("launch_end_ns") - pl.col("launch_begin_ns"),
        device_ns="took_ns",
        delay_ns=(pl.col("begin_ns") - pl.col("launch_end_ns")).clip(lower_bound=0),
        name="name",
    )


def launch_statistics(profile: Analysis) -> pl.DataFrame:
    """How long calls that launch took, how long their work ran and how late it began; and how many are out of the ordinary: calls that took
    long, work that was over sooner than its call, and work that began late."""
    rows = launches(profile)
    measures = {
        "runtime call": ("call_ns", pl.col("call_ns") > LONG_CALL_NS),
        "on the device": ("device_ns", pl.col("device_ns") < pl.col("call_ns")),
        "launch delay": ("delay_ns", pl.col("delay_ns") > LONG_DELAY_NS),
    }
    parts = [
        rows.group_by(PLACE)
        .agg(pl.len().cast(pl.Int64).alias("launches"), outliers.sum().cast(pl.Int64).alias("outliers"), *spread(value, "ns"))
        .with_columns(percent("outliers", pl.col("launches"), "outliers_percent"), measure=pl.lit(name), order=pl.lit(order))
        for order, (name, (value, outliers)) in enumerate(measures.items())
    ]
    figures = [f"{name}_ns" for name in ("avg", "med", "min", "max", "stddev")]
    return pl.concat(parts).sort(*PLACE, "order").select(*PLACE, "measure", "launches", "outliers", "outliers_percent", *figures)

"""The reports of `nsys stats`, and its recipe `nccl_gpu_overlap_trace`."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.spans import Spans, union
from aiflame.analyze.stats.calls import system_calls
from aiflame.analyze.stats.sums import summed
from aiflame.analyze.stats.work import COMMUNICATION, COMPUTATION, PLACE, device_work
from aiflame.analyze.tally import launching_calls, traced_calls
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.events import LATEST
from aiflame.profile.schema.enums import CallBackend, RegionKind

_DEVICES = [int(of) for of in (CallBackend.CUDA, CallBackend.OPENCL, CallBackend.LEVEL_ZERO, CallBackend.HIP, CallBackend.HSA)]
_STYLES = {int(RegionKind.NESTED): "PushPop", int(RegionKind.FREE): "StartEnd", int(RegionKind.FRAME): "Frame"}


_PARTS = {"api": "api", "queue": "queue", "kernel": "took_ns"}
"""Of a kernel's execution, with their columns."""


def gpu_kernels(profile: Analysis) -> pl.DataFrame:
    return summed(device_work(profile).filter(pl.col("copy").is_null()), ["name"])


def memory_times(profile: Analysis) -> pl.DataFrame:
    return summed(_copies(profile), ["operation"], count="count")


def memory_sizes(profile: Analysis) -> pl.DataFrame:
    return summed(_copies(profile), ["operation"], "bytes", "bytes", count="count").drop("share_percent")


def _copies(profile: Analysis) -> pl.DataFrame:
    return device_work(profile).filter(pl.col("copy").is_not_null()).rename({"name": "operation"})


def api_calls(profile: Analysis) -> pl.DataFrame:
    """The traced calls of the runtimes of devices; of runtimes without, the calls that launched work or waited for it."""
    calls = traced_calls(profile).filter(pl.col("backend").is_in(_DEVICES))
    traced = calls.select(pl.col("backend").unique()).collect()["backend"].to_list()
    both = pl.concat([calls, launching_calls(profile).filter(~pl.col("backend").is_in(traced))]).select("name", took_ns="time")
    return summed(both.collect(), ["name"], count="calls")


def system_call_sums(profile: Analysis) -> pl.DataFrame:
    return summed(system_calls(profile), ["name"], count="calls")


def ranges(profile: Analysis) -> pl.DataFrame:
    """The regions that the program marked, with an end."""
    return summed(_ranges(profile), ["domain", "style", "range"])


def nested_ranges(profile: Analysis) -> pl.DataFrame:
    return summed(_ranges(profile).filter(style=_STYLES[int(RegionKind.NESTED)]), ["domain", "range"])


def _ranges(profile: Analysis) -> pl.DataFrame:
    ends = profile.scan("region_ends").select("process", pl.col("end_ns").clip(upper_bound=LATEST).cast(pl.Int64), id="region")
    begun = pl.col("begin_ns").clip(upper_bound=LATEST).cast(pl.Int64)
    return (
        profile.scan("regions")
        .filter(pl.col("kind").is_in(list(_STYLES)))
        .join(ends.unique(["process", "id"], keep="first"), on=["process", "id"])
        .select(
            "domain",
            range="name",
            style=pl.col("kind").replace_strict(_STYLES, return_dtype=pl.String),
            took_ns=(pl.col("end_ns") - begun).clip(lower_bound=0),
        )
        .collect()
    )


def gpu_trace(profile: Analysis) -> pl.DataFrame:
    """Each kernel and copy, by time from the first."""
    shapes = profile.table("kernel_shapes").select(
        *(pl.col("process").alias("row"), pl.col("id").alias("shape"), "registers"),
        *(
            pl.concat_str(*(pl.col(f"{name}_{axis}").cast(pl.String) for axis in "xyz"), separator="×").alias(name)
            for name in ("grid", "block")
        ),
        static_shared_bytes="static_shared",
        dynamic_shared_bytes="dynamic_shared",
    )
    rows = device_work(profile).join(shapes.unique(["row", "shape"], keep="first"), on=["row", "shape"], how="left", maintain_order="left")
    copied = pl.col("copy").is_not_null()
    return rows.select(
        start_ns=pl.col("begin_ns") - pl.col("begin_ns").min(),
        duration_ns="took_ns",
        correlation="correlation",
        grid="grid",
        block="block",
        registers="registers",
        static_shared_bytes="static_shared_bytes",
        dynamic_shared_bytes="dynamic_shared_bytes",
        copied_bytes=pl.when(copied).then("bytes"),
        throughput_gb_s=pl.when(copied & (pl.col("took_ns") > 0)).then(pl.col("bytes") / pl.col("took_ns")),
        device="device",
        stream="stream",
        name="name",
    )


def kernel_executions(profile: Analysis) -> pl.DataFrame:
    """Of kernels whose launch is known: the call, the time in the queue from its end (where the kernel began later), the kernel."""
    kernels = device_work(profile).filter(pl.col("copy").is_null(), pl.col("launch_begin_ns").is_not_null())
    wait = pl.col("begin_ns") - pl.col("launch_end_ns")
    rows = kernels.with_columns(
        api=pl.col("launch_end_ns") - pl.col("launch_begin_ns"),
        queue=pl.when(wait > 0).then(wait),
        whole=pl.col("end_ns") - pl.col("launch_begin_ns"),
    )
    threads = profile.table("threads").select(row="process", thread="id", tid="tid")
    key = ["process", "tid", "device", "name"]
    return (
        rows.join(threads, on=["row", "thread"], how="left", maintain_order="left")
        .group_by(key)
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("queue").count().cast(pl.Int64).alias("queued"),
            total_ns=pl.col("whole").sum(),
            avg_ns=pl.col("whole").mean(),
            **{f"{part}_{figure}_ns": of for part, column in _PARTS.items() for figure, of in _figures(column).items()},
        )
        .sort("total_ns", *key, descending=[True, *(False for _ in key)], nulls_last=True)
        .select(pl.exclude(key), *key)
    )


def _figures(column: str) -> dict[str, pl.Expr]:
    return {"avg": pl.col(column).mean(), "med": pl.col(column).median(), "max": pl.col(column).max()}


def communication_overlap(profile: Analysis) -> pl.DataFrame:
    """Each kernel that communicates, and for how long its device computed in that time."""
    parts = []
    for rows in device_work(profile).partition_by(PLACE, maintain_order=True):
        own = rows.filter(kind=COMMUNICATION)
        computing: Spans = union(*(rows.filter(kind=COMPUTATION)[name].to_numpy() for name in ("begin_ns", "end_ns")))
        time = computing.within(own["begin_ns"].to_numpy(), own["end_ns"].to_numpy())
        parts.append(own.with_columns(overlap_ns=pl.Series(time, dtype=pl.Int64)))
    every = pl.concat(parts) if parts else device_work(profile).with_columns(overlap_ns=pl.lit(0, pl.Int64))
    share = pl.when(pl.col("took_ns") > 0).then(pl.col("overlap_ns") * 100.0 / pl.col("took_ns")).otherwise(0.0)
    return every.sort("begin_ns", maintain_order=True).select(
        *PLACE, "stream", start_ns=pl.col("begin_ns"), duration_ns="took_ns", overlap_ns="overlap_ns", overlap_percent=share, name="name"
    )

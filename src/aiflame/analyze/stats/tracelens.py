"""The tables of TraceLens: the timeline of a GPU, ops and the kernels that they launch, communication."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.spans import without
from aiflame.analyze.stats.calls import marked_stacks, op_frames
from aiflame.analyze.stats.hta import by_device, spans_of
from aiflame.analyze.stats.sums import percent
from aiflame.analyze.stats.work import COMMUNICATION, COMPUTATION, COPY, device_work, is_fill, owners
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.events import LATEST
from aiflame.profile.schema.enums import CallBackend
from aiflame.profile.schema.kinds import Kind

NO_OP = "[no op]"
_BUS = {"allreduce": 2.0, "allgather": 1.0, "reducescatter": 1.0, "alltoall": 1.0}
"""For n ranks, the bytes that cross each link are this times (n - 1) ÷ n of the largest buffer, as nccl-tests reckon it; 1 × for others."""
_GATHERED = ("allgather",)


def gpu_timeline(profile: Analysis) -> pl.DataFrame:
    """Computation, communication outside of it, copies outside of both, and idle time of each device."""
    lines: list[tuple[object, ...]] = []
    for place, rows in by_device(device_work(profile)):
        # As in TraceLens fills are computation: they are kernels of the driver.
        computing = spans_of(rows.filter((pl.col("kind") == COMPUTATION) | is_fill()))
        communicating = spans_of(rows.filter(kind=COMMUNICATION))
        copying = spans_of(rows.filter(pl.col("copy").is_not_null() & ~is_fill()))
        busy = spans_of(rows)
        whole = int(busy.end[-1] - busy.begin[0]) if len(busy) else 0
        times = {
            "computation": computing.total(),
            "exposed communication": without(communicating, computing).total(),
            "exposed copies": without(without(copying, computing), communicating).total(),
            "busy": busy.total(),
            "idle": whole - busy.total(),
            "whole": whole,
            "all communication": communicating.total(),
            "all copies": copying.total(),
        }
        lines += [(*place, name, time, 100.0 * time / whole if whole else 0.0) for name, time in times.items()]
    schema = {"rank": pl.Int64, "process": pl.String, "device": pl.String, "time": pl.String, "total_ns": pl.Int64, "percent": pl.Float64}
    return pl.DataFrame(lines, schema=schema, orient="row")


def ops(profile: Analysis) -> pl.DataFrame:
    """The ops that launched kernels, copies and fills, by the time of these."""
    return _summed(profile, ["op"])


def ops_by_category(profile: Analysis) -> pl.DataFrame:
    """The same by the family of the kernels."""
    answer = _summed(profile, ["family"], pl.col("op").n_unique().cast(pl.Int64).alias("ops"))
    return answer.rename({"family": "category"})


def kernel_launchers(profile: Analysis) -> pl.DataFrame:
    """Each op with each kernel, copy and fill that it launched."""
    return _summed(profile, ["op", "kernel"])


def _summed(profile: Analysis, by: list[str], *more: pl.Expr) -> pl.DataFrame:
    copy = pl.col("kind") != int(Kind.GPU_KERNEL)
    named = launching_ops(profile).with_columns(kernel="short", family=pl.when(copy).then(pl.lit(COPY)).otherwise("family"))
    return (
        named.group_by(by, maintain_order=True)
        .agg(pl.col("took").sum().alias("total_ns"), pl.col("launches").sum().alias("kernels"), *more)
        .sort("total_ns", *by, descending=[True, *(False for _ in by)])
        .with_columns(percent("total_ns"), avg_ns=pl.col("total_ns") / pl.col("kernels"))
        .with_columns(cumulative_percent=pl.col("share_percent").cum_sum())
        .select("share_percent", "cumulative_percent", "total_ns", "kernels", "avg_ns", *(one.meta.output_name() for one in more), *by)
    )


def launching_ops(profile: Analysis) -> pl.DataFrame:
    """The sites of work on devices (`ProfileAnalysis.sites`); `op` is the innermost op around the launch where the profile has calls of ops
    (imported traces), as in TraceLens; else the op that the work belongs to, and NO_OP where none is known."""
    analysis = profile_analysis(profile)
    sites = analysis.sites
    innermost = np.full(len(sites), "", dtype=object)
    process, stack = (analysis.work.sites[name].to_numpy().astype(np.int64) for name in ("process", "stack"))
    for stacks in marked_stacks(profile, op_frames(profile)):
        own = np.flatnonzero(process == stacks.row)
        names = np.array([*stacks.name, ""], dtype=object)  # -1 for work outside of all ops
        innermost[own] = names[stacks.nearest[stacks.place(stack[own])]]
    op = pl.Series(innermost.tolist(), dtype=pl.String)
    named = sites.with_columns(op=pl.when(op != "").then(op).when(pl.col("op") != "").then("op").otherwise(pl.lit(NO_OP)))
    return named.filter(pl.col("launches") > 0)


def collectives(profile: Analysis) -> pl.DataFrame:
    """Calls that communicate, with their kernels: bytes, and the bandwidth that a rank saw (algorithm) and that its links had (bus)."""
    key = ["rank", "collective", "ranks", "bytes"]
    rows = _with_kernels(profile)
    size = pl.col("ranks").cast(pl.Float64)
    plain = pl.col("collective").str.to_lowercase().str.replace_all(r"[^a-z]|base|coalesced|^nccl|single|tensor|into", "")
    factor = pl.lit(1.0)
    for name, many in _BUS.items():
        factor = pl.when(plain.str.contains(name)).then(many * (size - 1) / size).otherwise(factor)
    whole = pl.when(plain.str.contains_any(list(_GATHERED))).then(pl.col("bytes") * size).otherwise(pl.col("bytes"))
    rate = pl.when((pl.col("med_ns") > 0) & (pl.col("bytes") > 0)).then(whole.truediv(pl.col("med_ns")))
    return (
        rows.group_by(key, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("calls"),
            total_ns=pl.col("kernel_ns").sum(),
            avg_ns=pl.col("kernel_ns").mean(),
            med_ns=pl.col("kernel_ns").median(),
            min_ns=pl.col("kernel_ns").min(),
            max_ns=pl.col("kernel_ns").max(),
        )
        .with_columns(algorithm_gb_s=rate)
        .with_columns(bus_gb_s=pl.when(size > 1).then(pl.col("algorithm_gb_s") * factor))
        .sort("total_ns", *key, descending=[True, False, False, False, False], nulls_last=True)
    )


def _with_kernels(profile: Analysis) -> pl.DataFrame:
    """Each call: rank, collective, ranks (of its group), bytes, kernel_ns (its kernels that communicate were launched during the call
    on its thread; null: none)."""
    names = profile.scan("call_names").filter(pl.col("backend").is_in([int(CallBackend.NCCL), int(CallBackend.TORCH)]))
    groups = profile.scan("groups").select("process", group="id", ranks=pl.col("size").cast(pl.Int64))
    since, until = (pl.col(name).clip(upper_bound=LATEST).cast(pl.Int64) for name in ("begin_ns", "end_ns"))
    calls = (
        profile.scan("calls")
        .join(names.select("process", name="id", collective=pl.col("name").str.replace(r"^\w+:", "")), on=["process", "name"])
        .join(groups, on=["process", "group"], how="left")
        .select(
            "process",
            "thread",
            "collective",
            "ranks",
            bytes=pl.col("bytes").cast(pl.Int64),
            begin=since,
            end=pl.max_horizontal(since, until),
        )
        .sort("process", "thread", "begin", maintain_order=True)
        .with_row_index("call")
        .collect()
    )
    kernels = device_work(profile).filter(kind=COMMUNICATION).filter(pl.col("launch_begin_ns").is_not_null())
    launched = kernels.select(process="row", thread="thread", begin="launch_begin_ns", took="took_ns").sort("begin")
    during = (
        launched.join_asof(
            calls.select("process", "thread", "begin", "end", "call").sort("begin"),
            on="begin",
            by=["process", "thread"],
            strategy="backward",
            check_sortedness=False,
        )
        .filter(pl.col("begin") <= pl.col("end"))
        .group_by("call")
        .agg(kernel_ns=pl.col("took").sum())
    )
    own = owners(profile).select("rank", process="row")
    return calls.join(during, on="call", how="left").join(own, on="process", how="left").sort("call")

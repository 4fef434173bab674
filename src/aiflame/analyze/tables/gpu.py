"""Kernels and copies as tables."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.device.stalls import by_reason
from aiflame.analyze.limits.groups import beside
from aiflame.analyze.tables.counters import counter_columns, counters_of
from aiflame.analyze.tables.table import TableOf, number, place, share, table_of, text, with_limits
from aiflame.profile.schema.kinds import Kind

_KERNELS = (
    text("short", "Kernel"),
    text("family", "Family"),
    number("launches", "Launches"),
    number("total", "Total", "ns"),
    share("share", "% of GPU time"),
    *(
        number(name, label, "ns")
        for name, label in (("mean", "Mean"), ("p50", "Median"), ("p99", "99%"), ("min", "Shortest"), ("max", "Longest"))
    ),
    number("registers", "Registers"),
    number("shared", "Shared memory", "bytes"),
    number("shapes", "Launch shapes"),
    text("layer", "Top layer"),
    text("stall", "Top stall"),
    place("place", "Launched at"),
    text("name", "As compiled"),
)
_TIMES = 6
"""The number of first columns, up to the mean time."""
_COPIES = (
    text("short", "Copy"),
    text("device", "Device"),
    number("launches", "Count"),
    number("bytes", "Bytes", "bytes"),
    number("total", "Total", "ns"),
    number("rate", "Rate", "bytes/s"),
    share("share", "% of GPU time"),
    text("phase", "Phase"),
    place("place", "Asked for at"),
)


def kernels_table(analysis: ProfileAnalysis, stalls: pl.DataFrame) -> TableOf:
    """A row for each kernel or specialization, summed over devices and processes."""
    sites = _with_place(analysis.scoped_sites).with_row_index("site").filter(pl.col("kind") == int(Kind.GPU_KERNEL), pl.col("launches") > 0)
    whole = max(int(analysis.scoped_sites["took"].sum()), 1)
    key = ["name", "short"]
    totals = (
        sites.group_by(key)
        .agg(
            pl.col("family").first(),
            pl.col("launches").sum(),
            total=pl.col("took").sum(),
            place=pl.col("place").sort_by("took").last(),
        )
        .with_columns(share=pl.col("total") / whole, mean=(pl.col("total") / pl.col("launches")).round().cast(pl.Int64))
    )
    top_layer = (
        analysis.scoped_shared.with_columns(pl.col("site").cast(pl.UInt32))
        .join(sites.select("site", *key), on="site")
        .group_by(*key, "layer")
        .agg(pl.col("took").sum())
        .sort("took", "layer", descending=[True, False])
        .unique(key, keep="first", maintain_order=True)
        .drop("took")
    )
    reasons = by_reason(stalls).unique("kernel", keep="first", maintain_order=True)
    top_stall = reasons.select(
        name="kernel", stall=pl.format("{} {}%", "reason", (pl.col("samples") * 100 / pl.col("of_kernel")).round().cast(pl.Int64))
    )
    measured = counters_of(analysis, sites.select(pl.col("site").cast(pl.Int64), *key, part=pl.lit(1.0)), key)
    rows = (
        totals.join(measured, on=key, how="left", nulls_equal=True)
        .join(_spread(analysis, sites, key), on=key, how="left")
        .join(_shapes(analysis), on="name", how="left")
        .join(top_layer, on=key, how="left")
        .join(top_stall, on="name", how="left")
        .with_columns(pl.col("layer", "stall").fill_null(""), pl.col("registers", "shared", "shapes").fill_null(0))
        .sort("total", "short", "name", descending=[True, False, False])
    )
    rows = beside(analysis, rows, key)
    columns = (*_KERNELS[:_TIMES], *with_limits(rows), *_KERNELS[_TIMES:-1], *counter_columns(measured), _KERNELS[-1])
    return table_of("kernels", "Kernels", columns, rows)


def copies_table(analysis: ProfileAnalysis) -> TableOf:
    sites = _with_place(analysis.scoped_sites).filter(pl.col("kind") == int(Kind.GPU_COPY), pl.col("launches") > 0)
    whole = max(int(analysis.scoped_sites["took"].sum()), 1)
    rows = (
        sites.group_by("short", "device", "phase", "place")
        .agg(pl.col("launches", "bytes").sum(), total=pl.col("took").sum())
        .with_columns(share=pl.col("total") / whole, rate=pl.when(pl.col("total") > 0).then(pl.col("bytes") * 1e9 / pl.col("total")))
        .sort("total", "short", "place", descending=[True, False, False])
    )
    return table_of("copies", "Copies", _COPIES, rows)


def _with_place(sites: pl.DataFrame) -> pl.DataFrame:
    return sites.with_columns(place=pl.when(pl.col("file") != "").then(pl.format("{}:{}", "file", "line")).otherwise(pl.lit("")))


def _spread(analysis: ProfileAnalysis, sites: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """The duration of single launches."""
    kernels = sites.select(key).unique(maintain_order=True).with_row_index("kernel")
    of_site = np.full(len(analysis.sites), -1, dtype=np.int32)
    of_site[sites["site"].to_numpy()] = sites.join(kernels, on=key, how="left", maintain_order="left")["kernel"].to_numpy()
    took = (analysis.work.executions["end_ns"] - analysis.work.executions["start_ns"]).cast(pl.Int64)
    launches = pl.DataFrame({"kernel": of_site[analysis.work.executions["site"].to_numpy()], "took": took})
    inside = analysis.inside
    launches = (launches if inside is None else launches.filter(pl.Series(inside))).filter(pl.col("kernel") >= 0)
    value = pl.col("took")
    spread = launches.group_by("kernel").agg(
        p50=value.quantile(0.5, "nearest").cast(pl.Int64),
        p99=value.quantile(0.99, "nearest").cast(pl.Int64),
        min=value.min(),
        max=value.max(),
    )
    return kernels.with_columns(pl.col("kernel").cast(pl.Int32)).join(spread, on="kernel").drop("kernel")


def _shapes(analysis: ProfileAnalysis) -> pl.DataFrame:
    """For each kernel (as compiled), the most registers and shared memory of its launches, and the number of different shapes."""
    shapes = analysis.profile.table("kernel_shapes")
    used = analysis.profile.scan("kernels").select("process", id="shape").unique().collect()
    dimensions = [f"{part}_{axis}" for part in ("grid", "block") for axis in "xyz"]
    shared = pl.col("static_shared").cast(pl.Int64) + pl.col("dynamic_shared")
    return (
        shapes.join(used, on=["process", "id"], how="semi")
        .group_by("name")
        .agg(
            registers=pl.col("registers").max().cast(pl.Int64),
            shared=shared.max(),
            shapes=pl.struct(*dimensions, "registers", "static_shared", "dynamic_shared").n_unique().cast(pl.Int64),
        )
    )

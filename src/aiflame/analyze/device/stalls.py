"""The stall reasons of each kernel's warps, and the source lines where they wait."""

from __future__ import annotations

import polars as pl

from aiflame.attribute.devices.stall_samples import UNKNOWN, sampled_functions, samples_of_counter
from aiflame.profile.tables.interface import Tables
from aiflame.resolve.device.stall_reasons import NO_STALLS

STALLS = {"kernel": pl.String, "reason": pl.String, "file": pl.String, "line": pl.Int64, "samples": pl.Int64}
_PLACE = ["cubin", "function", "offset"]


def stalls(profile: Tables) -> pl.DataFrame:
    """STALLS, the most frequent first: samples of each kernel (as compiled) by reason and line ("" and 0 if unknown). Samples of warps that
    issued are included, under `selected`."""
    if not profile.has("gpu_samples"):
        return pl.DataFrame(schema=STALLS)
    rows = (
        samples_of_counter(profile, not_issued=False)
        .group_by("process", "function", "offset", said=pl.col("short").fill_null(UNKNOWN))
        .agg(samples=pl.col("count").sum())
        .join(sampled_functions(profile).lazy(), on=["process", "function"])
        .select("cubin", "offset", "said", "samples", function="name")
    )
    if profile.has("gpu_lines"):
        lines = profile.scan("gpu_lines").filter((pl.col("depth") == 0) & (pl.col("line") > 0)).select(*_PLACE, "file", "line")
        rows = rows.join(lines.unique(_PLACE, keep="first"), on=_PLACE, how="left")
    else:
        rows = rows.with_columns(file=pl.lit(""), line=pl.lit(0))
    return (
        rows.group_by(
            pl.col("function").alias("kernel"),
            pl.col("said").alias("reason"),
            pl.col("file").fill_null(""),
            pl.col("line").fill_null(0).cast(pl.Int64),
        )
        .agg(pl.col("samples").sum())
        .sort("samples", "kernel", "reason", "file", "line", descending=[True, *[False] * 4])
        .collect()
    )


def by_reason(of: pl.DataFrame) -> pl.DataFrame:
    """kernel, reason, samples, and `of_kernel`: all samples of that kernel. Only reasons that delayed warps; the most frequent first."""
    summed = of.group_by("kernel", "reason").agg(pl.col("samples").sum()).with_columns(of_kernel=pl.col("samples").sum().over("kernel"))
    return summed.filter(~pl.col("reason").is_in(NO_STALLS), pl.col("samples") > 0).sort(
        "samples", "kernel", "reason", descending=[True, False, False]
    )


def hottest_place(of: pl.DataFrame, kernel: str, reason: str) -> tuple[str, int]:
    """The file and line where most warps of a kernel waited for this reason; ("", 0) if no line is known."""
    here = of.filter((pl.col("kernel") == kernel) & (pl.col("reason") == reason) & (pl.col("file") != ""))
    return (here["file"][0], here["line"][0]) if len(here) else ("", 0)

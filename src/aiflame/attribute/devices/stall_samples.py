"""Decides which rows of `gpu_samples` count, and for which counter, for every view of stall samples.

The device counts each sample once under its reason, and once more under the reason's twin `..._not_issued` if its scheduler issued nothing
in that cycle. The first counter alone adds up to `gpu_windows.samples` (on an H200 exactly): it is the number of samples. The second is a
part of the first and is never added to it, nor used in its place where a damaged profile has less of the first.
"""

from __future__ import annotations

import polars as pl

from aiflame.profile.tables.interface import Tables
from aiflame.resolve.device.stall_reasons import NOT_ISSUED, short

UNKNOWN = "unknown"
"""The reason of samples whose row of `stall_reasons` was lost."""


def stall_reasons(profile: Tables) -> pl.DataFrame:
    """`process`, `reason` (its id), `short` (readable name), `not_issued` (it is the second counter): each reason once."""
    reasons = profile.table("stall_reasons").select("process", "name", reason="id").unique(["process", "reason"], keep="first")
    names = {name: short(name) for name in reasons["name"].unique()}
    return reasons.select(
        "process",
        "reason",
        short=pl.col("name").replace_strict(names, return_dtype=pl.String),
        not_issued=pl.col("name").str.ends_with(NOT_ISSUED),
    )


def sampled_functions(profile: Tables) -> pl.DataFrame:
    """`process`, `function` (its id), `cubin`, `name` (as compiled): each sampled function once."""
    functions = profile.table("gpu_functions").select("process", "cubin", "name", function="id")
    return functions.unique(["process", "function"], keep="first")


def samples_of_counter(profile: Tables, *, not_issued: bool, reasons: pl.DataFrame | None = None) -> pl.LazyFrame:
    """The rows of `gpu_samples` of one of the two counters, `count` as i64, with the other columns of `reasons` (default: `stall_reasons`).
    Samples whose reason was lost count with the first counter, with null in these columns."""
    names = stall_reasons(profile) if reasons is None else reasons
    return (
        profile.scan("gpu_samples")
        .with_columns(pl.col("count").cast(pl.Int64))
        .join(names.lazy(), on=["process", "reason"], how="left")
        .filter(pl.col("not_issued").fill_null(False) == not_issued)
        .drop("not_issued")
    )

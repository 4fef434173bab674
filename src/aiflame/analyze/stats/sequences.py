"""Sequences of kernels that ops launch again and again, as HTA finds them."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.stats.calls import op_frames
from aiflame.analyze.stats.torch import op_calls
from aiflame.analyze.stats.work import device_work
from aiflame.attribute.analysis import Analysis

SHORTEST = 3
"""Kernels of a sequence."""


def kernel_sequences(profile: Analysis) -> pl.DataFrame:
    """For each outermost op the kernels that it and its callees launched, in the order of launches; and how often the same happened."""
    ops = _outermost(profile)
    work = device_work(profile).filter(pl.col("launch_begin_ns").is_not_null())
    launched = work.select(pl.col("row", "thread").cast(pl.Int64), begin_ns="launch_begin_ns", kernel="short", device_ns="took_ns").sort(
        "begin_ns", maintain_order=True
    )
    placed = launched.join_asof(ops, on="begin_ns", by=["row", "thread"], strategy="backward", check_sortedness=False)
    return (
        placed.filter(pl.col("begin_ns") <= pl.col("end_ns"))
        .group_by("call", maintain_order=True)
        .agg(pl.col("name", "took_ns").first(), pl.col("device_ns").sum(), pl.col("kernel"))
        .filter(pl.col("kernel").list.len() >= SHORTEST)
        .with_columns(kernels=pl.col("kernel").list.len().cast(pl.Int64), sequence=pl.col("kernel").list.join(" | "))
        .group_by("name", "sequence", "kernels", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("device_ns").sum(), cpu_ns=pl.col("took_ns").sum())
        .sort("count", "device_ns", "name", "sequence", descending=[True, True, False, False])
        .select("count", "device_ns", "cpu_ns", "kernels", op="name", sequence="sequence")
    )


def _outermost(profile: Analysis) -> pl.DataFrame:
    """row, thread, begin_ns, end_ns, took_ns, name, call (a number) of ops that no other op called."""
    ops = op_calls(profile).filter(pl.col("name").is_in(op_frames(profile)["name"].unique().implode()))
    reached = pl.col("end_ns").cum_max().shift(1).over("row", "thread")
    outer = ops.filter((pl.col("begin_ns") >= reached).fill_null(True)).with_row_index("call")
    return outer.select("row", "thread", "begin_ns", "end_ns", "took_ns", "name", "call")

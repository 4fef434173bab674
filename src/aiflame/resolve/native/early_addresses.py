"""Frames that were written as bare addresses, although they belong to a file: a tick may come while the collector reads the process's map
for the first time."""

from __future__ import annotations

import polars as pl

from aiflame.profile.schema.enums import FrameKind


def in_modules(frames: pl.DataFrame, modules: pl.DataFrame) -> pl.DataFrame:
    """`frames` (unpacked), where a bare address that only one module of its process covers has become a place in that module."""
    addresses = frames.filter(pl.col("word_kind") == int(FrameKind.ADDRESS))
    if addresses.is_empty() or modules.is_empty():
        return frames
    covering = modules.select("base", "low", "high", of="process", module="id")
    at = pl.col("address")
    placed = (
        addresses.join_where(covering, pl.col("process") == pl.col("of"), at >= pl.col("low"), at < pl.col("high"))
        .filter(pl.len().over("process", "frame") == 1, at >= pl.col("base"))
        .with_columns(word_kind=pl.lit(int(FrameKind.NATIVE)), id=pl.col("module"), offset=at - pl.col("base"), exact=True)
        .select(frames.columns)
        .cast(frames.schema)
    )
    return pl.concat([frames.join(placed, on=["process", "frame"], how="anti"), placed])

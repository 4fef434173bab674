"""The name of a source line in trees and lists."""

from __future__ import annotations

import polars as pl


def line_names(line: str = "line") -> dict[str, pl.Expr]:
    """`name` and `full_name` of frames for lines, from the columns `file` and `line`: `matmul.cpp:41`, `/src/matmul.cpp:41`."""
    number = ":" + pl.col(line).cast(pl.String)
    name, full = pl.col("file").str.split("/").list.last() + number, pl.col("file") + number
    return {"name": name, "full_name": pl.when(full == name).then(pl.lit("")).otherwise(full)}

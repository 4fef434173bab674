"""How nsys writes which process and thread something belongs to."""

from __future__ import annotations

import polars as pl


def with_owner(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """With `pid` and `tid`, from nsys' number of a thread or process (hardware and machine in the highest bits); -1 where there is none."""
    number = pl.col(column)
    pid = ((number // (1 << 24)) & 0xFFFFFF).fill_null(-1)
    return rows.with_columns(pid=pid, tid=(number & 0xFFFFFF).fill_null(-1))

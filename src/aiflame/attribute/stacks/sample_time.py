"""The time that a CPU sample represents."""

from __future__ import annotations

import polars as pl

LONGEST_NS = 1 << 46
"""19 hours: a longer time is damaged, and is cut to this so that it does not dwarf all others."""


def sample_ns() -> pl.Expr:
    """The time of each row of `cpu_samples`: its periods, in nanoseconds (u64)."""
    return (pl.col("weight").cast(pl.UInt64) * pl.col("period_ns").cast(pl.UInt64)).clip(upper_bound=LONGEST_NS)

"""How much time a CPU sample stands for."""

from __future__ import annotations

import polars as pl

LONGEST_NS = 1 << 46
"""No sample stands for more than this, 19 hours, unless it is damaged: one must not drown all others."""


def sample_ns() -> pl.Expr:
    """Of each row of `cpu_samples`: its periods, in nanoseconds (u64)."""
    return (pl.col("weight").cast(pl.UInt64) * pl.col("period_ns").cast(pl.UInt64)).clip(upper_bound=LONGEST_NS)

"""The time that a CPU sample represents."""

from __future__ import annotations

import polars as pl

LONGEST_NS = 1 << 46
"""19 hours: a longer time is damaged, and is cut to this so that it does not dwarf all others."""

FEW = 4
"""Fewer rows may be samples whose lengths differ by chance."""


def sample_ns() -> pl.Expr:
    """The time of each row of `cpu_samples`: its periods, in nanoseconds (u64)."""
    return (pl.col("weight").cast(pl.UInt64) * pl.col("period_ns").cast(pl.UInt64)).clip(upper_bound=LONGEST_NS)


def traced(lengths: pl.Series) -> bool:
    """Whether rows of `cpu_samples` with these lengths are calls, each with its own time in a trace. Samples share a few periods."""
    return len(lengths) >= FEW and lengths.n_unique() > len(lengths) / 4

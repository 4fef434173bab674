"""A group of kernels against its limit: its share of it, its bound, and the time that could be won."""

from __future__ import annotations

import polars as pl

MEMORY, TENSOR, LAUNCH, LATENCY, NOTHING = BOUNDS = "memory", "tensor", "launch", "latency", ""
"""NOTHING: neither is near, and nothing that was counted says why."""
NEAR = 0.6
"""Of the time: from here on memory, or tensor cores, bound a kernel. Copies that do nothing else reach nine tenths of the vendor's
bandwidth, and large products of matrices eight tenths of the rate: this is two thirds of that."""
WAITS = 1.0
"""Times the time of the kernels: a device that waits for their launches longer than it runs them has its time from the host."""
FEW_ACTIVE = 0.6
"""Of the time, on average over multiprocessors: with less, the grid is too small, or too short-lived, to fill the device."""
FEW_WARPS = 0.25
"""Of the warps that fit: a multiprocessor with fewer cannot have enough loads in flight (3.35 TB/s times 0.7 µs are 18 KB on each of an
H100's: 16 warps with two loads of 16 bytes a thread)."""

COLUMNS = ("limit_percent", "limit_error", "could_win", "bound_by")


def of_limits() -> list[pl.Expr]:
    """COLUMNS, from columns named as OF_LIMITS without `limits-`; the first two in percent of the time. Without counters: null, null, null
    and ""."""
    counted = pl.col("counted")
    has_limit = counted > 0
    return [
        pl.when(has_limit).then(pl.col("limit") * 100 / counted).alias("limit_percent"),
        pl.when(has_limit).then(pl.col("error") * 100 / counted).alias("limit_error"),
        pl.when(has_limit).then(counted - pl.col("limit")).alias("could_win"),
        bound_by().alias("bound_by"),
    ]


def bound_by() -> pl.Expr:
    """One of BOUNDS for each row; "" where no counter was recorded."""
    counted, limit = pl.col("counted"), pl.col("limit")
    few = (pl.col("active") > 0) & (pl.col("active") < FEW_ACTIVE * counted)
    few |= (pl.col("warps") > 0) & (pl.col("warps") < FEW_WARPS * pl.col("active"))
    return (
        pl.when(counted <= 0)
        .then(pl.lit(NOTHING))
        .when((limit >= NEAR * counted) & (2 * pl.col("by_memory") >= limit))
        .then(pl.lit(MEMORY))
        .when(limit >= NEAR * counted)
        .then(pl.lit(TENSOR))
        .when(pl.col("waited") >= WAITS * counted)
        .then(pl.lit(LAUNCH))
        .when(few)
        .then(pl.lit(LATENCY))
        .otherwise(pl.lit(NOTHING))
    )

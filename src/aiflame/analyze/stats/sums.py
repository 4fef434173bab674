"""Sums that many reports have: how often, how long in all, on average, at least, at most."""

from __future__ import annotations

import polars as pl

OWNER = ["rank", "process"]
"""The columns that name a process; `rank` is null where no rank is known."""


def spread(value: str, unit: str, prefix: str = "") -> list[pl.Expr]:
    """The average, median, least and largest of a column, and its standard deviation (of a sample, 0 for a single value)."""
    of = pl.col(value)
    return [
        of.mean().alias(f"{prefix}avg_{unit}"),
        of.median().alias(f"{prefix}med_{unit}"),
        of.min().alias(f"{prefix}min_{unit}"),
        of.max().alias(f"{prefix}max_{unit}"),
        of.std().fill_null(0.0).alias(f"{prefix}stddev_{unit}"),
    ]


def summed(rows: pl.DataFrame, by: list[str], value: str = "took_ns", unit: str = "ns", count: str = "instances") -> pl.DataFrame:
    """The rows by their names, the largest sum first: share, sum, count, `spread`, names."""
    total = f"total_{unit}"
    return (
        rows.group_by(by, maintain_order=True)
        .agg(pl.col(value).sum().alias(total), pl.len().cast(pl.Int64).alias(count), *spread(value, unit))
        .with_columns(percent(total))
        .sort(total, *by, descending=[True, *(False for _ in by)], nulls_last=True)
        .select("share_percent", total, count, *(f"{name}_{unit}" for name in ("avg", "med", "min", "max", "stddev")), *by)
    )


def percent(part: str, whole: pl.Expr | None = None, name: str = "share_percent") -> pl.Expr:
    """100 × part ÷ whole (without: the column's sum); 0 where the whole is 0."""
    divisor = pl.col(part).sum() if whole is None else whole
    return pl.when(divisor > 0).then(pl.col(part) * 100.0 / divisor).otherwise(0.0).alias(name)


def described(value: str, prefix: str = "") -> list[pl.Expr]:
    """The same figures as `describe()` of pandas: mean, deviation, least, quartiles, largest."""
    of = pl.col(value).cast(pl.Float64)
    return [
        of.mean().alias(f"{prefix}mean"),
        of.std().fill_null(0.0).alias(f"{prefix}stddev"),
        of.min().alias(f"{prefix}min"),
        *(of.quantile(part, "linear").alias(f"{prefix}p{int(part * 100)}") for part in (0.25, 0.5, 0.75)),
        of.max().alias(f"{prefix}max"),
    ]

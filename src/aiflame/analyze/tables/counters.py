"""Columns of tables for hardware counters."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.device.activity import MEASURES
from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.tables.table import Column, number, share

_COLUMNS = (
    number("dram_bytes", "GPU memory traffic", "bytes"),
    number("dram_rate", "GPU memory rate", "bytes/s"),
    share("tensor", "Tensor cores"),
    share("sm_active", "Multiprocessors with work"),
    share("occupancy", "Occupancy"),
)


def counters_of(analysis: ProfileAnalysis, rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """For each group of sites (as `Activity.of`), the columns of the counters that were recorded."""
    if analysis.activity is None:
        return rows.select(key).unique(maintain_order=True)
    measured = analysis.activity.of(rows, key)
    return measured.select(*key, *(name for name in MEASURES if measured[name].is_not_null().any()))


def counter_columns(measured: pl.DataFrame) -> tuple[Column, ...]:
    return tuple(column for column in _COLUMNS if column.name in measured.columns)

"""Samples of threads by one clock, and values of stacks by one of the profile's own metrics: the same columns."""

from __future__ import annotations

import polars as pl

from aiflame.attribute.memory.metrics import is_of_memory, memory_values
from aiflame.attribute.stacks.own_metrics import FIRST_CLOCK, own_clocks
from aiflame.attribute.stacks.sample_time import sample_ns
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.tables.interface import Tables

VALUE = "value"
"""The column that is added to those of `cpu_samples`: nanoseconds, or the metric's own unit."""
_MOST = 1 << 61
"""Absolute values of a metric sum up to no more; those of a damaged profile are cut."""


def samples_of(profile: Tables, clock: int) -> pl.LazyFrame:
    """process, id, thread, stack, state, time_ns, autograd, sequence (as far as the profile has them) and VALUE (i64). A value without a
    time has 0."""
    if is_of_memory(clock):
        return memory_values(profile, clock)
    if clock < FIRST_CLOCK:
        return profile.scan("cpu_samples").filter(pl.col("clock") == clock).with_columns(sample_ns().cast(pl.Int64).alias(VALUE))
    kinds = own_clocks(profile).filter(pl.col("clock") == clock).lazy().select("process", "kind")
    rows = profile.scan("stack_values").join(kinds, on=["process", "kind"], how="semi")
    size = rows.select(pl.len(), whole=pl.col("value").cast(pl.Float64).abs().sum()).collect()
    if size["whole"][0] > _MOST:
        most = _MOST // size["len"][0]
        rows = rows.with_columns(pl.col("value").clip(-most, most))
    nothing = [pl.lit(0, kind).alias(name) for name, kind in (("autograd", pl.UInt16), ("sequence", pl.UInt32))]
    return rows.with_columns(*nothing, state=pl.lit(int(SampleState.ON_CPU), pl.UInt8), value=pl.col("value").cast(pl.Int64))

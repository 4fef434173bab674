"""Counters of long recordings: a million kernels, and profiles whose kernels all run at the same time."""

from __future__ import annotations

import time

import numpy as np
import polars as pl
from device_work import GPU, MS

from aiflame.attribute.counters.counted import Counts, counts
from aiflame.attribute.counters.names import KNOWN
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.spool.process_spool import empty_frame

KINDS = 300
Column = np.ndarray[tuple[int], np.dtype[np.int64]] | list[str]


class Made:
    """Tables of a profile, in memory."""

    def __init__(self, **frames: pl.DataFrame) -> None:
        self.frames = frames

    def has(self, name: str) -> bool:
        return name in self.frames

    def table(self, name: str) -> pl.DataFrame:
        return self.frames[name] if name in self.frames else rows(name)

    def scan(self, name: str) -> pl.LazyFrame:
        return self.table(name).lazy()


def rows(table: str, /, **columns: Column) -> pl.DataFrame:
    """Rows of a table; columns that are not given are 0 or empty."""
    schema: dict[str, pl.DataType] = {"process": pl.UInt32(), **empty_frame(TABLE[table]).schema}
    size = len(next(iter(columns.values()), []))
    given = pl.DataFrame({"id": np.arange(1, size + 1), **columns})
    blank = [pl.lit("" if kind == pl.String else 0).alias(column) for column, kind in schema.items() if column not in given.columns]
    return given.with_columns(blank).select(*schema).cast(pl.Schema(schema))


def made(start: Column, end: Column, stretches: int) -> Made:
    """Kernels of many kinds, and every known counter, each ms."""
    rng = np.random.default_rng(0)
    begin = np.arange(stretches, dtype=np.int64) * MS
    counters = [
        rows("gpu_counters", device=[GPU] * stretches, metric=[metric] * stretches, begin_ns=begin, end_ns=begin + MS, value=value)
        for metric in KNOWN
        for value in (rng.integers(0, 3 * MS, stretches),)
    ]
    return Made(
        processes=rows("processes", pid=np.array([7])),
        kernel_shapes=rows("kernel_shapes", name=[f"kernel{kind}" for kind in range(KINDS)], device=[GPU] * KINDS),
        kernels=rows(
            "kernels", shape=rng.integers(1, KINDS + 1, len(start)), correlation=np.arange(len(start)), start_ns=start, end_ns=end
        ),
        gpu_counters=pl.concat(counters),
    )


def seconds(profile: Made) -> tuple[float, Counts]:
    began = time.process_time()
    divided = counts(profile)
    for metric in KNOWN:
        total = int(profile.frames["gpu_counters"].filter(metric=metric)["value"].sum())
        assert int(divided.values[metric].sum()) + int(divided.remainder.filter(metric=metric)["value"].sum()) == total
    return time.process_time() - began, divided


def test_a_million_kernels_in_a_minute_of_counters() -> None:
    """Measured: 12 s of two slow cores, all of them for 11 counters."""
    gap = 60_000
    start = np.arange(1_000_000, dtype=np.int64) * gap
    took, divided = seconds(made(start, start + np.random.default_rng(1).integers(0, gap, len(start)), 60_000))
    assert all((divided.values[metric] > 0).mean() > 0.9 for metric in ("dram-read-bytes", "sm-cycles"))
    assert took < 60


def test_kernels_that_all_run_at_the_same_time() -> None:
    """Each of 30,000 is in each of 20,000 stretches: these become fewer."""
    start = np.arange(30_000, dtype=np.int64)
    took, _ = seconds(made(start, start + 20_000 * MS, 20_000))
    assert took < 60

"""The metrics of memory: bytes that are live at a moment, bytes that were allocated, and the number of allocations."""

from __future__ import annotations

from itertools import count

import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.memory.blocks import HOST, blocks, memories
from aiflame.attribute.memory.live import live
from aiflame.attribute.memory.moments import PEAK, Moment
from aiflame.attribute.metrics import Compared, MetricRow
from aiflame.attribute.tree import Metric
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.tables.interface import Tables

GPU_BYTES, HOST_BYTES = "gpu-bytes", "host-bytes"
GPU_ALLOCATED, HOST_ALLOCATED, ALLOCATIONS = "gpu-allocated", "host-allocated", "allocations"
AT_A_MOMENT = (GPU_BYTES, HOST_BYTES)
"""Metrics that count the bytes of one moment (`moments.Moment`)."""
ALLOCATED_OF = {GPU_BYTES: GPU_ALLOCATED, HOST_BYTES: HOST_ALLOCATED}
OF_MEMORY = (*AT_A_MOMENT, GPU_ALLOCATED, HOST_ALLOCATED, ALLOCATIONS)
_LABELS = {
    GPU_BYTES: "GPU memory",
    HOST_BYTES: "host memory",
    GPU_ALLOCATED: "GPU memory allocated",
    HOST_ALLOCATED: "host memory allocated",
    ALLOCATIONS: "allocations",
}
RECORD = {GPU_BYTES: "record with --gpu-memory", HOST_BYTES: "record with --host-memory"}
"""How to record those that a profile may lack."""
EVERY_BLOCK = "blocks"
"""The clock of all blocks, which is no metric: `memory_values` has a row for each row of `blocks`, in their order."""
AT = "@"
"""Between a metric and another moment than the peak."""
FIRST_CLOCK = 1 << 16
"""To readers of samples each metric is a clock, from this number on, and each other moment gives it another one."""
_numbers = count(FIRST_CLOCK)
_CLOCKS: dict[str, int] = {}


@once
def memory_metrics(profile: Analysis) -> dict[str, MetricRow]:
    """The metrics of memory that the profile has values of."""
    there = memories(profile)
    gpus = (GPU_BYTES, GPU_ALLOCATED) if any(name != HOST for name in there) else ()
    host = (HOST_BYTES, HOST_ALLOCATED) if HOST in there else ()
    return {name: memory_row(name) for name in (*gpus, *host, *((ALLOCATIONS,) if there else ()))}


def memory_row(name: str) -> MetricRow:
    """The row of one of OF_MEMORY, or of one of AT_A_MOMENT with a moment behind it."""
    base, _, text = name.partition(AT)
    unit = "allocations" if base == ALLOCATIONS else "bytes"
    when = f" {Moment.parse(text or PEAK).label}" if base in AT_A_MOMENT else ""
    metric = Metric(name, unit, f"{_LABELS[base]}{when}")
    return MetricRow(metric, RECORD.get(base, ""), clock=_clock(name), on_devices=False, compared=Compared.CPUS)


def base_name(name: str) -> str:
    """The metric's name without its moment."""
    base, at, _ = name.partition(AT)
    return base if at and base in AT_A_MOMENT else name


def is_of_memory(clock: int) -> bool:
    return clock >= FIRST_CLOCK


def every_block() -> int:
    """The clock of EVERY_BLOCK."""
    return _clock(EVERY_BLOCK)


def memory_values(profile: Tables, clock: int) -> pl.LazyFrame:
    """The columns of `stacks.samples.samples_of`: a row for each block that counts, at the time when it was allocated; and
    `end_ns` and `kind` (BlockKind)."""
    profile = Analysis.of(profile)
    name, _, moment = next(name for name, number in _CLOCKS.items() if number == clock).partition(AT)
    if name == EVERY_BLOCK:
        rows = blocks(profile)
    else:
        rows = live(profile, Moment.parse(moment or PEAK)) if name in AT_A_MOMENT else _allocated(profile)
    if name not in (ALLOCATIONS, EVERY_BLOCK):
        of_host = pl.col("memory") == HOST
        rows = rows.filter(of_host if name in (HOST_BYTES, HOST_ALLOCATED) else ~of_host)
    return rows.lazy().select(
        "process",
        pl.int_range(pl.len(), dtype=pl.UInt32).alias("id"),
        "thread",
        "stack",
        pl.lit(int(SampleState.ON_CPU), pl.UInt8).alias("state"),
        pl.col("allocated_ns").cast(pl.UInt64).alias("time_ns"),
        "end_ns",
        "autograd",
        "sequence",
        "kind",
        pl.col("count" if name == ALLOCATIONS else "bytes").alias("value"),
    )


def _allocated(profile: Analysis) -> pl.DataFrame:
    return blocks(profile).filter((pl.col("begin_ns") > 0) & (pl.col("count") > 0))


def _clock(name: str) -> int:
    return _CLOCKS.setdefault(name, next(_numbers))  # safe in threads, like those of the report's server

"""Rows of `gpu_counters` by construction: kinds of kernels whose rates are known, looked at in stretches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl
from device_work import GPU
from profiles import Row

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.counters.counted import counted
from aiflame.profile.tables.interface import Tables

MS = 1_000_000
IDLE = ""
"""The name under which a rate of idle time is given."""
Rates = Mapping[str, float]
"""By name of a kernel, how much it adds a ns."""


def stretches(
    kernels: Iterable[Row], rates: Rates, end_ns: int, metric: str = "dram-read-bytes", length: int = MS, noise: float = 0.0, **more: Any
) -> list[Row]:
    """Counters of the first device from 0 to `end_ns`, every `length`. `noise`: the standard deviation of each value, as a part of it."""
    begin = np.arange(0, end_ns, length)
    value = np.zeros(len(begin))
    busy = np.zeros(len(begin), dtype=np.int64)
    for one in kernels:
        overlap = np.clip(np.minimum(one["end_ns"], begin + length) - np.maximum(one["start_ns"], begin), 0, None)
        value += overlap * rates.get(one["name"], 0.0)
        busy += overlap
    value += np.clip(length - busy, 0, None) * rates.get(IDLE, 0.0)
    value *= 1 + np.random.default_rng(7).normal(size=len(value)) * noise
    rows = zip(begin.tolist(), np.rint(np.maximum(value, 0)).astype(int).tolist(), strict=True)
    return [{"device": GPU, "metric": metric, "begin_ns": at, "end_ns": at + length, "value": one, **more} for at, one in rows]


def every_counter(kernels: list[Row], activity: Rates, end_ns: int, length: int = MS, **more: Any) -> list[Row]:
    """All that the views show, at 1.5 GHz. A kernel of activity 0.5 has 1000 bytes a ns read and 500 written, half of the tensor rate, work
    on every multiprocessor for half of the time, and 16 warps there."""
    scale = {"dram-read-bytes": 2000.0, "dram-write-bytes": 1000.0, "tensor-cycles": 1.5, "sm-active-cycles": 1.5, "warp-cycles": 24.0}
    rows = stretches([], {IDLE: 1.5}, end_ns, "sm-cycles", length, **more)
    for metric, most in scale.items():
        rows += stretches(kernels, {name: part * most for name, part in activity.items()}, end_ns, metric, length, **more)
    return rows


def of_kernels(profile: Tables, kernels: list[Row], metric: str = "dram-read-bytes") -> dict[str, int]:
    """The counted value of each kernel, by name, and of IDLE: what belongs to nothing of the program."""
    rows = counted(Analysis(profile)).filter(pl.col("metric") == metric)
    sums: dict[str, int] = {}
    for execution, value in rows.select("execution", "value").rows():
        name = IDLE if execution is None else kernels[execution]["name"]
        sums[name] = sums.get(name, 0) + value
    return sums


def truth(kernels: list[Row], rates: Rates) -> dict[str, float]:
    """What the kernels of each name really added."""
    sums: dict[str, float] = {}
    for one in kernels:
        sums[one["name"]] = sums.get(one["name"], 0.0) + (one["end_ns"] - one["start_ns"]) * rates.get(one["name"], 0.0)
    return sums

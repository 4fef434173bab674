"""When a device had nothing of a process to do: between the first and the last of its kernels and copies there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.gpu_work import LONGEST_NS, Work

Times = NDArray[np.uint64]
Device = tuple[int, str]
"""A process and its device."""
Gaps = tuple[Times, Times]
"""Since when, and until when."""


def idle(work: Work, processes: pl.DataFrame) -> pl.DataFrame:
    """process, device, value (ns): for each device that a process used, what no stream of it filled."""
    return summed_up(idle_times(work, processes))


def summed_up(gaps: Mapping[Device, Gaps]) -> pl.DataFrame:
    """process, device, value (ns)"""
    rows = [(process, device, min(int((until - since).sum()), LONGEST_NS)) for (process, device), (since, until) in gaps.items()]
    return pl.DataFrame(rows, schema={"process": pl.UInt32, "device": pl.String, "value": pl.Int64}, orient="row").sort("process", "device")


def idle_times(work: Work, processes: pl.DataFrame) -> dict[Device, Gaps]:
    """When each device of a process was idle."""
    started = processes.group_by("process").agg(pl.col("start_ns").min())
    ran = (
        work.ran.lazy()
        .join(work.sites.lazy().select("process", "device").with_row_index("site"), on="site")
        .join(started.lazy(), on="process", how="left")
        .filter((pl.col("end_ns") > pl.col("start_ns")) & (pl.col("start_ns") >= pl.col("start_ns_right").fill_null(0)))
        .select("process", "device", "start_ns", "end_ns")
        .sort("start_ns")
        .collect()
    )
    return {
        (process, device): _gaps(each["start_ns"].to_numpy(), each["end_ns"].to_numpy())
        for (process, device), each in ran.partition_by("process", "device", as_dict=True).items()
    }


def _gaps(start: Times, end: Times) -> Gaps:
    """What lies between intervals, sorted by their starts, that may overlap."""
    reached = np.maximum.accumulate(end)
    gap = np.flatnonzero(start[1:] > reached[:-1])
    return reached[gap], start[gap + 1]

"""Times when a device had no work of a process, between the first and the last of the process's kernels and copies on it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.devices.records import LONGEST_NS
from aiflame.attribute.devices.work import Work

IDLE = "[GPU idle]"
Times = NDArray[np.uint64]
Device = tuple[int, str]
"""A process and its device."""
Gaps = tuple[Times, Times]
"""The begins and the ends of gaps."""


def idle(work: Work, processes: pl.DataFrame) -> pl.DataFrame:
    """process, device, value (ns): the time without work in any stream, for each device that a process used."""
    return summed_up(idle_times(work, processes))


def summed_up(gaps: Mapping[Device, Gaps]) -> pl.DataFrame:
    """process, device, value (ns)"""
    rows = [(process, device, min(int((until - since).sum()), LONGEST_NS)) for (process, device), (since, until) in gaps.items()]
    return pl.DataFrame(rows, schema={"process": pl.UInt32, "device": pl.String, "value": pl.Int64}, orient="row").sort("process", "device")


def idle_times(work: Work, processes: pl.DataFrame) -> dict[Device, Gaps]:
    """The idle times of each process's devices."""
    started = dict(processes.group_by("process").agg(pl.col("start_ns").min()).rows())
    used = work.sites.select("process", "device").unique(maintain_order=True)
    number = work.sites.select("process", "device").join(
        used.with_row_index("used"), on=["process", "device"], how="left", maintain_order="left"
    )
    start, end = (work.executions[name].to_numpy() for name in ("start_ns", "end_ns"))
    of_execution = number["used"].to_numpy()[work.executions["site"].to_numpy()]
    gaps = {}
    for place, (process, device) in enumerate(used.rows()):
        row = np.flatnonzero((of_execution == place) & (end > start) & (start >= started.get(process, 0)))
        if len(row):
            gaps[process, device] = _gaps(*_by_start(start[row], end[row]))
    return gaps


def _by_start(start: Times, end: Times) -> tuple[Times, Times]:
    if (start[1:] >= start[:-1]).all():
        return start, end
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def _gaps(start: Times, end: Times) -> Gaps:
    """The gaps between intervals that are sorted by their starts and may overlap."""
    reached = np.maximum.accumulate(end)
    gap = np.flatnonzero(start[1:] > reached[:-1])
    return reached[gap], start[gap + 1]

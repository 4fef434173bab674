"""The duration of each step: on the device where it launched work, otherwise on the host; and the longest step."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.order import in_order
from aiflame.values import dataclass

STEP_TIMES = {"process": pl.Int64, "step": pl.Int64, "begin_ns": pl.Int64, "end_ns": pl.Int64, "took": pl.Int64}


@dataclass(frozen=True, slots=True)
class Steps:
    count: int
    total_ns: int
    min_ns: int
    median_ns: int
    max_ns: int
    slowest: int
    """Number of the longest step; the first step of a process, which warms up, counts only if there is no other."""
    slowest_ns: int


def step_times(on_host: pl.DataFrame, on_device: pl.DataFrame) -> pl.DataFrame:
    """STEP_TIMES in the order of processes and steps. `on_host`: `DeviceJoin.steps`; `on_device`: `occupancy.per_step`. With several
    devices, a step lasts from the first begin to the last end."""
    device = on_device.group_by("process", "step").agg(pl.col("begin_ns").min(), pl.col("end_ns").max())
    host = on_host.select(pl.col("process", "step", "begin_ns", "end_ns").cast(pl.Int64))
    both = host if device.is_empty() else pl.concat([device, host.join(device, on=["process", "step"], how="anti")])
    return in_order(both, "process", "step").with_columns(took=pl.col("end_ns") - pl.col("begin_ns")).select(list(STEP_TIMES))


def steady(times: pl.DataFrame) -> pl.DataFrame:
    """Without the first step of each process, which compiles, allocates and fills caches. A single step does not count as a step."""
    return times.filter(pl.col("step") > pl.col("step").min().over("process"))


def over_all(times: pl.DataFrame) -> Steps | None:
    """None if there are no steps."""
    if times.is_empty():
        return None
    took: NDArray[np.int64] = times["took"].to_numpy()
    usual = times if len(times) == times["process"].n_unique() else steady(times)
    slowest = usual.row(int(usual["took"].arg_max() or 0), named=True)
    return Steps(
        len(times), int(took.sum()), int(took.min()), round(float(np.median(took))), int(took.max()), slowest["step"], slowest["took"]
    )

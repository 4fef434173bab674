"""What hardware counters counted during each kernel."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.types import Floats, Ints

COUNTED = {"row": pl.Int64, "metric": pl.String, "value": pl.Float64, "exact": pl.Boolean}


@once
def counted(profile: Analysis) -> pl.DataFrame:
    """COUNTED: for rows of `kernels`, by their place in the table. A stretch's count is divided over the kernels in it by their time."""
    empty = pl.DataFrame(schema=COUNTED)
    if not profile.has("gpu_counters"):
        return empty
    shapes = profile.table("kernel_shapes").select("process", shape="id", device="device").unique(["process", "shape"], keep="first")
    kernels = profile.scan("kernels").select("process", "shape", pl.col("start_ns", "end_ns").cast(pl.Int64)).collect()
    device = kernels.join(shapes, on=["process", "shape"], how="left", maintain_order="left")["device"]
    parts = [empty]
    for (name, metric), stretches in profile.table("gpu_counters").sort("begin_ns").group_by("device", "metric", maintain_order=True):
        row = (device == name).fill_null(False).arg_true().to_numpy().astype(np.int64)
        start, end = (kernels[column].to_numpy()[row] for column in ("start_ns", "end_ns"))
        begin, until = (stretches[column].cast(pl.Int64).to_numpy() for column in ("begin_ns", "end_ns"))
        value, alone, inside = _divided(start, end, begin, until, stretches["value"].cast(pl.Float64).to_numpy())
        one = pl.DataFrame({"row": row, "metric": [metric] * len(row), "value": value, "exact": alone}, schema=COUNTED)
        parts.append(one.filter(pl.Series(inside)))
    return pl.concat(parts)


def _divided(start: Ints, end: Ints, begin: Ints, until: Ints, value: Floats) -> tuple[Floats, np.ndarray, np.ndarray]:
    """The count of each kernel, whether all its stretches are its own, and whether stretches cover it."""
    edge = np.unique(np.concatenate([begin, until]))
    own = np.zeros(len(edge) - 1)
    own[np.searchsorted(edge, begin)] = value
    ran = np.diff(_before(edge, start, end))
    rate = np.divide(own, ran, out=np.zeros(len(own)), where=ran > 0)
    reached = np.concatenate([[0.0], np.cumsum(rate * np.diff(edge))])
    inside = (start >= edge[0]) & (end <= edge[-1]) & (end > start)
    length = np.concatenate([[0.0], np.cumsum(ran)])
    beside = np.interp(until, edge, length) - np.interp(begin, edge, length)
    first, last = np.searchsorted(until, start, "right"), np.searchsorted(begin, end, "left")
    others = np.concatenate([[0.0], np.cumsum(beside)])
    alone = np.isclose(others[last] - others[first], end - start)
    return np.interp(end, edge, reached) - np.interp(start, edge, reached), alone, inside


def _before(moments: Ints, start: Ints, end: Ints) -> Floats:
    """For each moment, the time of kernels before it; where several ran together, each counts."""
    run = np.zeros(len(moments))
    for times, sign in ((np.sort(start), 1.0), (np.sort(end), -1.0)):
        before = np.searchsorted(times, moments)
        sums = np.concatenate([[0], np.cumsum(times - times[0] if len(times) else times)]).astype(np.float64)
        run += sign * (before * (moments - (times[0] if len(times) else 0)).astype(np.float64) - sums[before])
    return run

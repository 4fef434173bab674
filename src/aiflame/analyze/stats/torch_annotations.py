"""Stretches of time that a program under torch.profiler named itself, as rows of torch's tables."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from aiflame.analyze.spans import union
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.events import LATEST
from aiflame.profile.schema.enums import RegionApi, RegionKind

_STEP = re.compile(r"^ProfilerStep#\d+$")


def named_stretches(profile: Analysis, calls: pl.DataFrame) -> pl.DataFrame:
    """The stretches of time that the program named with `record_function`, and the profiler's steps; their own time is that outside of ops,
    calls and inner stretches."""
    wanted = pl.col("api").is_in([int(RegionApi.TORCH), int(RegionApi.AUTOMATIC)]) & (pl.col("kind") == int(RegionKind.NESTED))
    ends = profile.scan("region_ends").select("process", id="region", end="end_ns").unique(["process", "id"], keep="first")
    since, until = (pl.col(name).clip(upper_bound=LATEST).cast(pl.Int64) for name in ("begin_ns", "end"))
    regions = (
        profile.scan("regions")
        .filter(wanted)
        .join(ends, on=["process", "id"])
        .select(pl.col("process", "thread").cast(pl.Int64), "name", begin=since, end=pl.max_horizontal(since, until))
        .sort("process", "thread", "begin", "end", descending=[False, False, False, True], maintain_order=True)
        .collect()
    )
    parts = [pl.DataFrame(schema=calls.schema)]
    for (process, thread), rows in regions.partition_by("process", "thread", as_dict=True, maintain_order=True).items():
        own = calls.filter(pl.col("row") == process, pl.col("thread") == thread).sort("begin_ns")
        begin, end = rows["begin"].to_numpy(), rows["end"].to_numpy()
        called = own["begin_ns"].to_numpy(), own["end_ns"].to_numpy()
        took = end - begin
        self_ns = [_outside(called, begin, end, row) for row in range(len(rows))]
        names = ["ProfilerStep*" if _STEP.match(name) else name for name in rows["name"].to_list()]
        columns = {
            "row": process,
            "thread": thread,
            "node": 0,
            "begin_ns": begin,
            "end_ns": end,
            "self_ns": self_ns,
            "name": names,
            "depth": 0,
        }
        parts.append(pl.DataFrame({**columns, "took_ns": took}, schema=calls.schema))
    return pl.concat(parts)


def _outside(called: tuple[Ints, Ints], begin: Ints, end: Ints, row: int) -> int:
    """The time of a stretch outside of the calls and stretches that begin inside it. Such stretches follow it in the list."""
    last = int(np.searchsorted(begin, end[row], side="left"))
    inner = slice(row + 1, max(last, row + 1))
    calls = slice(*(int(np.searchsorted(called[0], moment, side="left")) for moment in (begin[row], end[row])))
    inside = union(np.concatenate([called[0][calls], begin[inner]]), np.concatenate([called[1][calls], end[inner]]))
    return int(end[row] - begin[row] - inside.within(begin[row : row + 1], end[row : row + 1])[0])


def without_stretches(calls: pl.DataFrame, stretches: pl.DataFrame) -> pl.DataFrame:
    """The calls without the own time of the stretches inside them: torch has a stretch among the calls that an op made."""
    own = calls["self_ns"].to_numpy().copy()
    numbered = calls.select("row", "thread", "begin_ns", "end_ns", "depth").with_row_index("at")
    for (process, thread), rows in stretches.partition_by("row", "thread", as_dict=True, maintain_order=True).items():
        here = numbered.filter(pl.col("row") == process, pl.col("thread") == thread).sort("begin_ns", "depth")
        innermost = _innermost_around(here, rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy())
        inside = innermost >= 0
        np.subtract.at(own, here["at"].to_numpy()[innermost[inside]], rows["self_ns"].to_numpy()[inside])
    return calls.with_columns(self_ns=pl.Series(np.maximum(own, 0)))


def _innermost_around(calls: pl.DataFrame, begin: Ints, end: Ints) -> Ints:
    """The place of the innermost call of one thread around each stretch; -1: none. Calls of one depth do not overlap."""
    depth, since, until = (calls[name].to_numpy() for name in ("depth", "begin_ns", "end_ns"))
    innermost = np.full(len(begin), -1, dtype=np.int64)
    for level in range(1, int(depth.max(initial=0)) + 1):
        places = np.flatnonzero(depth == level)
        last = np.searchsorted(since[places], begin, side="right") - 1
        around = (last >= 0) & (until[places[np.maximum(last, 0)]] >= end)
        innermost[around] = places[last[around]]
    return innermost


def stretches_on_devices(stretches: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """By name: the time of all work launched within the stretches. Stretches launch nothing themselves."""
    parts = [pl.DataFrame(schema={"name": pl.String, "self_device_ns": pl.Int64, "device_ns": pl.Int64, "launches": pl.Int64})]
    launched = work.filter(pl.col("launch_begin_ns").is_not_null()).select("row", "thread", "launch_begin_ns", "took_ns")
    for (process, thread), rows in stretches.partition_by("row", "thread", as_dict=True, maintain_order=True).items():
        own = launched.filter(pl.col("row") == process, pl.col("thread") == thread).sort("launch_begin_ns")
        moment, sums = own["launch_begin_ns"].to_numpy(), np.concatenate([[0], own["took_ns"].to_numpy().cumsum()])
        first, last = (np.searchsorted(moment, rows[name].to_numpy(), side="left") for name in ("begin_ns", "end_ns"))
        parts.append(rows.select("name", self_device_ns=0, device_ns=pl.Series(sums[last] - sums[first], dtype=pl.Int64), launches=0))
    return pl.concat(parts, how="vertical_relaxed").group_by("name").agg(pl.all().sum())

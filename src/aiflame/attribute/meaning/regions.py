"""Regions that a program marks (NVTX, ITT, aiflame.region()): their begins and ends, and those in which a thread was at a moment.

A region without an end ends with the region around it, with its thread, or with the last record of its process. An end of a region that
never began is ignored.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.forest import Forest
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.region_paths import ORDER, Timelines, timelines
from aiflame.profile.schema.enums import RegionApi, RegionKind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

INTERVALS = {
    "process": pl.Int64,
    "id": pl.Int64,  # row of `regions` in its process
    "thread": pl.Int64,  # row of `threads` that began it
    "api": pl.UInt8,  # RegionApi
    "kind": pl.UInt8,  # RegionKind
    "domain": pl.String,
    "category": pl.String,
    "name": pl.String,
    "payload": pl.UInt64,
    "payload_type": pl.UInt8,  # PayloadType
    "color": pl.UInt32,
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,  # for a mark: its begin_ns
    "ended": pl.Boolean,  # the program itself ended it
}


@dataclass(frozen=True, slots=True)
class Regions:
    forest: Forest
    """Region paths, outermost first. Node 0: in no region. A frame has the region's name, its domain as module, and its category in
    full_name; payloads differ each time and are only in `intervals`."""
    intervals: pl.DataFrame
    """INTERVALS: all regions, including those of api AUTOMATIC and marks, in the order of process and time."""
    _timelines: Timelines

    def paths(self, process: NDArray[np.int64], thread: NDArray[np.int64], time_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The region path (node of `forest`) of a thread (row of `threads`) at each moment; 0 for none. From outermost to innermost: frames
        of the process, free regions that the thread began, regions that it pushed; each in the order in which they began."""
        return self._timelines.at(process, thread, time_ns)


@once
def regions(profile: Analysis) -> Regions:
    """The regions of a profile."""
    intervals = _intervals(profile)
    marked = intervals.filter((pl.col("api") != int(RegionApi.AUTOMATIC)) & pl.col("kind").is_in([int(kind) for kind in ORDER]))
    forest, lines = timelines(marked)
    return Regions(forest, intervals, lines)


def _intervals(profile: Tables) -> pl.DataFrame:
    begun = profile.table("regions")
    if begun.is_empty():
        return pl.DataFrame(schema=INTERVALS)
    ends = profile.table("region_ends").unique(["process", "region"], keep="first").select("process", id="region", end_ns=_moment("end_ns"))
    rows = (
        begun.join(ends, on=["process", "id"], how="left")
        .with_columns(pl.col("process", "id", "thread").cast(pl.Int64), _moment("begin_ns"), _moment("end_ns"))
        .with_columns(ended=pl.col("end_ns").is_not_null() | (pl.col("kind") == int(RegionKind.MARK)))
        .with_columns(end_ns=pl.when(pl.col("kind") == int(RegionKind.MARK)).then("begin_ns").otherwise("end_ns"))
        .sort("process", "begin_ns", "id")
    )
    if not rows["ended"].all():
        rows = _closed(rows, profile)
    return rows.with_columns(end_ns=pl.max_horizontal("begin_ns", "end_ns")).select(
        pl.col(name).cast(kind) for name, kind in INTERVALS.items()
    )


def _moment(column: str) -> pl.Expr:
    """A column of moments, limited: in a damaged profile it may have any number."""
    return pl.col(column).clip(upper_bound=LATEST).cast(pl.Int64)


def _closed(rows: pl.DataFrame, profile: Tables) -> pl.DataFrame:
    """The regions with an end for each."""
    process_end = _process_ends(rows, profile)
    thread_end = (
        profile.table("thread_ends").unique(["process", "thread"], keep="last").select("process", "thread", gone_ns=_moment("end_ns"))
    )
    latest = (
        rows.join(process_end, on="process", how="left", maintain_order="left")
        .join(thread_end.cast(pl.Int64), on=["process", "thread"], how="left", maintain_order="left")
        .with_columns(
            gone_ns=pl.when(pl.col("kind") == int(RegionKind.NESTED)).then(pl.coalesce("gone_ns", "over_ns")).otherwise("over_ns")
        )
    )
    around = _ends_around(rows)
    at_most = pl.min_horizontal("gone_ns", pl.Series("around_ns", around, dtype=pl.Int64))
    return latest.with_columns(end_ns=pl.coalesce("end_ns", at_most)).drop("gone_ns", "over_ns")


def _process_ends(rows: pl.DataFrame, profile: Tables) -> pl.DataFrame:
    """When each process ended; for a killed one, the time of its last record."""
    recorded = profile.table("process_ends").select("process", over_ns=_moment("end_ns")).cast(pl.Int64).unique("process", keep="last")
    moments = [
        ("cpu_samples", "time_ns"),
        ("launches", "end_ns"),
        ("kernels", "end_ns"),
        ("region_ends", "end_ns"),
        ("thread_ends", "end_ns"),
    ]
    seen = [
        profile.scan(table).group_by("process").agg(seen_ns=_moment(column).max()).collect().cast(pl.Int64) for table, column in moments
    ]
    seen.append(rows.group_by("process").agg(seen_ns=pl.col("begin_ns").max()))
    last = pl.concat(seen).group_by("process").agg(pl.col("seen_ns").max())
    return last.join(recorded, on="process", how="left").select("process", over_ns=pl.coalesce("over_ns", "seen_ns"))


def _ends_around(intervals: pl.DataFrame) -> list[int | None]:
    """For each region that was pushed and never popped, the end of the innermost region around it that was popped."""
    result: list[int | None] = [None] * len(intervals)
    nested = pl.col("kind") == int(RegionKind.NESTED)
    open_ended = intervals.filter(nested & ~pl.col("ended")).select("process", "thread").unique()
    rows = intervals.with_row_index("row").filter(nested).join(open_ended, on=["process", "thread"], how="semi", maintain_order="left")
    open_regions: dict[tuple[int, int], list[int]] = {}
    for row, process, thread, begin, end in rows.select("row", "process", "thread", "begin_ns", "end_ns").iter_rows():
        around = open_regions.setdefault((process, thread), [])
        while around and around[-1] <= begin:
            around.pop()
        if end is not None:
            around.append(end)
        else:
            result[row] = next((other for other in reversed(around) if other > begin), None)
    return result

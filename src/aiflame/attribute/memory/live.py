"""The blocks that are live at one moment: by default when the most bytes are, in each process and each memory."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once_for
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.memory.blocks import NEVER, blocks, complete, rest_of_pools
from aiflame.attribute.memory.moments import Moment, windows
from aiflame.attribute.memory.uncounted import uncounted

OWNER = ("process", "memory")


@once_for
def live(profile: Analysis, moment: Moment) -> pl.DataFrame:
    """The blocks (`blocks`) that are live at the moment, all else that pools have then, and memory that no call took (`uncounted`),
    with `at_ns`, the moment of their process and memory."""
    rows = blocks(profile)
    at = peaks(rows, windows(profile, moment, rows.select(OWNER).unique()))
    with_moments = rows.lazy().join(at.lazy().select(*OWNER, "at_ns"), on=OWNER)
    there = with_moments.filter((pl.col("begin_ns") <= pl.col("at_ns")) & (pl.col("at_ns") < pl.col("end_ns"))).collect()
    return pl.concat([there, rest_of_pools(profile, there, at), complete(uncounted(profile, at)).with_columns(at_ns="begin_ns")])


def peaks(rows: pl.DataFrame, within: pl.DataFrame) -> pl.DataFrame:
    """process, memory, at_ns, bytes: for each process and memory the first moment of its window (from_ns, to_ns) when the most bytes are
    live."""
    peaks_of: list[tuple[object, ...]] = []
    bounds = {(process, memory): (first, last) for process, memory, first, last in within.select(*OWNER, "from_ns", "to_ns").rows()}
    for owner, steps in curve(rows).partition_by(OWNER, as_dict=True, maintain_order=True).items():
        if owner not in bounds:
            continue
        first, last = bounds[owner]
        moment, live_bytes = steps["at_ns"].to_numpy(), steps["bytes"].to_numpy()
        begin, end = np.searchsorted(moment, first, side="right"), np.searchsorted(moment, last, side="right")
        before = int(live_bytes[begin - 1]) if begin else 0
        most = begin + int(np.argmax(live_bytes[begin:end])) if end > begin else -1
        inside = most >= 0 and int(live_bytes[most]) > before
        peaks_of.append((*owner, int(moment[most]) if inside else first, int(live_bytes[most]) if inside else before))
    return pl.DataFrame(peaks_of, schema={"process": pl.UInt32, "memory": pl.String, "at_ns": pl.Int64, "bytes": pl.Int64}, orient="row")


def curve(rows: pl.DataFrame) -> pl.DataFrame:
    """process, memory, at_ns, bytes: the bytes that are live from each moment on at which they change."""
    parts = [pl.DataFrame(schema={"process": pl.UInt32, "memory": pl.String, "at_ns": pl.Int64, "bytes": pl.Int64})]
    columns = rows.select(*OWNER, "begin_ns", "end_ns", "bytes")
    for (process, memory), own in columns.partition_by(OWNER, as_dict=True, maintain_order=True).items():
        at_ns, live_bytes = _curve(*(own[name].to_numpy() for name in ("begin_ns", "end_ns", "bytes")))
        one = pl.DataFrame({"at_ns": at_ns, "bytes": live_bytes})
        parts.append(one.select(pl.lit(process, pl.UInt32).alias("process"), pl.lit(memory).alias("memory"), "at_ns", "bytes"))
    return pl.concat(parts)


def _curve(begin_ns: Ints, end_ns: Ints, size: Ints) -> tuple[Ints, Ints]:
    """The moments at which the live bytes of one memory change, and these bytes. There may be ten million events."""
    ends = end_ns < NEVER
    moment = np.concatenate([begin_ns, end_ns[ends]])
    change = np.concatenate([size, -size[ends]])
    order = np.argsort(moment)
    moment, total = moment[order], np.cumsum(change[order])
    last = np.append(moment[1:] != moment[:-1], True)[: len(moment)]
    return moment[last], total[last]

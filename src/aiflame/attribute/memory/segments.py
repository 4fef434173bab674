"""The segments that torch's caching allocator had from the driver, and the blocks that lie in them at a moment."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.memory.blocks import NEVER, driver_blocks, mapped_for_a_pool, of_a_pool
from aiflame.attribute.memory.live import OWNER

SEGMENTS = {
    "process": pl.UInt32,
    "memory": pl.String,
    "stream": pl.Int64,
    "pool": pl.String,
    "address": pl.Int64,
    "bytes": pl.Int64,
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    "expandable": pl.Boolean,
}
"""The columns of `segments`. A recording does not know streams (UNKNOWN), nor the private pools of CUDA graphs ("")."""
UNKNOWN = -1
_MOST = 1 << 61
_KIND = ("process", "memory", "stream", "pool")


@once
def segments(profile: Analysis) -> pl.DataFrame:
    """A row for each segment: SEGMENTS, by address. A part of an expandable segment is one, with `expandable` true."""
    of_file = profile.table("memory_segments").select(
        *_KIND[:2],
        pl.col("stream").clip(0, _MOST).cast(pl.Int64),
        "pool",
        *(pl.col(name).clip(0, _MOST).cast(pl.Int64) for name in ("address", "bytes", "begin_ns")),
        end_ns=pl.when(pl.col("end_ns") > 0).then(pl.col("end_ns").clip(0, NEVER)).otherwise(NEVER).cast(pl.Int64),
        expandable=pl.col("expandable") > 0,
    )
    allocations = driver_blocks(profile)
    recorded = allocations.filter(of_a_pool(allocations, profile.table("pool_blocks"))).select(
        *OWNER,
        stream=pl.lit(UNKNOWN, pl.Int64),
        pool=pl.lit(""),
        address=pl.col("address").clip(0, _MOST).cast(pl.Int64),
        bytes=pl.col("bytes").clip(0, _MOST).cast(pl.Int64),
        begin_ns="begin_ns",
        end_ns="end_ns",
        expandable=pl.lit(False),
    )
    mapped = mapped_for_a_pool(profile).with_columns(stream=pl.lit(UNKNOWN, pl.Int64), pool=pl.lit(""), expandable=pl.lit(True))
    every = pl.concat([of_file, recorded, mapped.select(recorded.columns)]).select(
        pl.col(name).cast(kind) for name, kind in SEGMENTS.items()
    )
    return every.sort(*OWNER, "address", "begin_ns")


def there(profile: Analysis, at: pl.DataFrame) -> pl.DataFrame:
    """The segments that are there at the moments `at` (process, memory, at_ns), without `begin_ns` and `end_ns`, by address. The mapped
    parts of an expandable segment that lie side by side are one."""
    rows = segments(profile).join(at, on=OWNER, maintain_order="left")
    rows = rows.filter((pl.col("begin_ns") <= pl.col("at_ns")) & (pl.col("at_ns") < pl.col("end_ns")))
    ends = (pl.col("address") + pl.col("bytes")).shift(1)
    continues = pl.col("expandable") & pl.col("expandable").shift(1) & (ends == pl.col("address"))
    same = [pl.col(name) == pl.col(name).shift(1) for name in _KIND]
    numbered = rows.with_columns(number=(~(continues & pl.all_horizontal(same)).fill_null(False)).cum_sum())
    return (
        numbered.group_by("number", maintain_order=True)
        .agg(*(pl.col(name).first() for name in (*_KIND, "address")), pl.col("bytes").sum(), pl.col("expandable", "at_ns").first())
        .drop("number")
    )


def segment_of(blocks: pl.DataFrame, places: pl.DataFrame) -> Ints:
    """For each block (process, memory, address) the row in `places`, segments by address of which none covers another, in which it
    begins; -1: none."""
    rows_of = np.full(len(blocks), -1)
    own = places.with_row_index("row").partition_by(OWNER, as_dict=True, maintain_order=True)
    for owner, part in blocks.select(*OWNER, "address").with_row_index("at").partition_by(OWNER, as_dict=True).items():
        if owner not in own:
            continue
        rows = own[owner]
        first, size, number = (rows[name].to_numpy() for name in ("address", "bytes", "row"))
        address = part["address"].to_numpy()
        near = np.searchsorted(first, address, side="right") - 1
        inside = (near >= 0) & (address - first[near] < size[near]) & (address > 0)
        rows_of[part["at"].to_numpy()] = np.where(inside, number[near], -1)
    return rows_of

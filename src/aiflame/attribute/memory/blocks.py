"""The lives of blocks of memory, exact or sampled, from the stack that allocated each until it was freed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.types import Ints
from aiflame.errors import AiflameError
from aiflame.profile.schema.enums import AllocationKind, HostMemoryKind
from aiflame.profile.tables.interface import Tables

HOST = "host"
"""The memory of the machine, beside the devices' by their names."""
NEVER = (1 << 63) - 1
"""The end of a block that is live at the last moment."""
BLOCKS = {
    "process": pl.UInt32,
    "thread": pl.UInt32,
    "stack": pl.UInt32,
    "memory": pl.String,
    "bytes": pl.Int64,
    "count": pl.Int64,
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    "allocated_ns": pl.Int64,
}
"""The columns of `blocks`. A sampled block stands for `count` blocks of its stack, with `bytes` in all; count 0: it is the rest of
another one, and was not allocated anew, but at `allocated_ns`. `begin_ns` 0: it is older than the recording."""
_MOST = 1 << 61
_REST = pl.col("kind") == int(HostMemoryKind.REST)
_MOST_DOUBLINGS = 32
"""Of a rest's distance from its mapping: rows of a damaged table may be the rests of each other."""


@once
def blocks(profile: Analysis) -> pl.DataFrame:
    """A row for each block: BLOCKS, in no order."""
    sources = (*(one.with_columns(allocated_ns="begin_ns") for one in (_imported(profile), _of_gpus(profile))), _of_host(profile))
    rows = pl.concat([one.select(pl.col(name).cast(kind) for name, kind in BLOCKS.items()) for one in sources])
    rows = rows.with_columns(end_ns=pl.max_horizontal("begin_ns", "end_ns"))
    if float(rows["bytes"].cast(pl.Float64).sum()) > _MOST:
        raise AiflameError("the blocks of memory add up to more bytes than any machine has: the profile is damaged")
    return rows


@once
def memories(profile: Analysis) -> list[str]:
    """The memories that have blocks."""
    of_host = {HOST} if profile.has("host_allocations") else set()
    return sorted(_distinct(profile, "memory_blocks", "memory") | _distinct(profile, "allocations", "device") | of_host)


def _distinct(profile: Tables, table: str, column: str) -> set[str]:
    """A damaged table counts as having rows of all memories: reading it reports the error."""
    try:
        return set(profile.scan(table).select(pl.col(column).unique()).collect()[column])
    except AiflameError:
        return {HOST, "GPU"}


def _moment(column: str) -> pl.Expr:
    """The moments of a column; a damaged table may have any number of 64 bits."""
    return pl.col(column).clip(0, NEVER).cast(pl.Int64)


def _imported(profile: Tables) -> pl.DataFrame:
    end = _moment("end_ns")
    return profile.table("memory_blocks").with_columns(
        count=pl.lit(1),
        bytes=pl.col("bytes").clip(0, _MOST),
        begin_ns=_moment("begin_ns"),
        end_ns=pl.when(end > 0).then(end).otherwise(NEVER),
    )


def _of_gpus(profile: Tables) -> pl.DataFrame:
    """Allocations that the driver made, with the stacks of their calls."""
    rows = profile.table("allocations").rename({"device": "memory"}).with_columns(begin_ns=_moment("time_ns"))
    rows = with_ends(rows, ("process", "memory", "address"), begins=pl.col("kind") == int(AllocationKind.TAKE))
    call = ["process", "api", "correlation"]
    calls = profile.scan("launches").select(*call[:1], pl.col("api").cast(rows.schema["api"]), call[2], "thread", "stack")
    calls = calls.join(rows.lazy(), on=call, how="semi").unique(call, keep="first", maintain_order=True)
    rows = rows.join(calls.collect(), on=call, how="left").with_columns(pl.col("thread", "stack").fill_null(0))
    return rows.with_columns(count=pl.lit(1), bytes=pl.col("bytes").clip(0, _MOST))


def _of_host(profile: Tables) -> pl.DataFrame:
    """Sampled allocations of host memory: a row stands for as many blocks of its size as its weight has bytes."""
    rows = profile.table("host_allocations").with_columns(pl.col("weight").clip(0, _MOST).cast(pl.Int64))
    frees = profile.table("host_frees").select("process", id="allocation", end_ns=_moment("time_ns"))
    frees = frees.unique(["process", "id"], keep="first", maintain_order=True)
    rows = rows.join(frees, on=["process", "id"], how="left", maintain_order="left").with_columns(
        pl.col("end_ns").fill_null(NEVER), begin_ns=_moment("time_ns")
    )
    return rows.with_columns(
        memory=pl.lit(HOST),
        bytes="weight",
        count=pl.when(_REST).then(0).otherwise((pl.col("weight") / pl.col("bytes").clip(1)).round().clip(1)),
        allocated_ns=rows["begin_ns"].gather(_first_wholes(rows)),
    )


def _first_wholes(rows: pl.DataFrame) -> Ints:
    """For each row of host memory the row of the mapping of which it is the rest, or a rest's rest; for all others the row itself.
    The mapping has the same stack, and ended when the rest began: around its address, unless mremap() moved the rest."""
    numbered = rows.with_row_index("row").select("row", "process", "stack", "kind", "address", "bytes", "begin_ns", "end_ns")
    same = ["process", "stack", "begin_ns"]
    wholes = numbered.select(*same[:2], begin_ns="end_ns", whole="row", first="address", size="bytes")
    rests = numbered.filter(_REST).join(wholes, on=same)
    inside = (pl.col("address") >= pl.col("first")) & (pl.col("address") - pl.col("first") < pl.col("size"))
    rests = rests.sort(~inside, maintain_order=True).unique("row", keep="first", maintain_order=True)
    above = np.arange(len(rows))
    above[rests["row"].to_numpy()] = rests["whole"].to_numpy()
    for _ in range(_MOST_DOUBLINGS):
        if np.array_equal(above, above[above]):
            break
        above = above[above]
    return above


def with_ends(rows: pl.DataFrame, place: Sequence[str], begins: pl.Expr) -> pl.DataFrame:
    """The rows that begin a block, with `end_ns`: when the next row of the same place came. Rows of one moment are in their order."""
    order = [*place, "begin_ns"]
    following = pl.col("begin_ns").shift(-1).over(place).cast(pl.Int64)
    return rows.sort(order, maintain_order=True).with_columns(end_ns=following.fill_null(NEVER)).filter(begins)

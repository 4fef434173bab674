"""The lives of blocks of memory, exact or sampled, from the stack that allocated each until it was freed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.memory.physical import physical
from aiflame.errors import AiflameError
from aiflame.profile.schema.enums import AllocationKind, HostMemoryKind, MemoryKind, PhysicalMemoryKind
from aiflame.profile.tables.interface import Tables

HOST = "host"
"""The memory of the machine, beside the devices' by their names."""
NEVER = (1 << 63) - 1
"""The end of a block that is live at the last moment."""


class BlockKind(IntEnum):
    BLOCK = 0
    OF_POOL = 1
    """given to the program by the pool of a library, such as torch's caching allocator"""
    UNUSED = 2
    """held by a pool, and given to nobody"""
    BESIDE_POOL = 3
    """taken from the driver in a process with a pool, but not by the pool: code of kernels, workspaces of libraries"""
    OLDER = 4
    """given by a pool before the recording, or before the window of it that was kept"""
    UNCOUNTED = 5
    """of the process by the driver's own count, and by no call that a hook has seen: CUDA's context, the code of modules"""


BLOCKS = {
    "process": pl.UInt32,
    "kind": pl.UInt8,
    "thread": pl.UInt32,
    "stack": pl.UInt32,
    "autograd": pl.UInt16,
    "sequence": pl.UInt32,
    "memory": pl.String,
    "bytes": pl.Int64,
    "count": pl.Int64,
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    "allocated_ns": pl.Int64,
    "address": pl.Int64,
    "block_bytes": pl.Int64,
}
"""The columns of `blocks`. A sampled block stands for `count` blocks of its stack, with `bytes` in all; count 0: it is the rest of
another one, and was not allocated anew, but at `allocated_ns`. `begin_ns` 0: it is older than the recording. `autograd` and `sequence`
are as in the table `launches`. `address`: of a pool's block, 0: not known; the pool took `block_bytes` bytes for it."""
_MOST = 1 << 61
_PLACE = ("process", "memory", "address")
_CONTEXT = ("stack", "autograd", "sequence")
_REST = pl.col("kind") == int(HostMemoryKind.REST)
_MOST_DOUBLINGS = 32
"""Of a rest's distance from its mapping: rows of a damaged table may be the rests of each other."""


@once
def blocks(profile: Analysis) -> pl.DataFrame:
    """A row for each block: BLOCKS, in no order."""
    rows = pl.concat([complete(one) for one in (_imported(profile), _of_drivers(profile), _of_pools(profile), _of_host(profile))])
    rows = rows.with_columns(end_ns=pl.max_horizontal("begin_ns", "end_ns"))
    if float(rows["bytes"].cast(pl.Float64).sum()) > _MOST:
        raise AiflameError("the blocks of memory add up to more bytes than any machine has: the profile is damaged")
    return rows


@once
def memories(profile: Analysis) -> list[str]:
    """The memories that have blocks."""
    of_host = {HOST} if profile.has("host_allocations") else set()
    of_devices = _distinct(profile, "allocations", "device", pl.col("memory") != int(MemoryKind.HOST))
    created = (pl.col("kind") == int(PhysicalMemoryKind.CREATE)) & (pl.col("memory") != int(MemoryKind.HOST))
    of_devices |= _distinct(profile, "physical_memory", "device", created)
    return sorted(of_host | of_devices | _distinct(profile, "memory_blocks", "memory") | _distinct(profile, "pool_blocks", "device"))


def _distinct(profile: Tables, table: str, column: str, rows: pl.Expr | None = None) -> set[str]:
    """A damaged table counts as having rows of all memories: reading it reports the error. `rows`: those that count, default all."""
    try:
        scan = profile.scan(table)
        return set((scan if rows is None else scan.filter(rows)).select(pl.col(column).unique()).collect()[column])
    except AiflameError:
        return {HOST, "GPU"}


def complete(rows: pl.DataFrame) -> pl.DataFrame:
    """With the columns of BLOCKS; those that are missing are 0, but a block was allocated at its begin."""
    rows = rows if "allocated_ns" in rows.columns else rows.with_columns(allocated_ns="begin_ns")
    return rows.select((pl.col(name) if name in rows.columns else pl.lit(0)).cast(kind).alias(name) for name, kind in BLOCKS.items())


def _number(column: str) -> pl.Expr:
    return pl.col(column).clip(0, _MOST)


def _moment(column: str) -> pl.Expr:
    """The moments of a column; a damaged table may have any number of 64 bits."""
    return pl.col(column).clip(0, NEVER).cast(pl.Int64)


def _imported(profile: Tables) -> pl.DataFrame:
    end = _moment("end_ns")
    rows = profile.table("memory_blocks")
    return rows.with_columns(
        count=pl.lit(1),
        bytes=pl.col("bytes").clip(0, _MOST),
        begin_ns=_moment("begin_ns"),
        end_ns=pl.when(end > 0).then(end).otherwise(NEVER),
        **{name: _number(name) for name in ("address", "block_bytes")},
    )


def _of_drivers(profile: Analysis) -> pl.DataFrame:
    """Allocations that the driver made, with the stacks of their calls, but not those out of which a pool gives blocks to the program."""
    rows, pools = driver_blocks(profile), profile.table("pool_blocks")
    call = ["process", "api", "correlation"]
    columns = [*call, "memory", "bytes", "begin_ns", "end_ns"]
    created = physical_blocks(profile)
    of_pool = mapped_for_a_pool(profile)["block"]
    rows = pl.concat(
        [
            rows.filter(~of_a_pool(rows, pools)).select(columns),
            created.filter(~pl.col("block").is_in(of_pool.implode())).select(columns),
        ],
        how="vertical_relaxed",
    )
    calls = profile.scan("launches").select("process", pl.col("api").cast(rows.schema["api"]), "correlation", "thread", *_CONTEXT)
    calls = calls.join(rows.lazy(), on=call, how="semi").unique(call, keep="first", maintain_order=True)
    rows = rows.join(calls.collect(), on=call, how="left")
    beside = pools.select("process", memory="device", kind=pl.lit(int(BlockKind.BESIDE_POOL))).unique()
    rows = rows.join(beside, on=["process", "memory"], how="left").with_columns(pl.col("kind").fill_null(int(BlockKind.BLOCK)))
    return rows.with_columns(
        pl.col("thread", *_CONTEXT).fill_null(0), count=pl.lit(1), bytes=pl.col("bytes").clip(0, _MOST), address=pl.lit(0)
    )


def driver_blocks(profile: Tables) -> pl.DataFrame:
    """The allocations that the driver made with an address, as in the table, with `memory`, `begin_ns` and `end_ns`. Pinned memory is the
    host's; without the rest of the host's memory, it would look like all of that. Should CUPTI have a record of physical memory, too, it
    counts once."""
    of_handles = profile.table("physical_memory").filter(pl.col("correlation") > 0).select("process", "api", "correlation")
    rows = profile.table("allocations").join(of_handles, on=of_handles.columns, how="anti", maintain_order="left")
    rows = rows.with_columns(begin_ns=_moment("time_ns"))
    pinned = pl.col("memory") == int(MemoryKind.HOST)
    rows = rows if profile.has("host_allocations") else rows.filter(~pinned)
    rows = rows.with_columns(memory=pl.when(pinned).then(pl.lit(HOST)).otherwise("device")).drop("device")
    return with_ends(rows, _PLACE, begins=pl.col("kind") == int(AllocationKind.TAKE))


def physical_blocks(profile: Analysis) -> pl.DataFrame:
    """Physical memory that the program created (`physical`), with `memory` as here, and of the host's as in `driver_blocks`."""
    rows = physical(profile).blocks
    rows = rows if profile.has("host_allocations") else rows.filter(~pl.col("of_host"))
    return rows.with_columns(memory=pl.when("of_host").then(pl.lit(HOST)).otherwise("memory"), bytes=pl.col("bytes").cast(pl.UInt64))


def mapped_for_a_pool(profile: Analysis) -> pl.DataFrame:
    """The mappings of physical memory (`physical`) of which a part was once a block of a pool: expandable segments of torch's allocator.
    A block may lie in several of them."""
    rows, given = physical(profile).mappings, profile.table("pool_blocks")
    inside = np.zeros(len(rows), bool)
    pools = given.partition_by("process", "device", as_dict=True)
    for key, own in rows.with_row_index("row").partition_by("process", "memory", as_dict=True).items():
        if key not in pools:
            continue
        ordered = pools[key].select(_number("address").cast(pl.Int64), _number("bytes").cast(pl.Int64)).sort("address")
        begin = ordered["address"].to_numpy()
        end = np.maximum.accumulate(begin + ordered["bytes"].to_numpy())
        first, size = own["address"].to_numpy(), own["bytes"].to_numpy()
        near = np.searchsorted(begin, first + size) - 1
        inside[own["row"].to_numpy()] = (near >= 0) & (end[near] > first)
    return rows.filter(pl.Series(inside))


def of_a_pool(rows: pl.DataFrame, given: pl.DataFrame) -> pl.Series:
    """Whether a block of a pool lies in an allocation of the driver's. Addresses are used again: one that was the pool's once counts as
    the pool's."""
    of_pool = np.zeros(len(rows), bool)
    addresses = {key: part["address"] for key, part in given.partition_by("process", "device", as_dict=True).items()}
    numbered = rows.with_row_index("row").partition_by("process", "memory", as_dict=True)
    for key, own in numbered.items():
        if key not in addresses:
            continue
        inside = np.unique(addresses[key].to_numpy())
        first, size = own["address"].to_numpy(), own["bytes"].to_numpy()
        end = first + np.minimum(size, ~first)
        of_pool[own["row"].to_numpy()] = np.searchsorted(inside, end) > np.searchsorted(inside, first)
    return pl.Series(of_pool)


def _of_pools(profile: Analysis) -> pl.DataFrame:
    """Blocks that torch's caching allocator gave to the program. One that only comes back is older than the recording."""
    rows = profile.table("pool_blocks").rename({"device": "memory"}).with_columns(begin_ns=_moment("time_ns"))
    begins = pl.col("kind") == int(AllocationKind.TAKE)
    older = rows.sort("begin_ns", maintain_order=True).unique(_PLACE, keep="first", maintain_order=True).filter(~begins)
    rows = pl.concat([with_ends(rows, _PLACE, begins), older.with_columns(begin_ns=pl.lit(0, pl.Int64), end_ns="begin_ns")])
    size = pl.col("bytes").clip(0, _MOST)
    return rows.with_columns(kind=pl.lit(int(BlockKind.OF_POOL)), count=pl.lit(1), bytes=size, block_bytes=size, address=_number("address"))


def rest_of_pools(profile: Analysis, live: pl.DataFrame, at: pl.DataFrame) -> pl.DataFrame:
    """Rows as in `live`, the blocks that are live at moments `at` (process, memory, at_ns), for all else that a pool has then: blocks from
    before the recording, and memory that no block uses. The pool counts both at each change, and when it refuses a request."""
    counts = [pl.col(name).clip(0, _MOST).cast(pl.Int64) for name in ("used", "held")]
    changes = profile.table("pool_blocks").select("process", *counts, memory="device", at_ns=_moment("time_ns"))
    refusals = profile.table("memory_refusals").filter(pl.col("held") > 0)
    pools = pl.concat([changes, refusals.select("process", *counts, "memory", at_ns=_moment("time_ns"))])
    if pools.is_empty():
        return live[:0]
    owner = ["process", "memory"]
    recorded = live.filter(pl.col("kind") == int(BlockKind.OF_POOL)).group_by(owner).agg(recorded=pl.col("bytes").sum())
    now = at.sort("at_ns").join_asof(pools.sort("at_ns", maintain_order=True), on="at_ns", by=owner, check_sortedness=False)
    now = now.drop_nulls("held").join(recorded, on=owner, how="left").with_columns(pl.col("recorded").fill_null(0))
    older, unused = pl.col("used") - pl.col("recorded"), pl.col("held") - pl.max_horizontal("used", "recorded")
    sizes = ((BlockKind.OLDER, older), (BlockKind.UNUSED, unused))
    parts = [now.with_columns(kind=pl.lit(int(kind)), bytes=size) for kind, size in sizes]
    rows = pl.concat(parts).filter(pl.col("bytes") > 0).with_columns(begin_ns="at_ns", end_ns=pl.lit(NEVER))
    return complete(rows).with_columns(rows["at_ns"]).select(live.columns)


def _of_host(profile: Tables) -> pl.DataFrame:
    """Sampled allocations of host memory: a row stands for as many blocks of its size as its weight has bytes."""
    rows = profile.table("host_allocations").with_columns(pl.col("weight").clip(0, _MOST).cast(pl.Int64))
    frees = profile.table("host_frees").select("process", id="allocation", end_ns=_moment("time_ns"))
    frees = frees.unique(["process", "id"], keep="first", maintain_order=True)
    rows = rows.join(frees, on=["process", "id"], how="left", maintain_order="left").with_columns(
        pl.col("end_ns").fill_null(NEVER), begin_ns=_moment("time_ns")
    )
    return rows.with_columns(
        kind=pl.lit(int(BlockKind.BLOCK)),
        address=pl.lit(0),
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

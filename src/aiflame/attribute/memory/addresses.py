"""The recorded block in which an address lay at a moment."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.memory.blocks import HOST, NEVER, BlockKind, blocks, complete
from aiflame.profile.tables.interface import Tables

_MOST = 1 << 61
_COLUMNS = ("process", "memory", "stack", "address", "bytes", "begin_ns", "end_ns")


@once
def addressed(profile: Analysis) -> pl.DataFrame:
    """process, memory, stack, address, bytes, begin_ns, end_ns of the blocks of pools, and of the sampled ones of the host."""
    of_pools = blocks(profile).filter((pl.col("kind") == int(BlockKind.OF_POOL)) & (pl.col("address") > 0))
    return pl.concat([of_pools.select(_COLUMNS), complete(_of_host(profile)).select(_COLUMNS)])


def _of_host(profile: Tables) -> pl.DataFrame:
    frees = profile.table("host_frees").select("process", id="allocation", end_ns=pl.col("time_ns").clip(0, NEVER).cast(pl.Int64))
    frees = frees.unique(["process", "id"], keep="first", maintain_order=True)
    rows = profile.table("host_allocations").join(frees, on=["process", "id"], how="left", maintain_order="left")
    numbers = [pl.col(name).clip(0, _MOST).cast(pl.Int64) for name in ("address", "bytes")]
    begin = pl.col("time_ns").clip(0, NEVER).cast(pl.Int64)
    return rows.select("process", "stack", *numbers, memory=pl.lit(HOST), begin_ns=begin, end_ns=pl.col("end_ns").fill_null(NEVER))


def blocks_at(profile: Analysis, process: int, addresses: list[int], at_ns: int) -> pl.DataFrame:
    """The rows of `addressed` in which these addresses lay, a row for each address that lay in one. Where blocks lie within one another,
    it is the innermost: the block that a library gave out of a larger one."""
    rows = addressed(profile).filter((pl.col("process") == process) & (pl.col("begin_ns") <= at_ns) & (pl.col("end_ns") > at_ns))
    rows = rows.sort("address", -pl.col("bytes"), "begin_ns")
    begin, size = rows["address"].to_numpy(), rows["bytes"].to_numpy()
    wanted = np.array([one for one in addresses if 0 < one < _MOST], dtype=np.int64)
    near = np.searchsorted(begin, wanted, side="right") - 1
    inside = (near >= 0) & (wanted - begin[np.maximum(near, 0)] < size[np.maximum(near, 0)]) if len(begin) else np.zeros(len(wanted), bool)
    lain: pl.DataFrame = rows[near[inside]]
    return lain

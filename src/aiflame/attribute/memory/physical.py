"""Physical memory of CUDA's virtual memory management: from when to when it was there, and at which addresses it was mapped."""

from __future__ import annotations

from bisect import bisect_left, insort

import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.profile.schema.enums import MemoryKind, PhysicalMemoryKind
from aiflame.values import dataclass

NEVER = (1 << 63) - 1
_MOST = 1 << 61
_LIFE = {"process": pl.UInt32, "block": pl.Int64, "bytes": pl.Int64, "begin_ns": pl.Int64, "end_ns": pl.Int64}
_BLOCKS = {**_LIFE, "memory": pl.String, "of_host": pl.Boolean, "api": pl.UInt32, "correlation": pl.UInt64}
_MAPPINGS = {**_LIFE, "memory": pl.String, "address": pl.Int64}


@dataclass(frozen=True, slots=True)
class Physical:
    blocks: pl.DataFrame
    """A row for each piece of memory that the process created: process, block (its number), bytes, begin_ns, end_ns, memory (the device, of
    the machine's: ""), of_host, api, correlation (of the call that created it)."""
    mappings: pl.DataFrame
    """process, block, bytes, begin_ns, end_ns, memory, address"""


@once
def physical(profile: Analysis) -> Physical:
    return replayed(profile.table("physical_memory"))


def replayed(rows: pl.DataFrame) -> Physical:
    """Memory goes when no reference to its handle and no mapping is left, as CUDA has it. Memory of other processes, of which a handle was
    imported, is theirs and has no row; nor has memory from before the recording."""
    whole = rows.with_columns(pl.col("time_ns").clip(0, NEVER).cast(pl.Int64)).sort("process", "time_ns", maintain_order=True)
    blocks, mappings = list[tuple[object, ...]](), list[tuple[object, ...]]()
    for (process,), own in whole.partition_by("process", as_dict=True, maintain_order=True).items():
        state = _Process(blocks=len(blocks))
        columns = ("kind", "handle", "address", "bytes", "time_ns", "memory", "device", "api", "correlation")
        for kind, handle, address, size, time_ns, memory, device, api, correlation in own.select(columns).iter_rows():
            if kind == PhysicalMemoryKind.CREATE:
                state.create(handle, size, time_ns, device, memory == int(MemoryKind.HOST), api, correlation)
            elif kind in (PhysicalMemoryKind.IMPORT, PhysicalMemoryKind.RETAIN):
                state.refer(handle)
            elif kind == PhysicalMemoryKind.RELEASE:
                state.release(handle, time_ns)
            elif kind == PhysicalMemoryKind.MAP:
                state.map(handle, address, size, time_ns)
            elif kind == PhysicalMemoryKind.UNMAP:
                state.unmap(address, size, time_ns)
        blocks += [
            (process, one.number, min(one.size, _MOST), one.begin_ns, one.end_ns, one.device, one.of_host, one.api, one.correlation)
            for one in state.blocks
        ]
        mappings += [
            (process, one.block.number, min(one.size, _MOST), one.begin_ns, one.end_ns, one.block.device, min(one.address, _MOST))
            for one in state.mappings
        ]
    return Physical(pl.DataFrame(blocks, schema=_BLOCKS, orient="row"), pl.DataFrame(mappings, schema=_MAPPINGS, orient="row"))


@dataclass(slots=True)
class _Block:
    number: int
    size: int
    begin_ns: int
    device: str
    of_host: bool
    api: int
    correlation: int
    references: int = 1
    mapped: int = 0
    end_ns: int = NEVER

    def end_if_unused(self, time_ns: int) -> None:
        if not self.references and not self.mapped and self.end_ns == NEVER:
            self.end_ns = time_ns


@dataclass(slots=True)
class _Mapping:
    block: _Block
    address: int
    size: int
    begin_ns: int
    end_ns: int = NEVER


class _Process:
    """The memory of a process. `blocks`: of so many others before it."""

    def __init__(self, blocks: int) -> None:
        self._first = blocks
        self.blocks = list[_Block]()
        self.mappings = list[_Mapping]()
        self._by_handle = dict[int, _Block]()
        self._at = dict[int, _Mapping]()
        self._addresses = list[int]()
        """Of `_at`, in order."""

    def create(self, handle: int, size: int, time_ns: int, device: str, of_host: bool, api: int, correlation: int) -> None:
        block = _Block(self._first + len(self.blocks), size, time_ns, device, of_host, api, correlation)
        self.blocks.append(block)
        self._by_handle[handle] = block

    def refer(self, handle: int) -> None:
        """A handle stays that of its memory while that is mapped."""
        block = self._by_handle.get(handle)
        if block and block.end_ns == NEVER:
            block.references += 1

    def release(self, handle: int, time_ns: int) -> None:
        block = self._by_handle.get(handle)
        if block and block.references:
            block.references -= 1
            block.end_if_unused(time_ns)

    def map(self, handle: int, address: int, size: int, time_ns: int) -> None:
        self._end(address, time_ns)
        block = self._by_handle.get(handle)
        if block and block.end_ns == NEVER:
            block.mapped += 1
            self._at[address] = mapping = _Mapping(block, address, size, time_ns)
            self.mappings.append(mapping)
            insort(self._addresses, address)

    def unmap(self, address: int, size: int, time_ns: int) -> None:
        """A range may have been mapped in several pieces."""
        first, behind = (bisect_left(self._addresses, at) for at in (address, address + size))
        for one in self._addresses[first:behind]:
            self._end(one, time_ns)

    def _end(self, address: int, time_ns: int) -> None:
        mapping = self._at.pop(address, None)
        if mapping:
            del self._addresses[bisect_left(self._addresses, address)]
            mapping.end_ns = time_ns
            mapping.block.mapped -= 1
            mapping.block.end_if_unused(time_ns)

"""A snapshot as `torch.cuda.memory._dump_snapshot()` writes it, for torch's own viewer (memory_viz): the life of each block and segment,
and those that are there at the end. Blocks without an address have one of their own, in one more segment for each device."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.memory.blocks import HOST, NEVER, blocks
from aiflame.attribute.memory.segments import segments, there
from aiflame.attribute.stacks.functions import Functions, functions_and_lines
from aiflame.errors import AiflameError
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

_MOST = 1_000_000
_LINES = [int(Kind.CPU_LINE)]
_NUMBERED = re.compile(r"(?:GPU (\d{1,3})|.* \[(\d{1,3})\])", re.DOTALL | re.ASCII)
_MOST_NUMBER = 256
_INACTIVE = "inactive"
_SMALL = 2 << 20
"""Bytes of the segments of torch's small blocks; all others are larger."""
_FREE_REQUESTED, _FREE_COMPLETED, _SEGMENT_FREE, _SEGMENT_ALLOC, _OUT_OF_MEMORY, _ALLOC = range(6)
"""The order of events of one moment."""
_Event = tuple[int, int, dict[str, Any]]
"""Its moment, its place in that order, and the event without its time."""
_APART = 1 << 21
_FIRST_ADDRESS = 1 << 40
_FURTHER = 1 << 44
"""Addresses of a device; those of the next one follow."""


def write(profile: Tables, file: BinaryIO, realtime_ns: int) -> int:
    """The number of events. `realtime_ns`: time since 1970 at moment 0 of the profile's clock."""
    analysis = Analysis.of(profile)
    rows = blocks(analysis).filter(pl.col("begin_ns") < pl.col("end_ns"))  # one freed at once would end before its begin
    if rows.is_empty():
        raise AiflameError("this profile has no blocks of memory: record with --gpu-memory or --host-memory")
    if len(rows) > _MOST:
        raise AiflameError(f"{len(rows):,} blocks of memory are more than a snapshot can have ({_MOST:,}): record for a shorter time")
    frames = _Frames(functions_and_lines(analysis))
    on_devices = rows.filter(pl.col("memory") != HOST)
    owners = ["process", "memory"]
    parts = (on_devices if len(on_devices) else rows).sort("memory", "process", "begin_ns").partition_by(owners, maintain_order=True)
    numbers = _numbers([str(own["memory"][0]) for own in parts])
    traces: list[list[dict[str, Any]]] = [[] for _ in range(max(numbers) + 1)]
    every_segment: list[dict[str, Any]] = []
    for device, own in zip(numbers, parts, strict=True):
        traces[device], of_device = _device(device, own.select(owners).row(0), own, analysis, frames, realtime_ns)
        every_segment += of_device
    content = {"segments": every_segment, "device_traces": traces, "allocator_settings": {}, "external_annotations": []}
    pickle.dump(content, file, protocol=4)
    return sum(map(len, traces))


def _numbers(memories: list[str]) -> list[int]:
    """The devices' own numbers, if they have different ones; otherwise from 0."""
    matches = [_NUMBERED.fullmatch(name) for name in memories]
    own = [int(one[1] or one[2]) for one in matches if one]
    different = len(set(own)) == len(memories) and max(own) < _MOST_NUMBER
    return own if different else list(range(len(memories)))


class _Frames:
    """Stacks as lists of frames, the innermost first; equal ones are one object."""

    def __init__(self, trie: Functions) -> None:
        self._trie = trie
        names = trie.frames.select(pl.when(pl.col("full_name") != "").then("full_name").otherwise("name")).to_series()
        self._rows = [
            {"name": name, "filename": file or "??", "line": line}
            for name, file, line in zip(names.to_list(), trie.frames["file"].to_list(), trie.frames["line"].to_list(), strict=True)
        ]
        self._is_line = trie.frames["kind"].is_in(_LINES).to_list()
        self._at_lines: dict[tuple[int, int], dict[str, Any]] = {}
        self._stacks: dict[int, list[dict[str, Any]]] = {}

    def of(self, process: Ints, stack: Ints) -> list[list[dict[str, Any]]]:
        return [self._at(node) for node in self._trie.of_stacks(process, stack).tolist()]

    def _at(self, node: int) -> list[dict[str, Any]]:
        listed = self._stacks.get(node)
        if listed is None:
            listed = self._stacks[node] = []
            line = -1
            while node > self._trie.processes:
                frame = int(self._trie.frame[node])
                if self._is_line[frame]:
                    line = frame
                else:
                    listed.append(self._function(frame, line))
                    line = -1
                node = int(self._trie.parent[node])
        return listed

    def _function(self, frame: int, line: int) -> dict[str, Any]:
        """A function at a line that it runs; -1: not known."""
        if line < 0:
            return self._rows[frame]
        key = frame, line
        if key not in self._at_lines:
            self._at_lines[key] = {**self._rows[frame], "line": self._rows[line]["line"]}
        return self._at_lines[key]


@dataclass(frozen=True, slots=True)
class _Placed:
    """The blocks of one device, each with an address."""

    address: Ints
    size: Ints
    block_bytes: Ints
    stream: Ints
    begin: Ints
    end: Ints
    stacks: list[list[dict[str, Any]]]


def _device(
    device: int, owner: tuple[object, ...], rows: pl.DataFrame, profile: Analysis, frames: _Frames, realtime_ns: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The trace of a device, and its segments at the end."""
    own = segments(profile).filter(pl.col("process") == owner[0], pl.col("memory") == owner[1])
    placed, beside = _placed(device, rows, own, frames)
    events = [*_block_events(placed), *_segment_events(own), *_refusal_events(profile, owner, frames)]
    events.sort(key=lambda event: event[:2])
    trace = [{**event, "time_us": (moment + realtime_ns) // 1000} for moment, _, event in events]
    at = pl.DataFrame([(*owner, NEVER - 1)], schema={"process": pl.UInt32, "memory": pl.String, "at_ns": pl.Int64}, orient="row")
    places = pl.concat([there(profile, at).select(beside.columns), beside]) if len(own) else beside
    live = np.flatnonzero(placed.end == NEVER)
    live = live[np.argsort(placed.address[live], kind="stable")]
    bounds = np.searchsorted(placed.address[live], places["address"].to_numpy())
    behind = np.searchsorted(placed.address[live], (places["address"] + places["bytes"]).to_numpy())
    return trace, [
        _segment(device, row, placed, live[first:last])
        for row, first, last in zip(places.iter_rows(named=True), bounds.tolist(), behind.tolist(), strict=True)
    ]


def _placed(device: int, rows: pl.DataFrame, own: pl.DataFrame, frames: _Frames) -> tuple[_Placed, pl.DataFrame]:
    """Blocks keep the addresses that they had in segments of the allocator. All others lie behind each other in one more segment, which is
    returned, too; without any, no row is."""
    process, stack, size, begin, end, address, block_bytes = (
        rows[name].cast(pl.Int64).to_numpy() for name in ("process", "stack", "bytes", "begin_ns", "end_ns", "address", "block_bytes")
    )
    size = np.maximum(size, 0)
    inside = _inside(address, begin, own)
    stream = np.where(inside >= 0, own["stream"].to_numpy()[inside] if len(own) else 0, 0)
    elsewhere = np.flatnonzero(inside < 0)
    first = max(_FIRST_ADDRESS + device * _FURTHER, int((own["address"] + own["bytes"]).to_numpy().max(initial=0)) + _APART & -_APART)
    offsets = np.append(0, np.cumsum(np.maximum(size[elsewhere], 1)))
    if offsets[-1] >= _FURTHER:
        raise AiflameError(f"blocks of {int(size.sum()):,} bytes are more than a snapshot has addresses: record for a shorter time")
    address, block_bytes = address.copy(), np.maximum(block_bytes, size)
    address[elsewhere], block_bytes[elsewhere] = first + offsets[:-1], size[elsewhere]
    beside = pl.DataFrame({"address": [first], "bytes": [int(offsets[-1])], "stream": [0], "pool": [""], "expandable": [False]})
    placed = _Placed(address, size, block_bytes, np.maximum(stream, 0), begin, end, frames.of(process, stack))
    return placed, beside.filter(pl.col("bytes") > 0)


def _inside(address: Ints, begin: Ints, own: pl.DataFrame) -> Ints:
    """For each block the row of a segment in which it begins, -1: it has none. Of several that were there at different times, the last one
    that began before the block."""
    rows = np.full(len(address), -1)
    by_address = np.argsort(address, kind="stable")
    ordered = address[by_address]
    for row, first, size, since in own.with_row_index("row").sort("begin_ns").select("row", "address", "bytes", "begin_ns").rows():
        near, behind = np.searchsorted(ordered, [max(first, 1), first + size])
        covered = by_address[near:behind]
        rows[covered[(begin[covered] >= since) | (rows[covered] < 0)]] = row
    return rows


def _block_events(placed: _Placed) -> Iterator[_Event]:
    columns = (placed.address, placed.size, placed.stream, placed.begin, placed.end)
    for number, (address, size, stream, begin, end) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        event = {"addr": address, "size": size, "stream": stream}
        if begin > 0:
            yield begin, _ALLOC, {"action": "alloc", **event, "frames": placed.stacks[number]}
        if end < NEVER:
            for order, action in ((_FREE_REQUESTED, "free_requested"), (_FREE_COMPLETED, "free_completed")):
                yield end, order, {"action": action, **event, "frames": []}


def _segment_events(own: pl.DataFrame) -> Iterator[_Event]:
    names = ("address", "bytes", "stream", "begin_ns", "end_ns", "expandable")
    for address, size, stream, begin, end, expandable in own.select(names).rows():
        event = {"addr": address, "size": size, "stream": max(stream, 0), "frames": []}
        if begin > 0:
            yield begin, _SEGMENT_ALLOC, {"action": "segment_map" if expandable else "segment_alloc", **event}
        if end < NEVER:
            yield end, _SEGMENT_FREE, {"action": "segment_unmap" if expandable else "segment_free", **event}


def _refusal_events(profile: Analysis, owner: tuple[object, ...], frames: _Frames) -> Iterator[_Event]:
    rows = profile.table("memory_refusals").filter(pl.col("process") == owner[0], pl.col("memory") == owner[1])
    rows = rows.with_columns(pl.col("time_ns", "bytes", "free_bytes").clip(0, NEVER).cast(pl.Int64))
    stacks = frames.of(*(rows[name].cast(pl.Int64).to_numpy() for name in ("process", "stack")))
    for (time_ns, size, free), stack in zip(rows.select("time_ns", "bytes", "free_bytes").rows(), stacks, strict=True):
        yield time_ns, _OUT_OF_MEMORY, {"action": "oom", "device_free": free, "size": size, "stream": 0, "frames": stack}


def _segment(device: int, row: dict[str, Any], placed: _Placed, live: Ints) -> dict[str, Any]:
    """A segment at the end; `live`: its blocks, by address. Torch's viewer expects that blocks fill their segment."""
    held: list[dict[str, Any]] = []
    place, end = row["address"], row["address"] + row["bytes"]
    for number in live.tolist():
        address = max(int(placed.address[number]), place)
        size = min(int(placed.block_bytes[number]), end - address)
        held += _unused(place, address)
        one = {"address": address, "size": size, "requested_size": int(placed.size[number])}
        held.append({**one, "state": "active_allocated", "frames": placed.stacks[number]})
        place = address + size
    held += _unused(place, end)
    used = sum(one["size"] for one in held if one["state"] != _INACTIVE)
    return {
        "device": device,
        "address": row["address"],
        "total_size": row["bytes"],
        "allocated_size": used,
        "active_size": used,
        "requested_size": sum(one["requested_size"] for one in held),
        "stream": max(row["stream"], 0),
        "segment_type": "small" if row["bytes"] <= _SMALL else "large",
        "segment_pool_id": _pool(row["pool"]),
        "is_expandable": row["expandable"],
        "frames": [],
        "blocks": held,
    }


def _pool(name: str) -> tuple[int, int]:
    first, _, second = name.partition(".")
    return (int(first), int(second)) if first.isdecimal() and second.isdecimal() else (0, 0)


def _unused(begin: int, end: int) -> list[dict[str, Any]]:
    """The block between two others."""
    if begin >= end:
        return []
    return [{"address": begin, "size": end - begin, "requested_size": 0, "state": _INACTIVE, "frames": []}]

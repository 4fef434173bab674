"""A snapshot as `torch.cuda.memory._dump_snapshot()` writes it, for torch's own viewer (memory_viz): the life of each block, and the blocks
that are live at the end. Each block has an address of its own, in one segment for each device."""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.memory.blocks import HOST, NEVER, blocks
from aiflame.attribute.stacks.functions import Functions, functions_and_lines
from aiflame.errors import AiflameError
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables

_MOST = 1_000_000
_LINES = [int(Kind.CPU_LINE)]
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
    traces, segments = [], []
    for device, own in enumerate(parts):
        trace, segment = _device(device, own, frames, realtime_ns)
        traces.append(trace)
        segments.append(segment)
    content = {"segments": segments, "device_traces": traces, "allocator_settings": {}, "external_annotations": []}
    pickle.dump(content, file, protocol=4)
    return sum(map(len, traces))


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


def _device(device: int, rows: pl.DataFrame, frames: _Frames, realtime_ns: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    process, stack, size, begin, end = (
        rows[name].cast(pl.Int64).to_numpy() for name in ("process", "stack", "bytes", "begin_ns", "end_ns")
    )
    first = _FIRST_ADDRESS + device * _FURTHER
    address = first + np.append(0, np.cumsum(np.maximum(size, 1)))
    if address[-1] - first >= _FURTHER:
        raise AiflameError(f"blocks of {int(size.sum()):,} bytes are more than a snapshot has addresses: record for a shorter time")
    stacks = frames.of(process, stack)
    born, freed = np.flatnonzero(begin > 0), np.flatnonzero(end < NEVER)
    moment = np.concatenate([begin[born], end[freed]])
    block = np.concatenate([born, freed])
    ends = np.arange(len(block)) >= len(born)
    trace = []
    for at in np.lexsort((~ends, moment)).tolist():
        number = int(block[at])
        event = {
            "addr": int(address[number]),
            "size": int(size[number]),
            "stream": 0,
            "time_us": (int(moment[at]) + realtime_ns) // 1000,
            "frames": [] if ends[at] else stacks[number],
        }
        trace += [{"action": action, **event} for action in (("free_requested", "free_completed") if ends[at] else ("alloc",))]
    live = np.flatnonzero(end == NEVER)
    held: list[dict[str, Any]] = []
    place = first
    for number in live.tolist():
        held += _unused(place, int(address[number]))
        one = {"address": int(address[number]), "size": int(size[number]), "requested_size": int(size[number])}
        held.append({**one, "state": "active_allocated", "frames": stacks[number]})
        place = int(address[number]) + int(size[number])
    held += _unused(place, int(address[-1]))
    used = int(size[live].sum())
    segment = {
        "device": device,
        "address": first,
        "total_size": int(address[-1] - first),
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": held,
    }
    return trace, segment


def _unused(begin: int, end: int) -> list[dict[str, Any]]:
    """The block between two others: torch's viewer expects that blocks fill their segment."""
    if begin == end:
        return []
    return [{"address": begin, "size": end - begin, "requested_size": 0, "state": "inactive", "frames": []}]

"""The packets of a trace, in batches of many: the facts of each packet, and the messages in it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Whole
from aiflame.errors import AiflameError
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.perfetto.many_messages import Batch, Fields, each_field, split
from aiflame.exchange.readers.protobuf import DamagedError
from aiflame.exchange.readers.source import Source, most_unpacked
from aiflame.values import dataclass

_BATCH = 8 << 20
_LARGEST = 256 << 20
"""Bytes of a packet."""
_LARGEST_UNPACKED = 64 << 20
"""Bytes of the packets in a packed one; the tracing service packs half a megabyte at a time, aiflame a few."""
_COMPRESSED = b"\x92\x03"
"""Tag of the field that holds packed packets; such a packet has nothing else."""
_TIMESTAMP, _SEQUENCE, _FLAGS, _CLEARED, _CLOCK, _DEFAULTS, _DROPPED, _PID = 8, 10, 13, 41, 58, 59, 42, 79
OTHERS = {
    1: "ftrace (scheduling and other events of the kernel)",
    2: "process trees",
    7: "counters of the system",
    9: "process stats",
    33: "the trace's configuration",
    34: "ftrace stats",
    35: "trace stats",
    36: "synchronization marks",
    38: "battery counters",
    39: "Android log lines",
    45: "system information",
    51: "Chrome's metadata",
    57: "graphics frames",
    62: "Vulkan's memory events",
    65: "Vulkan's calls",
    67: "information about CPUs",
    69: "events of the tracing service",
    72: "descriptors of extensions",
    74: "streamed allocations",
    75: "streamed frees",
    89: "the trace's id",
    90: "ranges of interest",
    95: "events of Windows' tracing",
    99: "V8's code",
    100: "V8's code",
    124: "the trace's origin",
    128: "information about GPUs",
    132: "journal entries",
    133: "packets packed with zstd",
}
"""Packets that nobody uses, by their fields."""
_SILENT = {3, _TIMESTAMP, _SEQUENCE, _FLAGS, _CLEARED, _CLOCK, _DEFAULTS, _DROPPED, _PID, 87, 98}


@dataclass(frozen=True, slots=True)
class Packets:
    """A batch of packets, and for each:"""

    batch: Batch
    first: int
    """number of the first packet in the trace"""
    sequence: Whole
    scope: Whole
    """sequence << 32 | how often its state was cleared before"""
    timestamp: Whole
    """as it is written; -1: none"""
    clock: Whole
    """0: not said"""
    pid: Whole
    """of the process that wrote it; 0: not said"""
    fields: Fields

    def messages(self, number: int) -> tuple[Whole, Whole, Whole]:
        """Packets with a message in a field: which, and where the message begins and ends."""
        rows = self.fields.rows(number, bytes=True)
        return self.fields.message[rows], self.fields.value[rows].astype(np.int64), self.fields.end[rows]


class PacketReader:
    def __init__(self, source: Source, making: Making, progress: Callable[[float], None]) -> None:
        self._source, self._making, self._progress = source, making, progress
        self._cleared: dict[int, int] = {}
        self._count = 0
        self._used: set[int] = set()
        self._unpacked = 0
        self.damaged = 0

    def batches(self, used: set[int]) -> Iterator[Packets]:
        """All packets. Fields of packets that are not among the `used` ones are counted."""
        self._used = used
        parts: list[bytes] = []
        spans: list[tuple[int, int]] = []
        size = 0
        for data, packets in self._chunks():
            spans += ((size + begin, size + end) for begin, end in packets)
            parts.append(data)
            size += len(data)
            if size >= _BATCH:
                yield self._batch(b"".join(parts), spans)
                parts, spans, size = [], [], 0
        if spans:
            yield self._batch(b"".join(parts), spans)

    def _chunks(self) -> Iterator[tuple[bytes, Spans]]:
        """Bytes, and where in them packets lie; packed ones are unpacked."""
        kept = b""
        for block, share in self._source.blocks(_BATCH):
            self._progress(share)
            data = kept + block if kept else block
            places = outline(data)
            yield from self._unpacked_chunks(data, places)
            if places.broken:
                self._making.note(f"the trace is damaged: {places.broken}, and the rest cannot be read")
                return
            kept = data[places.end :]
        if kept:
            self._making.note("the trace is cut short: its last packet is not whole")

    def _unpacked_chunks(self, data: bytes, places: Outline) -> Iterator[tuple[bytes, Spans]]:
        before = 0
        for place, begin, end in places.packed:
            yield from _piece(data, places.packets[before:place])
            before = place
            inner = self._unpack(data[begin:end])
            inside = outline(inner)
            self.damaged += len(inside.packed) + (inside.end < len(inner))
            yield inner, inside.packets
        yield from _piece(data, places.packets[before:])

    def _unpack(self, packed: bytes) -> bytes:
        """The bytes of a message with one field, which is packed with zlib."""
        batch = Batch(packed)
        unpacking = zlib.decompressobj()
        try:
            _, begin, end = next(each_field(batch, 0, len(packed)))
            data = unpacking.decompress(packed[begin:end], _LARGEST_UNPACKED)
        except (zlib.error, DamagedError, StopIteration):
            self.damaged += 1
            return b""
        self._unpacked += len(data)
        if unpacking.unconsumed_tail or self._unpacked > most_unpacked(self._source.size):
            raise AiflameError(f"{self._source.path} unpacks to far more than its size: no profiler writes such a file")
        return data

    def _batch(self, data: bytes, spans: Spans) -> Packets:
        batch = Batch(data)
        places = np.array(spans, dtype=np.int64)
        parsed = split(batch, places[:, 0], places[:, 1])
        count = len(places)
        self.damaged += parsed.damaged
        sequence = parsed.last(_SEQUENCE, count) & 0xFFFFFFFF
        cleared = (parsed.last(_FLAGS, count) & 1 > 0) | (parsed.last(_CLEARED, count) > 0)
        packets = Packets(
            batch,
            self._count,
            sequence,
            self._scopes(sequence, cleared),
            parsed.last(_TIMESTAMP, count, -1),
            parsed.last(_CLOCK, count) & 0xFFFFFFFF,
            parsed.last(_PID, count),
            parsed,
        )
        self._count += count
        self._count_others(parsed)
        return packets

    def _scopes(self, sequence: Whole, cleared: NDArray[np.bool_]) -> Whole:
        order = np.argsort(sequence, kind="stable")
        own, first, which = np.unique(sequence[order], return_index=True, return_inverse=True)
        times: Whole = np.cumsum(cleared[order])
        before: Whole = times[first] - cleared[order][first]
        since = np.array([self._cleared.get(one, 0) for one in own.tolist()], dtype=np.int64)
        times = times + (since - before)[which]
        last = np.append(first[1:], len(order)) - 1
        self._cleared.update(zip(own.tolist(), times[last].tolist(), strict=True))
        scope = np.empty(len(order), dtype=np.int64)
        scope[order] = times
        return sequence << 32 | scope

    def _count_others(self, parsed: Fields) -> None:
        number, count = np.unique(parsed.number, return_counts=True)
        for one, many in zip(number.tolist(), count.tolist(), strict=True):
            if one not in self._used and one not in _SILENT:
                self._making.unused[OTHERS.get(one, f"packets with field {one}")] += many


Spans = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Outline:
    packets: Spans
    packed: list[tuple[int, int, int]]
    """Packed packets: how many others come before each, its begin and its end."""
    end: int
    """of the last whole packet"""
    broken: str
    """Why nothing can be read behind `end`; empty: there is nothing wrong."""


def outline(data: bytes) -> Outline:
    """Where packets lie in the bytes of a trace."""
    packets: Spans = []
    packed: list[tuple[int, int, int]] = []
    at, end, broken = 0, len(data), ""
    while at + 1 < end:
        size, begin = data[at + 1], at + 2
        if size >= 0x80:
            size, begin = _size(data, begin, size & 0x7F)
        if data[at] != 0x0A:
            broken = f"{data[at]:#x} stands where a packet should begin"
        elif size > _LARGEST:
            broken = f"a packet has {size:,} bytes"
        if broken or begin + size > end:
            break
        if data[begin : begin + 2] == _COMPRESSED:
            packed.append((len(packets), begin, begin + size))
        else:
            packets.append((begin, begin + size))
        at = begin + size
    return Outline(packets, packed, at, broken)


def _size(data: bytes, at: int, size: int) -> tuple[int, int]:
    shift = 7
    for byte in data[at : at + 9]:
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, at
        shift += 7
    return size, len(data) + 1  # it goes on behind the end, or is absurd


def _piece(data: bytes, packets: Spans) -> Iterator[tuple[bytes, Spans]]:
    """Packets that lie one after another, with no more of the bytes around them than there must be."""
    if packets:
        first = packets[0][0]
        yield data[first : packets[-1][1]], [(begin - first, end - first) for begin, end in packets]

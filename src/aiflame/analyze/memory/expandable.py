"""The bytes that torch's caching allocator would have from the driver with expandable segments, by a model of its rules.

The model replays the recorded requests. It is believed where it first reproduces the recording: with the default rules each block must get
the address that it had.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence

import polars as pl

from aiflame.analyze.memory.caching_allocator import DefaultAllocator, ExpandableAllocator, segment_bytes
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.memory.blocks import NEVER, blocks
from aiflame.attribute.memory.live import OWNER
from aiflame.attribute.memory.segments import segments
from aiflame.values import dataclass

MOST_BLOCKS = 300_000
"""Of one process and memory: so many take five seconds."""
_SEGMENT_BEGINS, _FREED, _SEGMENT_ENDS, _ALLOCATED, _FREED_AT_ONCE = range(5)
"""The order of events of one moment."""
_ROUNDING = 512


@dataclass(frozen=True, slots=True)
class Request:
    key: object
    """The stream and the private pool: all that matters but the size."""
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """The most bytes that the allocator had from the driver."""

    memory: str
    peak: int
    then: int
    """With expandable segments."""


@once
def expandable(profile: Analysis) -> list[Reserved]:
    """For each process and memory whose recording the model reproduces."""
    every = segments(profile)
    if every.is_empty() or every["expandable"].any():
        return []
    rows = blocks(profile).filter(pl.col("address") > 0)
    own_segments = every.partition_by(OWNER, as_dict=True, maintain_order=True)
    estimates = []
    for owner, own in sorted(rows.partition_by(OWNER, as_dict=True).items()):
        if owner not in own_segments or len(own) > MOST_BLOCKS or int(own["begin_ns"].to_numpy().min(initial=1)) <= 0:
            continue
        peaks = replayed(list(_events(own, own_segments[owner])))
        if peaks:
            estimates.append(Reserved(str(owner[1]), *peaks))
    return estimates


Event = tuple[int, Request]
"""Its kind, and a block or a segment."""


def _events(own: pl.DataFrame, of_driver: pl.DataFrame) -> Iterator[Event]:
    """In the order of time."""
    marks: list[tuple[int, int, Request]] = []
    size = pl.max_horizontal("bytes", "block_bytes", pl.lit(1))
    sizes = own.select("address", (size + _ROUNDING - 1) // _ROUNDING * _ROUNDING, "begin_ns", "end_ns")
    for address, length, begin, end in sizes.rows():
        one = Request(None, address, length)
        marks.append((begin, _ALLOCATED, one))
        if end < NEVER:
            marks.append((end, _FREED if end > begin else _FREED_AT_ONCE, one))
    for stream, pool, address, length, begin, end in of_driver.select("stream", "pool", "address", "bytes", "begin_ns", "end_ns").rows():
        one = Request((stream, pool), address, length)
        marks.append((begin, _SEGMENT_BEGINS, one))
        if end < NEVER:
            marks.append((end, _SEGMENT_ENDS, one))
    marks.sort(key=lambda mark: mark[:2])
    return ((kind, one) for _, kind, one in marks)


def replayed(events: Sequence[Event]) -> tuple[int, int] | None:
    """The most bytes that the allocator had, and those with expandable segments; None: the model does not reproduce the recording."""
    default, other = DefaultAllocator(), ExpandableAllocator()
    there, first = dict[int, Request](), list[int]()
    live: dict[int, tuple[object, int]] = {}
    peak = then = 0
    gave_back = False
    for kind, one in events:
        if kind == _SEGMENT_BEGINS and one.address not in there:
            there[one.address] = one
            insort(first, one.address)
        elif kind == _ALLOCATED:
            near = bisect_right(first, one.address) - 1
            segment = there[first[near]] if near >= 0 else None
            if segment is None or one.address in live:
                return None
            held = default.held
            if default.allocate(segment.key, one.size, segment.address) != one.address:
                return None
            if default.held > held and segment_bytes(one.size) != segment.size:
                return None
            if gave_back:
                other.give_back()
                gave_back = False
            live[one.address] = segment.key, other.allocate(segment.key, one.size)
            peak, then = max(peak, default.held), max(then, other.held)
        elif kind in (_FREED, _FREED_AT_ONCE):
            if one.address not in live:
                return None
            key, address = live.pop(one.address)
            default.take_back(key, one.address, one.size)
            other.take_back(key, address, one.size)
        elif kind == _SEGMENT_ENDS:
            if not default.give_back(one.key, one.address, one.size):
                return None
            del there[one.address], first[bisect_right(first, one.address) - 1]
            gave_back = True
    return peak, then

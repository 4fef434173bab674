"""The segments of one device's memory, which torch's caching allocator has from the driver: from its trace, and from those that are there
when the trace ends."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiflame.exchange.readers.memory.replay import whole
from aiflame.exchange.readers.sampled.samples import Segment
from aiflame.values import replace

ROUNDING = 512
"""The allocator's blocks have a multiple of so many bytes."""
_TAKEN, _GIVEN_BACK = ("segment_alloc", "segment_map"), ("segment_free", "segment_unmap")
Row = Mapping[str, Any]


def rounded(size: int) -> int:
    return -(-max(size, 1) // ROUNDING) * ROUNDING


def segments(trace: Sequence[Row], moments: Sequence[int], at_end: Sequence[Row]) -> list[Segment]:
    """`moments`: of the events of the trace. `at_end`: the segments as the snapshot lists them. Parts of expandable ones are segments."""
    there, ended = _Ranges(), []
    for event, moment in zip(trace, moments, strict=False):
        action = event.get("action")
        if action not in _TAKEN and action not in _GIVEN_BACK:
            continue
        address, size, stream = (whole(event.get(name)) for name in ("addr", "size", "stream"))
        one = Segment(address, size, stream, expandable="map" in str(action))
        gone = there.taken_out(one.address, one.size)
        if action in _TAKEN:
            there.add(replace(one, begin=moment))
        ended += [replace(part, end=moment) for part in (gone or [one] if action in _GIVEN_BACK else gone)]
    listed = {whole(one.get("address")): one for one in at_end}
    traced = [replace(one, pool=_pool(listed.get(one.address, {}))) for one in there]
    return [*ended, *traced, *_older(at_end, there)]


class _Ranges:
    """Segments by their addresses, of which none covers another."""

    def __init__(self) -> None:
        self._at: dict[int, Segment] = {}
        self._order: list[int] = []

    def __iter__(self) -> Iterator[Segment]:
        return (self._at[address] for address in self._order)

    def add(self, one: Segment) -> None:
        if one.size:
            self._at[one.address] = one
            insort(self._order, one.address)

    def within(self, begin: int, size: int) -> list[Segment]:
        first = max(bisect_right(self._order, begin) - 1, 0)
        near = [self._at[address] for address in self._order[first : bisect_left(self._order, begin + size)]]
        return [one for one in near if one.address + one.size > begin]

    def taken_out(self, begin: int, size: int) -> list[Segment]:
        """Removes the range, and returns its segments or parts of them."""
        inside = []
        for one in self.within(begin, size):
            end, first, last = one.address + one.size, max(one.address, begin), min(one.address + one.size, begin + size)
            del self._at[one.address], self._order[bisect_left(self._order, one.address)]
            inside.append(replace(one, address=first, size=last - first))
            self.add(replace(one, size=first - one.address))
            self.add(replace(one, address=last, size=end - last))
        return inside


def _older(at_end: Sequence[Row], there: _Ranges) -> Iterator[Segment]:
    """Segments, or parts of them, that no event of the trace took from the driver."""
    for row in at_end:
        one = Segment(
            whole(row.get("address")), whole(row.get("total_size")), whole(row.get("stream")), _pool(row), bool(row.get("is_expandable"))
        )
        address, end = one.address, one.address + one.size
        for part in there.within(address, one.size):
            if part.address > address:
                yield replace(one, address=address, size=part.address - address)
            address = max(address, part.address + part.size)
        if end > address:
            yield replace(one, address=address, size=end - address)


def _pool(segment: Row) -> str:
    number = segment.get("segment_pool_id")
    parts = [whole(one) for one in number] if isinstance(number, (tuple, list)) and len(number) == 2 else []
    return ".".join(map(str, parts)) if any(parts) else ""

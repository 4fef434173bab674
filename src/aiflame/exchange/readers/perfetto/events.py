"""The track events of a trace, as columns: begins and ends of slices, moments, values of counters."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.perfetto.interned import Texts
from aiflame.exchange.readers.perfetto.many_messages import Fields, packed_numbers, split
from aiflame.exchange.readers.perfetto.packets import Packets
from aiflame.values import dataclass, field

EVENT = 11
BEGIN, END, INSTANT, COUNTER, STATE = 1, 2, 3, 4, 5
"""Kinds of events."""
_ANNOTATIONS, _LEGACY, _TYPE, _NAME_IID, _TRACK, _NAME, _CATEGORIES = 4, 6, 9, 10, 11, 23, 22
_CATEGORY_IID, _DELTA, _ABSOLUTE, _VALUE, _DOUBLE = 3, 1, 16, 30, 44
_FLOWS, _ENDING, _CORRELATION = (47, 36), (48, 42), 3000
_LEGACY_NUMBERS = {"legacy_name": 1, "phase": 2, "duration_us": 3, "unscoped": 6, "local": 10, "shared": 11, "pid": 18, "tid": 19}
_LEGACY_SCOPE = 7
_BIND_ID, _DIRECTION = 8, 13
_USED = {1, 3, 4, 6, 9, 10, 11, 16, 22, 23, 30, 44, 36, 42, 47, 48, 3000}
NAMES_OF_OTHERS = {
    2: "CPU time of slices",
    12: "values of extra counters",
    17: "CPU time of slices",
    31: "values of extra counters",
    33: "places in the source",
    34: "places in the source",
    45: "values of extra counters",
    46: "values of extra counters",
    52: "correlation ids",
    53: "correlation ids",
    54: "correlation ids",
    5: "places in the source",
    55: "callstacks of slices",
    56: "callstacks of slices",
    57: "weights of callstacks of slices",
    3001: "interfaces of GPUs",
}

NONE = -(1 << 63)
"""A number that an event lacks."""


@dataclass(slots=True)
class Events:
    """Rows of all events, in the order of the trace."""

    columns: dict[str, list[NDArray[np.generic]]] = field(default_factory=dict)
    flows: list[pl.DataFrame] = field(default_factory=list)
    """event, flow, ends"""
    correlations: list[pl.DataFrame] = field(default_factory=list)
    """event, work: calls that launched work of a GPU"""
    annotations: list[Annotations] = field(default_factory=list)
    unused: dict[str, int] = field(default_factory=dict)
    damaged: int = 0
    count: int = 0

    def add(self, packets: Packets, texts: Texts) -> None:
        packet, begin, end = packets.messages(EVENT)
        if not len(packet):
            return
        count = len(packet)
        parsed = split(packets.batch, begin, end)
        self.damaged += parsed.damaged
        columns = {
            "packet": packets.first + packet,
            "sequence": packets.sequence[packet],
            "scope": packets.scope[packet],
            "type": parsed.last(_TYPE, count),
            "track": parsed.last(_TRACK, count),
            "has_track": parsed.has(_TRACK, count),
            "name_iid": parsed.last(_NAME_IID, count),
            "name": self._texts(packets, parsed, _NAME, count, texts),
            "category_iid": _first(parsed, _CATEGORY_IID, count),
            "category": self._texts(packets, parsed, _CATEGORIES, count, texts),
            "delta_us": parsed.last(_DELTA, count, NONE),
            "absolute_us": parsed.last(_ABSOLUTE, count, NONE),
            "value": _values(parsed, count),
            **self._legacy(packets, parsed, count, texts),
        }
        for name, column in columns.items():
            self.columns.setdefault(name, []).append(column)
        self._add_links(packets, parsed)
        self._add_rest(packets, parsed, packet)
        self.count += count

    def take_table(self) -> pl.DataFrame:
        """The events, which are then no longer kept here: there may be millions."""
        columns, self.columns = self.columns, {}
        return pl.DataFrame({name: np.concatenate(columns.pop(name)) for name in list(columns)})

    def annotations_of(self, event: int) -> tuple[int, list[bytes]]:
        """The scope of an event, and its annotations."""
        part = self.annotations[bisect_right(self.annotations, event, key=lambda one: one.first) - 1] if self.annotations else None
        if part is None:
            return 0, []
        low, high = np.searchsorted(part.event, (event, event + 1))
        places = zip(part.begin[low:high].tolist(), part.end[low:high].tolist(), strict=True)
        scope = int(part.scope[low]) if high > low else 0
        return scope, [part.data[begin:end] for begin, end in places]

    def _texts(self, packets: Packets, parsed: Fields, number: int, count: int, texts: Texts) -> Whole:
        """The text in a field of each event, as a number; the first one counts, 0: none."""
        column = np.zeros(count, dtype=np.int64)
        rows = parsed.rows(number, bytes=True)[::-1]
        data = packets.batch.bytes
        column[parsed.message[rows]] = [
            texts.number(data[begin:end]) for begin, end in zip(parsed.value[rows].tolist(), parsed.end[rows].tolist(), strict=True)
        ]
        return column

    def _legacy(self, packets: Packets, parsed: Fields, count: int, texts: Texts) -> dict[str, NDArray[np.generic]]:
        """Facts of events as older versions write them."""
        columns = {name: np.full(count, NONE, dtype=np.int64) for name in _LEGACY_NUMBERS}
        columns["id_scope"] = np.zeros(count, dtype=np.int64)
        rows = parsed.rows(_LEGACY, bytes=True)
        if len(rows):
            inner = split(packets.batch, parsed.value[rows].astype(np.int64), parsed.end[rows])
            self.damaged += inner.damaged
            event = parsed.message[rows]
            for name, number in _LEGACY_NUMBERS.items():
                columns[name][event] = inner.last(number, len(rows), NONE)
            columns["id_scope"][event] = self._texts(packets, inner, _LEGACY_SCOPE, len(rows), texts)
            bound = np.flatnonzero(inner.has(_BIND_ID, len(rows)) & inner.has(_DIRECTION, len(rows)))
            if len(bound):
                flow = inner.last(_BIND_ID, len(rows))[bound].view(np.uint64)
                self.flows.append(pl.DataFrame({"event": self.count + event[bound], "flow": flow, "ends": np.full(len(bound), False)}))
        return {**columns}

    def _add_links(self, packets: Packets, parsed: Fields) -> None:
        for numbers, ends in ((_FLOWS, False), (_ENDING, True)):
            for number in numbers:
                rows: Whole = np.flatnonzero((parsed.number == number) & (parsed.end < 0))
                pairs = [(parsed.message[rows], parsed.value[rows])]
                pairs += _packed(packets, parsed, number, fixed=number == numbers[0])
                for event, flow in pairs:
                    if len(event):
                        self.flows.append(pl.DataFrame({"event": self.count + event, "flow": flow, "ends": np.full(len(event), ends)}))
        rows = parsed.rows(_CORRELATION, bytes=True)
        if len(rows):
            inner = split(packets.batch, parsed.value[rows].astype(np.int64), parsed.end[rows])
            plain = np.flatnonzero((inner.number == 1) & (inner.end < 0))
            for each, work in [(inner.message[plain], inner.value[plain]), *_packed(packets, inner, 1, fixed=False)]:
                self.correlations.append(pl.DataFrame({"event": self.count + parsed.message[rows][each], "work": work}))

    def _add_rest(self, packets: Packets, parsed: Fields, packet: Whole) -> None:
        rows = parsed.rows(_ANNOTATIONS, bytes=True)
        if len(rows):
            event, begin, end = parsed.message[rows], parsed.value[rows].astype(np.uint32), parsed.end[rows].astype(np.uint32)
            scope = packets.scope[packet[event]]
            self.annotations.append(Annotations(self.count, (event + self.count).astype(np.uint32), scope, begin, end, packets.batch.bytes))
        numbers, counts = np.unique(parsed.number, return_counts=True)
        for number, many in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number not in _USED:
                name = NAMES_OF_OTHERS.get(number, f"field {number} of track events")
                self.unused[name] = self.unused.get(name, 0) + many


@dataclass(frozen=True, slots=True)
class Annotations:
    """Those of the events of a batch, in the order of events."""

    first: int
    """number of the batch's first event"""
    event: NDArray[np.uint32]
    scope: Whole
    begin: NDArray[np.uint32]
    end: NDArray[np.uint32]
    data: bytes
    """Bytes of the batch, in which they lie."""


def _first(parsed: Fields, number: int, count: int) -> Whole:
    column = np.zeros(count, dtype=np.int64)
    rows = np.flatnonzero((parsed.number == number) & (parsed.end < 0))[::-1]
    column[parsed.message[rows]] = parsed.value[rows].view(np.int64)
    return column


def _values(parsed: Fields, count: int) -> NDArray[np.float64]:
    whole = parsed.last(_VALUE, count, NONE)
    values = np.where(whole == NONE, np.nan, whole.astype(np.float64))
    rows = np.flatnonzero((parsed.number == _DOUBLE) & (parsed.end < 0))
    values[parsed.message[rows]] = parsed.value[rows].view(np.float64)
    return values


def _packed(packets: Packets, parsed: Fields, number: int, *, fixed: bool) -> list[tuple[Whole, NDArray[np.uint64]]]:
    """Numbers of a repeated field that is packed: the messages, and the numbers."""
    rows = parsed.rows(number, bytes=True)
    pairs: list[tuple[Whole, NDArray[np.uint64]]] = []
    for message, begin, end in zip(parsed.message[rows].tolist(), parsed.value[rows].tolist(), parsed.end[rows].tolist(), strict=True):
        if fixed:
            values = np.frombuffer(packets.batch.bytes[begin : end - (end - begin) % 8], dtype="<u8").astype(np.uint64)
        else:
            values = np.array(packed_numbers(packets.batch, begin, end), dtype=np.uint64)
        pairs.append((np.full(len(values), message, dtype=np.int64), values))
    return pairs

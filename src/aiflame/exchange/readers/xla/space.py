"""An XSpace, the file of XLA's profilers: planes (a device, or the threads of a host), lines (a stream, or a thread) and events.

Names of events and stats are numbered in each plane. An event has stats of its own, and those of its name.
"""

from __future__ import annotations

from array import array
from collections import Counter

import numpy as np

from aiflame.attribute.arrays.types import Mask, Whole
from aiflame.errors import AiflameError
from aiflame.exchange.readers.protobuf import BYTES, DamagedError, Value, double, fields, message, signed, text, unsigned
from aiflame.exchange.readers.xla.wire import Bytes, Unsigned, bounds, places, walk
from aiflame.values import dataclass, field

Stat = str | int | float | memoryview

_MOST_PLANES, _MOST_LINES = 4096, 1 << 18
_MOST_BYTES = 1_750_000_000
_EVENT_BYTES, _STAT_BYTES = 250, 50
"""The memory that an event and a stat take until the profile is written, measured and rounded up; the file lies in memory, too."""
_LATEST = 1 << 61
_EVENTS_TAG = 4 << 3 | BYTES
_DOUBLE, _UINT, _INT, _TEXT, _BLOB, _REF = range(2, 8)


@dataclass(slots=True)
class Named:
    """Metadata of events."""

    name: str = ""
    display_name: str = ""
    stats: dict[str, Stat] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    id: int
    name: str
    begin_ns: int


@dataclass(slots=True)
class Plane:
    name: str
    lines: list[Line]
    named: list[Named]
    """The first is that of events without a known name."""
    stats: dict[str, Stat]
    line: Whole
    """For each event its row of `lines`; events are in the order of the file."""
    name_of: Whole
    """Row of `named`"""
    begin: Whole
    end: Whole
    aggregated: Mask
    """Events that stand for several, without a time."""
    names_of_stats: dict[int, str]
    _event: Whole
    """For each stat its event, sorted; then its name's id, the kind of its value, and the value."""
    _key: Whole
    _kind: Whole
    _value: Unsigned
    _size: Whole
    """Bytes of a text"""
    _data: bytes

    def __len__(self) -> int:
        return len(self.line)

    def check_rows(self, rows: int) -> None:
        """Before the events become so many rows."""
        check_size(len(self._data), rows, len(self._key))

    def stat_counts(self) -> Counter[str]:
        keys, counts = np.unique(self._key, return_counts=True)
        return Counter({self.names_of_stats.get(key, ""): count for key, count in zip(keys.tolist(), counts.tolist(), strict=True)})

    def texts(self, name: str, numbers: dict[str, int]) -> Whole:
        """The text of this stat for each event as a number in `numbers`, -1: none."""
        own = [self._number(named.stats.get(name), numbers) for named in self.named]
        values = np.array(own, dtype=np.int64)[self.name_of]
        which = self._places(name)
        ref = which[self._kind[which] == _REF]
        keys, inverse = np.unique(self._value[ref], return_inverse=True)
        refs = [self._number(self.names_of_stats.get(int(key)), numbers) for key in keys.tolist()]
        values[self._event[ref]] = np.array(refs, dtype=np.int64)[inverse]
        for at in which[self._kind[which] == _TEXT].tolist():
            value = self._data[int(self._value[at]) : int(self._value[at]) + int(self._size[at])].decode("utf-8", "replace")
            values[self._event[at]] = numbers.setdefault(value, len(numbers))
        return values

    def numbers(self, name: str, otherwise: int = 0) -> Whole:
        """The number of this stat for each event."""
        own = [
            int(value) if isinstance(value := named.stats.get(name), int) and abs(value) < 1 << 63 else otherwise for named in self.named
        ]
        values = np.array(own, dtype=np.int64)[self.name_of]
        which = self._places(name)
        which = which[(self._kind[which] == _INT) | (self._kind[which] == _UINT)]
        values[self._event[which]] = self._value[which].view(np.int64)
        return values

    def has(self, name: str) -> Mask:
        own = np.array([name in named.stats for named in self.named], dtype=np.bool_)[self.name_of]
        own[self._event[self._places(name)]] = True
        return own

    def _places(self, name: str) -> Whole:
        keys = [key for key, text in self.names_of_stats.items() if text == name]
        return np.flatnonzero(np.isin(self._key, keys))

    @staticmethod
    def _number(value: object, numbers: dict[str, int]) -> int:
        return numbers.setdefault(value, len(numbers)) if isinstance(value, str) and value else -1


@dataclass(slots=True)
class Space:
    planes: list[Plane]
    hosts: list[str]
    remarks: list[str]
    """Errors and warnings of the profiler."""


@dataclass(slots=True)
class _Draft:
    """A plane before its events are read."""

    name: str = ""
    lines: list[Line] = field(default_factory=list)
    named: list[Named] = field(default_factory=lambda: [Named("[unknown event]")])
    numbers: dict[int, int] = field(default_factory=dict)
    names_of_stats: dict[int, str] = field(default_factory=dict)
    stats: dict[str, Stat] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    """Events of each line."""


def check_size(data: int, events: int, stats: int = 0) -> None:
    if data + events * _EVENT_BYTES + stats * _STAT_BYTES > _MOST_BYTES:
        much = f"{events:,} events{f' with {stats:,} stats' if stats else ''}"
        raise AiflameError(f"the trace has {much} or more, whose import takes more than 2 GB of memory: record a shorter time")


def read_space(data: bytes) -> Space:
    drafts: list[_Draft] = []
    hosts, remarks = [], []
    begins, ends = places(), places()
    others: list[tuple[int, int]] = []
    view = memoryview(data)
    for begin, end in zip(*bounds(data, 0, len(data), 1 << 3 | BYTES, others), strict=True):
        if len(drafts) == _MOST_PLANES:
            raise DamagedError(f"it has more than {_MOST_PLANES:,} planes")
        drafts.append(_plane(data, begin, end, begins, ends))
    for begin, end in others:
        for number, value in fields(view[begin:end]):
            if number in (2, 3):
                remarks.append(text(value))
            elif number == 4:
                hosts.append(text(value))
    return Space(_with_events(data, drafts, np.array(begins), np.array(ends)), hosts, remarks)


def _plane(data: bytes, at: int, until: int, begins: array[int], ends: array[int]) -> _Draft:
    draft = _Draft()
    view = memoryview(data)
    others: list[tuple[int, int]] = []
    lines = bounds(data, at, until, 3 << 3 | BYTES, others)
    named, stats = [], []
    for begin, end in others:
        for number, value in fields(view[begin:end]):
            if number == 2:
                draft.name = text(value)
            elif number == 4:
                named.append(message(value))
            elif number == 5:
                key, entry = _entry(value)
                draft.names_of_stats[key] = _member(entry, 2)
            elif number == 6:
                stats.append(message(value))
    draft.stats = _stats(stats, draft.names_of_stats)
    for entry in named:
        key, value = _entry(entry)
        draft.numbers[key] = len(draft.named)
        draft.named.append(_named(value, draft.names_of_stats))
    for begin, end in zip(*lines, strict=True):
        if len(draft.lines) == _MOST_LINES:
            raise DamagedError(f"a plane has more than {_MOST_LINES:,} lines")
        parts: list[tuple[int, int]] = []
        events = bounds(data, begin, end, _EVENTS_TAG, parts)
        begins += events[0]
        ends += events[1]
        check_size(len(data), len(begins))
        draft.counts.append(len(events[0]))
        draft.lines.append(_line(view, parts))
    return draft


def _entry(value: Value) -> tuple[int, memoryview]:
    """Key and value of an entry of a map."""
    key, content = 0, memoryview(b"")
    for number, part in fields(message(value)):
        if number == 1:
            key = signed(part)
        elif number == 2:
            content = message(part)
    return key, content


def _member(value: memoryview, wanted: int) -> str:
    return next((text(part) for number, part in fields(value) if number == wanted), "")


def _line(view: memoryview, parts: list[tuple[int, int]]) -> Line:
    number_of, name, shown, begin_ns = 0, "", "", 0
    for begin, end in parts:
        for number, value in fields(view[begin:end]):
            if number == 1:
                number_of = signed(value)
            elif number == 2:
                name = text(value)
            elif number == 11:
                shown = text(value)
            elif number == 3:
                begin_ns = signed(value)
    return Line(number_of, name or shown, max(-_LATEST, min(begin_ns, _LATEST)))


def _named(value: memoryview, names: dict[int, str]) -> Named:
    named, stats = Named(), []
    for number, part in fields(value):
        if number == 2:
            named.name = text(part)
        elif number == 4:
            named.display_name = text(part)
        elif number == 5:
            stats.append(message(part))
    named.stats = _stats(stats, names)
    return named


def _stats(parts: list[memoryview], names: dict[int, str]) -> dict[str, Stat]:
    stats: dict[str, Stat] = {}
    for part in parts:
        key, value = 0, None
        for number, content in fields(part):
            if number == 1:
                key = signed(content)
            else:
                value = _value(number, content, names)
        if value is not None and key in names:
            stats[names[key]] = value
    return stats


def _value(number: int, content: Value, names: dict[int, str]) -> Stat | None:
    if number == _DOUBLE:
        return double(content)
    if number == _UINT:
        return unsigned(content)
    if number == _INT:
        return signed(content)
    if number == _TEXT:
        return text(content)
    if number == _BLOB:
        return message(content)
    return names.get(unsigned(content)) if number == _REF else None


def _with_events(data: bytes, drafts: list[_Draft], begins: Whole, ends: Whole) -> list[Plane]:
    raw: Bytes = np.frombuffer(data, dtype=np.uint8)
    count = len(begins)
    name, offset, duration = (np.zeros(count, dtype=np.int64) for _ in range(3))
    aggregated = np.zeros(count, dtype=np.bool_)
    stats: list[tuple[Whole, Whole, Whole]] = []
    many = 0
    for step in walk(raw, begins, ends):
        for number, column in ((1, name), (2, offset), (3, duration)):
            which = (step.number == number) & (step.wire != BYTES)
            column[step.row[which]] = step.value[which].view(np.int64)
        aggregated[step.row[step.number == 5]] = True
        which = (step.number == 4) & (step.wire == BYTES)
        stats.append((step.row[which], step.value[which].astype(np.int64), step.end[which]))
        many += int(which.sum())
        check_size(len(data), count, many)
    event, stat_begin, stat_end = _joined(stats)
    del stats
    order = np.argsort(event, kind="stable")
    event, stat_begin, stat_end = event[order], stat_begin[order], stat_end[order]
    del order
    key, kind, size = (np.zeros(len(event), dtype=of) for of in (np.int64, np.uint8, np.uint32))
    value = np.zeros(len(event), dtype=np.uint64)
    for step in walk(raw, stat_begin, stat_end):
        which = step.number == 1
        key[step.row[which]] = step.value[which].view(np.int64)
        which = (step.number >= _DOUBLE) & (step.number <= _REF) & ((step.wire == BYTES) == np.isin(step.number, (_TEXT, _BLOB)))
        row = step.row[which]
        kind[row], value[row] = step.number[which], step.value[which]
        size[row] = np.where(step.wire[which] == BYTES, step.end[which] - step.value[which].view(np.int64), 0)
    planes = []
    first = 0
    for draft in drafts:
        last = first + sum(draft.counts)
        some = slice(first, last)
        here = slice(*np.searchsorted(event, (first, last)).tolist())
        line = np.repeat(np.arange(len(draft.lines)), draft.counts)
        at_ns = np.array([line.begin_ns for line in draft.lines], dtype=np.int64)[line] + offset[some] // 1000
        keys, inverse = np.unique(name[some], return_inverse=True)
        rows = np.array([draft.numbers.get(number, 0) for number in keys.tolist()], dtype=np.int64)
        planes.append(
            Plane(
                draft.name,
                draft.lines,
                draft.named,
                draft.stats,
                line,
                rows[inverse],
                at_ns,
                at_ns + (offset[some] % 1000 + np.clip(duration[some], 0, _LATEST)) // 1000,
                aggregated[some],
                draft.names_of_stats,
                event[here] - first,
                key[here],
                kind[here],
                value[here],
                size[here],
                data,
            )
        )
        first = last
    return planes


def _joined(parts: list[tuple[Whole, Whole, Whole]]) -> tuple[Whole, Whole, Whole]:
    none = np.zeros(0, dtype=np.int64)
    first, second, third = (np.concatenate([none, *(part[at] for part in parts)]) for at in range(3))
    return first, second, third

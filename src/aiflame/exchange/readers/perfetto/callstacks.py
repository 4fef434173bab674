"""Samples with callstacks: of threads (StackSample, PerfSample, Chromium's sampling profiler), and heap profiles as metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePath

import numpy as np
import polars as pl

from aiflame.exchange.readers.devices.trace import SAMPLES, VALUES, shaped
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.perfetto.contents import PERF_SAMPLE, PROFILE, STACK_SAMPLE, STREAMED_PROFILE, SYMBOLS, Kept
from aiflame.exchange.readers.perfetto.events import NONE
from aiflame.exchange.readers.perfetto.interned import (
    BUILD_IDS,
    CALLSTACKS,
    COUNTERS,
    EXECUTIONS,
    FRAMES,
    FUNCTIONS,
    MAPPINGS,
    PATHS,
    SOURCES,
    TASKS,
)  # fmt: skip
from aiflame.exchange.readers.perfetto.meaning import Meaning
from aiflame.exchange.readers.protobuf import DamagedError, Value, fields, message, numbers, signed, text, unsigned
from aiflame.exchange.readers.sampled.samples import DEEPEST, native_kind
from aiflame.profile.schema.kinds import Kind

_CPU, _WALL = 0, 1
_MOST_LINE = (1 << 31) - 2
_UNITS = {1: "ns", 2: "cycles", 3: "instructions", 4: "bytes", 5: "page faults", 6: "cache misses", 7: "cache references"}
_UNITS |= {8: "branch misses", 9: "samples"}
_NANOSECONDS, _CPU_CLOCKS = 1, (1, 10, 11)  # perf_events.proto: SW_CPU_CLOCK; 0: the kernel's own choice
_HEAP = ((2, "allocated", "bytes"), (3, "freed", "bytes"), (5, "allocations", "count"), (6, "frees", "count"), (8, "most", "bytes"))
_KINDS = {2: Kind.OS_KERNEL}


class _Stacks:
    """Callstacks by their numbers, as rows of `chains`."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._interned = meaning.contents.interned
        self._symbols = _symbols(meaning)
        self._frames: dict[tuple[int, int], tuple[AnyFrame, ...]] = {}
        self._stacks: dict[tuple[int, int], list[int]] = {}
        self._profiles: Mapping[int, Mapping[tuple[int, int], bytes]] = {}
        self._strings: dict[tuple[int, int], bytes] = {}
        self.unknown = 0

    def of_profile(self, scope: int, tables: Mapping[int, Mapping[tuple[int, int], bytes]], strings: dict[tuple[int, int], bytes]) -> None:
        """From here on callstacks are those of heap profiles, which have tables of their own."""
        self._profiles, self._strings = tables, strings
        self._frames.clear()
        self._stacks.clear()

    def chain(self, pid: int, scope: int, iid: int) -> int:
        frames = self._stacks.get((scope, iid))
        if frames is None:
            data = self._table(CALLSTACKS).get((scope, iid))
            self.unknown += data is None
            ids = [one for number, value in fields(data) if number == 2 for one in numbers(value)] if data is not None else []
            if len(ids) > DEEPEST:
                raise DamagedError(f"a stack has {len(ids):,} frames")
            frames = [self._meaning.trace.frames.number(frame) for one in ids for frame in self._frame(scope, one)]
            self._stacks[scope, iid] = frames
        return self._meaning.chain(pid, frames)

    def inline_chain(self, pid: int, data: Value) -> int:
        """A stack that is written out: its frames with names and places, outermost first."""
        frames = []
        for number, value in fields(message(data)):
            if number == 1:
                given = dict(fields(message(value)))
                name, file = (text(given[key]) if key in given else "" for key in (1, 2))
                frames.append(_named(name, file, unsigned(given.get(3, 0)), "", Kind.C))
        if len(frames) > DEEPEST:
            raise DamagedError(f"a stack has {len(frames):,} frames")
        return self._meaning.chain(pid, (self._meaning.trace.frames.number(one) for one in frames))

    def _table(self, field: int) -> Mapping[tuple[int, int], bytes]:
        return self._profiles.get(field) or self._interned.whole(field)

    def _text(self, field: int, scope: int, iid: int) -> str:
        own = self._strings.get((scope, iid))
        return own.decode("utf-8", "replace") if own is not None else self._interned.text(field, scope, iid)

    def _frame(self, scope: int, iid: int) -> tuple[AnyFrame, ...]:
        """A frame, with those that were inlined into it behind it."""
        frames = self._frames.get((scope, iid))
        if frames is None:
            data = self._table(FRAMES).get((scope, iid))
            self.unknown += data is None
            frames = self._frames[scope, iid] = (NamedFrame("[unknown]"),) if data is None else self._read(scope, data)
        return frames

    def _read(self, scope: int, data: bytes) -> tuple[AnyFrame, ...]:
        given = dict(fields(data))
        function, mapping, address = (unsigned(given.get(key, 0)) for key in (2, 3, 4))
        name = self._text(FUNCTIONS, scope, function) if function else ""
        file = self._text(SOURCES, scope, unsigned(given[5])) if 5 in given else ""
        where = self._table(MAPPINGS).get((scope, mapping))
        parts = list(fields(where)) if where is not None else []
        paths = [one for number, value in parts if number == 7 for one in numbers(value)]
        module = "/".join(self._text(PATHS, scope, one).strip("/") for one in paths)
        build = next((self._text(BUILD_IDS, scope, unsigned(value)) for number, value in parts if number == 2), "")
        own = PurePath(module).name
        kind = _KINDS.get(unsigned(given[7]), Kind.C) if isinstance(given.get(7), int) else Kind.C
        lines = self._symbols.get((build, address), ()) if build else ()
        if lines:
            return tuple(_named(called or name, source, line, own, kind) for called, source, line in reversed(lines))
        return (_named(name or (f"0x{address:x}" if address else "[unknown]"), file, unsigned(given.get(6, 0)), own, kind),)


def _named(name: str, file: str, line: int, module: str, kind: Kind) -> AnyFrame:
    line = min(line, _MOST_LINE)
    if file.endswith(".py"):
        return PythonFrame(name, file, 0, line)
    return NamedFrame(name or "[unknown]", native_kind(name) if kind == Kind.C else kind, module, file, line)


def _symbols(meaning: Meaning) -> dict[tuple[str, int], tuple[tuple[str, str, int], ...]]:
    """Names of addresses by build id, innermost first."""
    symbols: dict[tuple[str, int], tuple[tuple[str, str, int], ...]] = {}
    for kept in meaning.contents.kept[SYMBOLS]:
        try:
            parts = list(fields(kept.message))
            build = next((text(value) for number, value in parts if number == 2), "")
            for number, value in parts:
                if number == 3:
                    inner = list(fields(message(value)))
                    address = next((unsigned(one) for key, one in inner if key == 1), 0)
                    lines = [dict(fields(message(one))) for key, one in inner if key == 2]
                    symbols[build, address] = tuple(
                        (text(one[1]) if 1 in one else "", text(one[2]) if 2 in one else "", unsigned(one.get(3, 0))) for one in lines
                    )
        except DamagedError:  # noqa: PERF203 (the others are sound)
            meaning.contents.damaged += 1
    return symbols


def add(meaning: Meaning) -> None:
    samples = _Samples(meaning)
    for number, read in ((STACK_SAMPLE, samples.stack), (PERF_SAMPLE, samples.perf), (STREAMED_PROFILE, samples.streamed)):
        for kept in meaning.contents.kept[number]:
            try:
                read(kept)
            except DamagedError:  # noqa: PERF203 (the others are sound)
                meaning.contents.damaged += 1
    samples.heap()
    samples.finish()


class _Samples:
    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._stacks = _Stacks(meaning)
        self._rows: list[tuple[int, int, int | None, int, int, int, int]] = []
        self._values: list[tuple[int, int, int, int, int]] = []
        self._kinds: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[int, int], int] = {}

    def stack(self, kept: Kept) -> None:
        """A StackSample: its first weight is time, or like the others a metric."""
        given = list(fields(kept.message))
        one = dict(given)
        task = self._part(one, 1, 2, TASKS, kept)
        place = self._part(one, 3, 4, EXECUTIONS, kept)
        pid, tid = unsigned(task.get(2, 0)), unsigned(task.get(3, 0))
        chain = self._stacks.inline_chain(pid, one[5]) if 5 in one else self._stacks.chain(pid, kept.scope, unsigned(one.get(6, 0)))
        given_defaults = self._meaning.contents.defaults_of(kept).get(100)
        defaults = list(fields(given_defaults)) if isinstance(given_defaults, bytes) else []
        first = self._part(one, 9, 10, COUNTERS, kept) or next((dict(fields(message(v))) for n, v in defaults if n == 2), {})
        others = [dict(fields(message(value))) for number, value in given if number == 12]
        iids = [iid for number, value in given if number == 13 for iid in numbers(value)]
        table = self._meaning.contents.interned.whole(COUNTERS)
        others += [dict(fields(table.get((kept.scope, iid), b""))) for iid in iids]
        others = others or [dict(fields(message(value))) for number, value in defaults if number == 3]
        weights = [value for number, values in given if number == 14 for value in numbers(values)]
        for descriptor, weight in [(first, unsigned(one.get(11, 1))), *zip(others, weights, strict=False)]:
            self._weigh(kept, pid, tid, chain, descriptor, weight, unsigned(place.get(2, 0)))

    def _weigh(self, kept: Kept, pid: int, tid: int, chain: int, descriptor: Mapping[int, Value], weight: int, cpu: int) -> None:
        name = text(descriptor[2]) if 2 in descriptor else "samples"
        unit = unsigned(descriptor.get(3, 0))
        amount = weight * (unsigned(descriptor.get(5, 1)) or 1)
        if unit == _NANOSECONDS and ("wall" in name.lower() or "cpu" in name.lower() or name == "samples"):
            self._time(kept, pid, tid, chain, amount, cpu, _WALL if "wall" in name.lower() else _CPU)
        else:
            self._value(pid, chain, name, text(descriptor[4]) if 4 in descriptor else _UNITS.get(unit, "count"), amount)

    def _part(self, one: Mapping[int, Value], inline: int, iid: int, field: int, kept: Kept) -> dict[int, Value]:
        if inline in one:
            return dict(fields(message(one[inline])))
        data = self._meaning.contents.interned.whole(field).get((kept.scope, unsigned(one.get(iid, 0))))
        return dict(fields(data)) if data is not None else {}

    def perf(self, kept: Kept) -> None:
        """A sample of perf: CPU time where a clock was sampled so many times a second, else a number of events."""
        one = dict(fields(kept.message))
        if 4 not in one:
            self._meaning.making.unused["samples of perf without a stack"] += 1
            return
        pid, tid = unsigned(one.get(2, 0)), unsigned(one.get(3, 0))
        chain = self._stacks.chain(pid, kept.scope, unsigned(one[4]))
        given = self._meaning.contents.defaults_of(kept).get(12)
        base = next((dict(fields(message(v))) for n, v in fields(given) if n == 1), {}) if isinstance(given, bytes) else {}
        often, counter = unsigned(base.get(2, 0)), unsigned(base.get(4, 0))
        if 0 < often <= 10**6 and counter in (0, *_CPU_CLOCKS):
            self._time(kept, pid, tid, chain, 10**9 // often, unsigned(one.get(1, 0)), _CPU)
        else:
            self._value(pid, chain, "samples", "samples", 1)

    def streamed(self, kept: Kept) -> None:
        """Samples of Chromium's profiler of its threads: each stands for the time since the one before it."""
        given = list(fields(kept.message))
        iids = [one for number, value in given if number == 1 for one in numbers(value)]
        deltas = [signed(one) for number, value in given if number == 2 for one in numbers(value)]
        pid, tid = self._thread(kept)
        at = int(self._meaning.contents.time_of(np.array([kept.packet]))[0])
        if at == NONE:
            at = self._meaning.contents.tracks.references.get(kept.sequence, 0) * 1000
        for number, iid in enumerate(iids):
            at += max(min(deltas[number] if number < len(deltas) else 0, 1 << 40), 0) * 1000
            before = self._last.get((pid, tid), at)
            self._last[pid, tid] = at
            chain = self._stacks.chain(pid, kept.scope, iid)
            self._rows.append((pid, tid, at, chain, min(max(at - before, 0), 0xFFFFFFFF), 0, _WALL))

    def _thread(self, kept: Kept) -> tuple[int, int]:
        contents = self._meaning.contents
        if kept.sequence in contents.tracks.of_sequences:
            return contents.tracks.of_sequences[kept.sequence]
        events = contents.defaults_of(kept).get(11)
        uuid = next((unsigned(v) for n, v in fields(events) if n == 11), 0) if isinstance(events, bytes) else 0
        place = contents.tracks.place(uuid)
        return place.pid, place.tid

    def heap(self) -> None:
        """Heap profiles: bytes and numbers of allocations of each stack, as the last dump of a process has them."""
        kept_all = self._meaning.contents.kept[PROFILE]
        tables: dict[int, dict[tuple[int, int], bytes]] = {FRAMES: {}, CALLSTACKS: {}, MAPPINGS: {}}
        strings: dict[tuple[int, int], bytes] = {}
        places = {2: FRAMES, 3: CALLSTACKS, 4: MAPPINGS}
        for kept in kept_all:
            for number, value in _sound(self._meaning, kept.message):
                if number in (1, 2, 3, 4) and not isinstance(value, int):
                    given = dict(_sound(self._meaning, bytes(value)))
                    key = kept.scope, _iid(given)
                    if number == 1:
                        strings[key] = bytes(given.get(2, b"")) if not isinstance(given.get(2, b""), int) else b""
                    else:
                        tables[places[number]][key] = bytes(value)
        if not kept_all:
            return
        self._stacks.of_profile(0, tables, strings)
        dumps: dict[tuple[int, str, int], list[tuple[int, bytes]]] = defaultdict(list)
        for kept in kept_all:
            try:
                for number, value in fields(kept.message):
                    if number == 5:
                        self._dump(kept, bytes(message(value)), dumps)
            except DamagedError:  # noqa: PERF203 (the others are sound)
                self._meaning.contents.damaged += 1
        latest = {(pid, heap): max(moment for one, of, moment in dumps if (one, of) == (pid, heap)) for pid, heap, _ in dumps}
        for (pid, heap, moment), samples in dumps.items():
            if latest[pid, heap] != moment:
                self._meaning.making.unused["earlier dumps of heap profiles"] += 1
                continue
            for scope, data in samples:
                self._heap_sample(pid, heap, scope, data)

    def _dump(self, kept: Kept, data: bytes, dumps: dict[tuple[int, str, int], list[tuple[int, bytes]]]) -> None:
        given = list(fields(data))
        pid = next((unsigned(value) for number, value in given if number == 1), 0)
        heap = next((text(value) for number, value in given if number == 11), "")
        moment = next((unsigned(value) for number, value in given if number == 9), 0)
        dumps[pid, heap, moment] += ((kept.scope, bytes(message(value))) for number, value in given if number == 2)

    def _heap_sample(self, pid: int, heap: str, scope: int, data: bytes) -> None:
        try:
            one = {number: unsigned(value) for number, value in fields(data)}
            chain = self._stacks.chain(pid, scope, one.get(1, 0))
        except DamagedError:
            self._meaning.contents.damaged += 1
            return
        for number, name, unit in _HEAP:
            if one.get(number):
                self._value(pid, chain, name if heap in ("", "libc.malloc") else f"{name} ({heap})", unit, one[number])

    def _time(self, kept: Kept, pid: int, tid: int, chain: int, ns: int, cpu: int, clock: int) -> None:
        at = int(self._meaning.contents.time_of(np.array([kept.packet]))[0])
        self._rows.append((pid, tid, None if at == NONE else at, chain, min(ns, 0xFFFFFFFF), cpu & 0xFFFF, clock))

    def _value(self, pid: int, chain: int, name: str, unit: str, amount: int) -> None:
        kind = self._kinds.setdefault((name, unit), len(self._kinds))
        self._values.append((pid, chain, kind, min(amount, 1 << 59), -1))

    def finish(self) -> None:
        trace = self._meaning.trace
        if self._rows:
            names = ("pid", "tid", "time", "chain", "period", "cpu", "clock")
            rows = pl.DataFrame(self._rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
            rows = shaped(rows.with_columns(waiting=pl.lit(False)), SAMPLES)
            trace.samples = pl.concat([trace.samples, rows])
        if self._values:
            trace.values = pl.DataFrame(self._values, schema=dict(VALUES), orient="row")
            trace.value_kinds = list(self._kinds)
        if self._stacks.unknown:
            self._meaning.making.note(f"{self._stacks.unknown:,} stacks or frames that the trace refers to are not in it")


def _sound(meaning: Meaning, data: bytes) -> Iterator[tuple[int, Value]]:
    try:
        yield from fields(data)
    except DamagedError:
        meaning.contents.damaged += 1


def _iid(given: Mapping[int, Value]) -> int:
    value = given.get(1, 0)
    return value if isinstance(value, int) else 0

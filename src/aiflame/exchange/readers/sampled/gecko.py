"""Firefox's profiles, as the browser, samply and the Firefox Profiler write them: raw (tables with a schema) or processed (columns).

Samples are taken at an interval by the clock; where it says how much CPU time a thread used since the last one, that is CPU time, and a
sample in which it used none is one in which it waited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.json_document import begins_object, document, file_of, item, mapping, number, scaled, sequence, text, whole
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.samples import CPU, DEEPEST, NO_TIME, WALL, Sampled, native_kind
from aiflame.exchange.readers.source import Source
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

_MARKS = (b'"stackTable"', b'"preprocessedProfileVersion"', b'"sampleUnits"', b'"profilingLog"', b'"Recorded Performance Data"')
_TO_NS = {"ns": 1, "µs": 10**3, "μs": 10**3, "us": 10**3, "ms": 10**6}
_MS = 10**6
_YEAR_2001_MS = 10**12
_JS = re.compile(r"^(?P<name>.*?) ?\((?P<url>[^()]*?):(?P<line>\d{1,9})(?::\d{1,9})?\)$", re.DOTALL)
_NATIVE = re.compile(r"^(?P<name>.+) \(in (?P<library>[^()]+)\)")
_MOST_LINE = (1 << 31) - 1
_MOST_PROCESSES = 4096
_ALLOCATIONS = ("jsAllocations", "nativeAllocations")


def is_one(head: bytes) -> bool:
    return begins_object(head) and any(mark in head for mark in _MARKS)


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    file = document(source)
    progress(0.4)
    if text(file.get("fileType")) == "Recorded Performance Data":
        file = mapping(file.get("profile"))
    reading = _Reading(making, file)
    threads = list(_threads(file))
    if not threads:
        raise AiflameError(f"{source.path} is a profile of Firefox without threads")
    for at, (of_process, thread) in enumerate(threads):
        reading.thread(of_process, thread)
        progress(0.4 + 0.5 * at / len(threads))
    reading.finish()


def _threads(file: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each thread with the document of its process: raw profiles have documents within the document."""
    ahead, seen = [file], 0
    while ahead:
        own = ahead.pop(0)
        seen += 1
        if seen > _MOST_PROCESSES:
            raise AiflameError(f"the file has more than {_MOST_PROCESSES:,} processes")
        given = own.get("threads")
        yield from ((own, mapping(one)) for one in (given.values() if isinstance(given, dict) else sequence(given)))
        ahead += [mapping(one) for one in sequence(own.get("processes"))]


@dataclass(slots=True)
class _Table:
    """A table of a thread: columns by name, in both forms."""

    columns: dict[str, list[Any]]
    length: int

    @staticmethod
    def of(given: object) -> _Table:
        table = mapping(given)
        if "schema" in table:
            rows = [sequence(row) for row in sequence(table.get("data"))]
            places = {name: at for name, at in mapping(table["schema"]).items() if isinstance(at, int) and 0 <= at < 64}
            return _Table({name: [item(row, at) for row in rows] for name, at in places.items()}, len(rows))
        columns = {name: value for name, value in table.items() if isinstance(value, list)}
        return _Table(columns, max((len(one) for one in columns.values()), default=0))

    def at(self, column: str, row: int) -> Any:
        return item(self.columns.get(column, []), row)


class _Reading:
    def __init__(self, making: Making, file: dict[str, Any]) -> None:
        self.making = making
        self.rows = Sampled(making)
        self.shared = mapping(file.get("shared"))
        self.meta = mapping(file.get("meta"))
        self.libraries = sequence(file.get("libs"))
        self.units = mapping(self.meta.get("sampleUnits"))
        self.interval = max(scaled(self.meta.get("interval", 1), _MS), 0)
        self.began = number(self.meta.get("startTime")) or 0
        self._damaged = self._unknown_cycles = 0
        self._first: int | None = None

    def thread(self, document_of: dict[str, Any], thread: dict[str, Any]) -> None:
        own = mapping(document_of.get("meta"))
        began = number(own.get("startTime"))
        shift = scaled(began - self.began, _MS) if began is not None else 0
        pid = re.match(r"\d{1,10}", str(thread.get("pid") or own.get("pid") or ""))
        name = text(thread.get("processName")) or text(own.get("product")) or text(self.meta.get("product"))
        self._process = self.rows.process(int(pid[0]) if pid else 0, name)
        tid = re.match(r"\d{1,10}", str(thread.get("tid", "")))
        self._thread = self.rows.thread(self._process, int(tid[0]) if tid else 0, text(thread.get("name")))
        calls = self._calls(thread, document_of)
        self._samples(_Table.of(thread.get("samples")), calls, shift, text(mapping(thread.get("samples")).get("weightType")))
        for name in _ALLOCATIONS:
            self._allocations(name, _Table.of(thread.get(name)), calls, shift)
        self.making.unused["markers"] += _Table.of(thread.get("markers")).length

    def finish(self) -> None:
        making = self.making
        if self._damaged:
            making.note(f"{self._damaged:,} references of the file lead nowhere, or in a circle: they are called [unknown]")
        if self._unknown_cycles:
            making.note("the file has CPU time of threads in cycles of unknown length: it is left out")
        if self.began > _YEAR_2001_MS and self._first is not None:
            making.realtime_ns = scaled(self.began, _MS) + self._first
        self.rows.finish()

    def _calls(self, thread: dict[str, Any], document_of: dict[str, Any]) -> list[int]:
        """The innermost call of each row of the thread's stacks."""
        stacks, frames = _Table.of(self._table(thread, "stackTable")), _Table.of(self._table(thread, "frameTable"))
        names = _Names(self, thread, document_of, frames)
        calls, depths = [-1] * stacks.length, [0] * stacks.length
        for row in range(stacks.length):
            above, frame = stacks.at("prefix", row), stacks.at("frame", row)
            back = stacks.at("prefixOffset", row)  # since version 66: rows to go back, 0 for none
            if isinstance(back, int) and not isinstance(back, bool) and back:
                above = row - back
            if isinstance(above, int) and not isinstance(above, bool) and 0 <= above < row:
                depths[row] = depths[above] + 1
                if depths[row] > DEEPEST:
                    raise AiflameError(f"a stack of the file has more than {DEEPEST:,} frames")
            elif above is not None and above != -1:
                self._damaged += 1
                above = None
            exists = isinstance(frame, int) and not isinstance(frame, bool) and 0 <= frame < frames.length
            self._damaged += not exists
            calls[row] = self.rows.numbered_call(
                self._process, calls[above] if above not in (None, -1) else -1, names.of(frame if exists else -1)
            )
        return calls

    def _table(self, thread: dict[str, Any], name: str) -> object:
        return thread.get(name, self.shared.get(name))

    def _samples(self, samples: _Table, calls: list[int], shift: int, weight_type: str) -> None:
        factor = _TO_NS.get(text(self.units.get("threadCPUDelta")))
        clock = 0
        deltas = "threadCPUDelta" in samples.columns
        kind = self.rows.kind("bytes", "bytes") if weight_type == "bytes" else -1
        for row in range(samples.length):
            if "timeDeltas" in samples.columns:
                clock += scaled(samples.at("timeDeltas", row), _MS)
                at = clock + shift
            else:
                at = scaled(samples.at("time", row), _MS) + shift
            self._first = at if self._first is None else min(self._first, at)
            stack = samples.at("stack", row)
            call = self._call(calls, stack)
            weight = whole(samples.at("weight", row), 1)
            if kind >= 0:
                self.rows.value(self._process, self._thread, call, kind, weight, at)
                continue
            used = scaled(samples.at("threadCPUDelta", row), factor) if factor is not None else 0
            self._unknown_cycles += deltas and factor is None
            self.rows.time(self._process, self._thread, call, CPU, used, at)
            if stack is None:
                self.making.unused["samples without a stack"] += 1
                continue
            took = scaled(samples.at("weight", row), _MS) if weight_type == "tracing-ms" else weight * self.interval
            rested = deltas and factor is not None and samples.at("threadCPUDelta", row) == 0
            self.rows.time(self._process, self._thread, call, WALL, took, at, waits=rested)

    def _allocations(self, name: str, table: _Table, calls: list[int], shift: int) -> None:
        if not table.length:
            return
        kind = self.rows.kind(name, "bytes", "bytes of JavaScript's objects" if name == "jsAllocations" else "bytes that were allocated")
        for row in range(table.length):
            at = scaled(table.at("time", row), _MS) + shift if "time" in table.columns else NO_TIME
            amount = table.at("weight", row)
            self.rows.value(self._process, self._thread, self._call(calls, table.at("stack", row)), kind, whole(amount), at)

    def _call(self, calls: list[int], stack: object) -> int:
        if stack is None:
            return -1
        call = item(calls, stack)
        self._damaged += call is None
        return -1 if call is None else call


class _Names:
    """The frames of a thread's frame table, each by the number that it has among all."""

    def __init__(self, reading: _Reading, thread: dict[str, Any], document_of: dict[str, Any], frames: _Table) -> None:
        self._reading, self._frames = reading, frames
        table = reading._table
        strings = thread.get("stringArray") or thread.get("stringTable") or reading.shared.get("stringArray")
        self._strings = sequence(strings)
        self._functions = _Table.of(table(thread, "funcTable"))
        self._resources = _Table.of(table(thread, "resourceTable"))
        self._sources = _Table.of(reading.shared.get("sources"))
        self._libraries = sequence(thread.get("libs")) or sequence(document_of.get("libs")) or reading.libraries
        self._categories = [text(mapping(one).get("name")) for one in sequence(reading.meta.get("categories"))]
        self._numbers: dict[int, int] = {}

    def of(self, row: int) -> int:
        if row not in self._numbers:
            frame = NamedFrame("[unknown]") if row < 0 else self._frame(row)
            self._numbers[row] = self._reading.rows.frames.number(frame)
        return self._numbers[row]

    def _frame(self, row: int) -> AnyFrame:
        frames, functions = self._frames, self._functions
        line = min(max(whole(frames.at("line", row)), 0), _MOST_LINE)
        kernel = item(self._categories, frames.at("category", row)) == "Kernel"
        if "location" in frames.columns:
            return self._located(self._text(frames.at("location", row)), line, kernel=kernel)
        of = frames.at("func", row)
        of = of if isinstance(of, int) and not isinstance(of, bool) and 0 <= of < functions.length else -1
        name = self._text(functions.at("name", of)) or "[unknown]"
        file = self._text(functions.at("fileName", of)) or self._text(self._sources.at("filename", whole(functions.at("source", of), -1)))
        script = functions.at("isJS", of) is True
        module = "" if script else self._library(functions.at("resource", of), frames.at("lib", row))
        line = line or min(max(whole(functions.at("lineNumber", of)), 0), _MOST_LINE)
        if file.endswith((".py", ".pyx")):
            return PythonFrame(name, file_of(file), 0, line)
        kind = Kind.OS_KERNEL if kernel else Kind.C if script else native_kind(name)
        return NamedFrame(name, kind, module, file_of(file), line if file else 0)

    def _located(self, location: str, line: int, *, kernel: bool) -> AnyFrame:
        """A raw profile has texts: `function (file:line:column)`, `function (in library)`, or an address."""
        if (script := _JS.match(location)) is not None:
            return NamedFrame(script["name"] or "(anonymous)", Kind.C, "", file_of(script["url"]), line or int(script["line"]))
        if (native := _NATIVE.match(location)) is not None:
            return NamedFrame(native["name"], Kind.OS_KERNEL if kernel else native_kind(native["name"]), native["library"])
        return NamedFrame(location or "[unknown]", Kind.OS_KERNEL if kernel else native_kind(location))

    def _library(self, resource: object, lib: object) -> str:
        """`lib`: since version 70 frames have their libraries themselves."""
        at = resource if isinstance(resource, int) and not isinstance(resource, bool) else -1
        library = mapping(item(self._libraries, lib if isinstance(lib, int) and lib >= 0 else self._resources.at("lib", at)))
        return text(library.get("debugName")) or text(library.get("name")) or self._text(self._resources.at("name", at))

    def _text(self, at: object) -> str:
        return text(item(self._strings, at))

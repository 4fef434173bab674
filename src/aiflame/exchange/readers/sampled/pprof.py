"""pprof's profiles (`profile.proto`): stacks with values of one or more kinds, as Go, gperftools, JAX and many other tools write them.

Time on CPUs and by the clock becomes samples of threads; every other kind becomes a metric of the profile's own. Samples are sums over the
run, without moments; a thread is known only where a label names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath

import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.exchange.readers.protobuf import DamagedError, Value, fields, message, numbers, signed, text, unsigned
from aiflame.exchange.readers.sampled import device_memory
from aiflame.exchange.readers.sampled.layer_labels import LayerLabels
from aiflame.exchange.readers.sampled.samples import CPU, DEEPEST, WALL, Sampled, native_kind
from aiflame.exchange.readers.source import Source
from aiflame.profile.ranks.job import MOST_RANKS
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass, field

_MOST = 1 << 30
"""Bytes of an unpacked profile."""
_MOST_FIELD = 15
_MESSAGES = (1, 2, 3, 4, 5, 6, 11)
"""Fields of a profile that are messages or texts."""
_TO_NS = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}
_TO_NS |= {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_TO_BYTES = {"bytes": 1, "byte": 1, "kilobytes": 1 << 10, "megabytes": 1 << 20}
_CLOCKS = {"cpu": CPU, "cpu time": CPU, "wall": WALL, "wall time": WALL}
_OWNERS = {"process": "process", "process id": "process", "pid": "process", "thread": "thread", "thread id": "thread", "tid": "thread"}
"""Labels that name the process or thread of a sample."""
_OF_MODELS = ("layer", "op")
_RANK = "rank"
"""Labels that aiflame writes, and reads again; those of other tools may mean something else."""
_NOT_KNOWN = 0xFFFFFFFF
_YEAR_2001_NS = 10**18
_PYTHON = (".py", ".pyx", ".pyw")
_UNKNOWN = NamedFrame("[unknown]")


def is_one(head: bytes) -> bool:
    """Every field fits `profile.proto`, and one of them is a kind of values, which is two small numbers."""
    kinds = 0
    try:
        for number, value in fields(head):
            if number > _MOST_FIELD or (isinstance(value, int) and number in _MESSAGES):
                return False
            if number == 1:
                if any(inner not in (1, 2) or not isinstance(index, int) for inner, index in fields(message(value))):
                    return False
                kinds += 1
    except DamagedError:
        return bool(kinds) and len(head) == 1 << 20  # the last field may be cut off
    return bool(kinds)


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    data = source.whole(_MOST)
    try:
        reading = _Reading(_File.of(data), making)
    except DamagedError as error:
        raise AiflameError(f"{source.path} is a damaged profile of pprof: {error}") from None
    progress(0.3)
    reading.read(progress)


@dataclass(slots=True)
class _File:
    """The parts of a profile, not yet read but for texts."""

    kinds: list[tuple[int, int]] = field(default_factory=list)
    """texts of type and unit"""
    samples: list[memoryview] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    mappings: dict[int, Mapping[int, Value]] = field(default_factory=dict)
    locations: dict[int, memoryview] = field(default_factory=dict)
    functions: dict[int, Mapping[int, Value]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    comments: list[Value] = field(default_factory=list)

    @staticmethod
    def of(data: bytes) -> _File:
        file = _File()
        for number, value in fields(data):
            if number == 1:
                kind = dict(fields(message(value)))
                file.kinds.append((unsigned(kind.get(1, 0)), unsigned(kind.get(2, 0))))
            elif number == 2:
                file.samples.append(message(value))
            elif number == 3:
                mapping = dict(fields(message(value)))
                file.mappings[unsigned(mapping.get(1, 0))] = mapping
            elif number == 4:
                own = message(value)
                file.locations[next((unsigned(of) for inner, of in fields(own) if inner == 1), 0)] = own
            elif number == 5:
                function = dict(fields(message(value)))
                file.functions[unsigned(function.get(1, 0))] = function
            elif number == 6:
                file.texts.append(text(value))
            elif isinstance(value, int):
                file.numbers[number] = signed(value)
                if number == 13:
                    file.comments.append(value)
        return file

    def text(self, index: Value) -> str:
        at = unsigned(index)
        if at >= len(self.texts):
            if not at:
                return ""
            raise DamagedError(f"text {at:,} is not among its {len(self.texts):,} texts")
        return self.texts[at]


class _Reading:
    def __init__(self, file: _File, making: Making) -> None:
        self.file, self.making = file, making
        self.rows = Sampled(making)
        self.main = next((self._module(number) for number in file.mappings), "")
        self._frames: dict[int, list[AnyFrame]] = {}
        self._calls: dict[tuple[int, tuple[int, ...], str, str], int] = {}
        self._layers = LayerLabels()
        self._ours = any(file.text(one).startswith("aiflame ") for one in file.comments)
        self._unknown = 0
        self._ranks: dict[int, int] = {}
        """Of processes."""

    def read(self, progress: Callable[[float], None]) -> None:
        try:
            self._samples(progress)
        except DamagedError as error:
            raise AiflameError(f"the profile of pprof is damaged: {error}") from None
        if self._unknown:
            self.making.note(f"{self._unknown:,} frames of the file refer to places that it lacks: they are called {_UNKNOWN.name}")
        began, took = self.file.numbers.get(9, 0), self.file.numbers.get(10, 0)
        self.making.realtime_ns = began if began > _YEAR_2001_NS else 0
        self._layers.add(self.making, max(self.rows.processes, 1))
        if self._ranks:
            columns = {"process": list(self._ranks), "rank": list(self._ranks.values())}
            self.making.add("ranks", pl.DataFrame(columns).with_columns(local_rank=pl.lit(_NOT_KNOWN)))
        self.rows.finish()
        if 0 < took < 1 << 59:
            self.making.last_ns = FIRST_NS + took

    def _samples(self, progress: Callable[[float], None]) -> None:
        labels: Counter[str] = Counter()
        samples = [_sample(one) for one in self.file.samples]
        columns = [_Column.of(self.file.text(kind), self.file.text(unit)) for kind, unit in self.file.kinds]
        for at, column in enumerate(columns):
            if column.clock is not None and any(at < len(values) and values[at] < 0 for _, values, _ in samples):
                column.clock = None  # a difference of two profiles
        texts = [self._texts(keys) for _, _, keys in samples]
        of_devices = device_memory.is_one([(self.file.text(kind), self.file.text(unit)) for kind, unit in self.file.kinds], texts)
        if of_devices:
            columns[0].name, columns[0].label = device_memory.COUNT, device_memory.COUNT_LABEL
        for at in self._order(columns):
            if columns[at].clock is None:
                columns[at].kind = self.rows.kind(columns[at].name, columns[at].unit, columns[at].label)
        for number, (places, values, keys) in enumerate(samples):
            if len(values) != len(columns):
                raise DamagedError(f"sample {number + 1:,} has {len(values):,} values of {len(columns):,} kinds")
            process, thread, layer, op = self._owner(keys, labels)
            call = self._call(process, places, layer, op)
            memory = device_memory.memory_of(texts[number]) if of_devices else ""
            if memory and values[1] > 0:
                self.rows.block(process, call, memory, values[1])
                values = [values[0], 0]
            for column, value in zip(columns, values, strict=True):
                if value and column.clock is not None:
                    self.rows.time(process, thread, call, column.clock, value * column.factor)
                elif value:
                    self.rows.value(process, thread, call, column.kind, value * column.factor)
            if not number & 0xFFFF:
                progress(0.3 + 0.6 * number / len(samples))
        for name, count in labels.items():
            if of_devices and name in device_memory.LABELS:
                continue
            self.making.unused[f"labels {name}"] += count

    def _texts(self, keys: list[Mapping[int, Value]]) -> dict[str, str]:
        """The labels that are texts."""
        return {self.file.text(label.get(1, 0)): self.file.text(label[2]) for label in keys if 2 in label}

    def _order(self, columns: list[_Column]) -> Iterator[int]:
        """The kind that the profile means most is its default, else the last one."""
        default = self.file.text(self.file.numbers.get(14, 0)) if self.file.numbers.get(14, 0) > 0 else ""
        first = next((at for at, column in enumerate(columns) if column.name == default), len(columns) - 1)
        yield from sorted(range(len(columns)), key=lambda at: (at != first, at))

    def _owner(self, keys: list[Mapping[int, Value]], labels: Counter[str]) -> tuple[int, int, str, str]:
        """Process, thread, layer and op; other labels are counted."""
        named = {"process": (0, self.main), "thread": (0, "")} | dict.fromkeys(_OF_MODELS, (0, ""))
        rank = -1
        for label in keys:
            key = self.file.text(label.get(1, 0))
            if key == _RANK and self._ours:
                rank = signed(label.get(3, 0))
                continue
            of = _OWNERS.get(_plain(key)) or (key if self._ours and key in _OF_MODELS else None)
            if of is None:
                labels[key] += 1
            else:
                number, name = max(signed(label.get(3, 0)), 0), self.file.text(label.get(2, 0))
                own, _, written = name.rpartition(" (")  # `name (number)`
                if of not in _OF_MODELS and own and written[:-1].isdecimal() and len(written) < 11:
                    number, name = int(written[:-1]), own
                named[of] = number or named[of][0], name or named[of][1]
        pid, name = named["process"]
        process = self.rows.process(pid, name.removeprefix(f"rank {rank}: "))
        if 0 <= rank < MOST_RANKS:
            self._ranks[process] = rank
        return process, self.rows.thread(process, *named["thread"]), named["layer"][1], named["op"][1]

    def _call(self, process: int, places: tuple[int, ...], layer: str, op: str) -> int:
        key = process, places, layer, op
        call = self._calls.get(key)
        if call is None:
            if len(places) > DEEPEST:
                raise DamagedError(f"a stack has {len(places):,} frames")
            frames = [frame for place in reversed(places) for frame in self._frames_of(place)]
            frames = self._layers.placed(frames, layer, op)
            call = -1
            for frame in frames:
                call = self.rows.call(process, call, frame)
            self._calls[key] = call
        return call

    def _frames_of(self, place: int) -> list[AnyFrame]:
        """The frames of a location, outermost first: those of inlined functions come after their caller."""
        frames = self._frames.get(place)
        if frames is None:
            location = self.file.locations.get(place)
            self._unknown += location is None
            frames = self._frames[place] = [_UNKNOWN] if location is None else self._read_location(location)
        return frames

    def _read_location(self, data: memoryview) -> list[AnyFrame]:
        module, address, lines = "", 0, []
        for number, value in fields(data):
            if number == 2:
                module = self._module(unsigned(value))
            elif number == 3:
                address = unsigned(value)
            elif number == 4:
                lines.append(dict(fields(message(value))))
        kernel = module.startswith(("[kernel", "[guest.kernel")) or module == "vmlinux"
        if not lines:
            name = f"0x{address:x}" if address else _UNKNOWN.name
            return [NamedFrame(name, Kind.OS_KERNEL if kernel else Kind.C, PurePath(module).name)]
        frames: list[AnyFrame] = []
        for line in reversed(lines):
            function = self.file.functions.get(unsigned(line.get(1, 0)))
            at = min(max(signed(line.get(2, 0)), 0), (1 << 31) - 1)
            if function is None:
                self._unknown += 1
                frames.append(_UNKNOWN)
                continue
            name = self.file.text(function.get(2, 0)) or self.file.text(function.get(3, 0)) or _UNKNOWN.name
            file = self.file.text(function.get(4, 0))
            begin = min(max(signed(function.get(5, 0)), 0), (1 << 31) - 1)
            if file.endswith(_PYTHON) or (file.startswith("<") and file.endswith(">")):
                frames.append(PythonFrame(name, file, begin if begin <= at else 0, at))
            else:
                kind = Kind.OS_KERNEL if kernel else native_kind(name)
                frames.append(NamedFrame(name, kind, PurePath(module).name, file, at))
        return frames

    def _module(self, number: int) -> str:
        mapping = self.file.mappings.get(number)
        return self.file.text(mapping.get(5, 0)) if mapping is not None else ""


@dataclass(slots=True)
class _Column:
    """One of the values that every sample has."""

    name: str
    unit: str
    label: str
    factor: int
    clock: int | None
    kind: int = -1

    @staticmethod
    def of(name: str, unit: str) -> _Column:
        in_words = name.replace("_", " ")
        if unit in _TO_NS:
            return _Column(name, "ns", in_words, _TO_NS[unit], _CLOCKS.get(_plain(name)))
        if unit in _TO_BYTES:
            return _Column(name, "bytes", in_words, _TO_BYTES[unit], None)
        return _Column(name, name.rpartition("_")[2] if unit in ("count", "") else unit, in_words, 1, None)


def _sample(data: memoryview) -> tuple[tuple[int, ...], list[int], list[Mapping[int, Value]]]:
    """The locations (innermost first), the values, and the labels."""
    places: list[int] = []
    values: list[int] = []
    labels: list[Mapping[int, Value]] = []
    for number, value in fields(data):
        if number == 1:
            places += numbers(value)
        elif number == 2:
            values += map(signed, numbers(value))
        elif number == 3:
            labels.append(dict(fields(message(value))))
    return tuple(places), values, labels


def _plain(name: str) -> str:
    return name.lower().replace("_", " ").replace("-", " ")

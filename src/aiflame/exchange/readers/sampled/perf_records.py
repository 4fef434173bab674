"""The records of a `perf.data` file: samples with their stacks, and the mappings, names and forks of processes.

The layout is that of `tools/perf/Documentation/perf.data-file-format.txt` and of `perf_event_open(2)`. Both kinds of files are read, those
with a table of contents and those that perf wrote into a pipe, and records that perf packed with zstd.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

from aiflame.errors import AiflameError
from aiflame.values import dataclass, field

MAGIC, SWAPPED = b"PERFILE2", b"2ELIFREP"
_PIPE_HEADER = 16
_MOST_UNPACKED = 512 << 20
_MOST_EVENTS = 4096
_MMAP, _COMM, _FORK, _SAMPLE, _MMAP2 = 1, 3, 7, 9, 10
_ATTR, _BUILD_ID, _AUXTRACE, _EVENT_UPDATE, _FEATURE, _COMPRESSED, _COMPRESSED2 = 64, 67, 71, 78, 80, 81, 83
_FIRST_OF_TOOL = 64
_UPDATE_NAME = 2
_IP, _TID, _TIME, _ADDR, _READ, _CALLCHAIN, _ID, _CPU, _PERIOD, _STREAM_ID, _STACK_USER, _IDENTIFIER = (
    1 << bit for bit in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16)
)
_ID_ALL, _FREQUENCY = 1 << 18, 1 << 10
_BUILD_IDS, _HOSTNAME, _RELEASE, _CPUS, _CPU_NAME, _COMMAND, _EVENTS, _CLOCK = 2, 3, 4, 7, 8, 11, 12, 29
_EXEC, _DATA, _HAS_BUILD_ID, _HAS_SIZE = 1 << 13, 1 << 13, 1 << 14, 1 << 15
"""Bits of `misc`: of a name, of a mapping (two), and of a build id."""
_ID_BYTES = 20
_NAMES = {
    0: ("cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles"),
    1: ("cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults", "major-faults"),
}


class DamagedError(Exception):
    """The file breaks off, or contradicts itself."""


@dataclass(slots=True)
class Event:
    """Something that perf counted: a row of the file's table of attributes."""

    name: str
    sample_type: int
    read_format: int
    period: int
    """fixed number of events between two samples; 0: perf chose it"""
    id_all: bool

    @staticmethod
    def of(attr: bytes) -> Event:
        if len(attr) < 48:
            raise DamagedError("its table of events is cut off")
        kind, _, config, period, sample_type, read_format, flags = struct.unpack_from("<IIQQQQQ", attr)
        names = _NAMES.get(kind, ())
        name = names[config] if config < len(names) else f"event {kind}:{config:#x}"
        return Event(name, sample_type, read_format, 0 if flags & _FREQUENCY else period, bool(flags & _ID_ALL))


@dataclass(frozen=True, slots=True)
class Sample:
    time: int
    event: Event
    pid: int
    tid: int
    period: int
    chain: bytes
    """addresses of 8 bytes, the innermost first, with marks of contexts among them"""


@dataclass(frozen=True, slots=True)
class Mapping:
    time: int
    pid: int
    begin: int
    end: int
    offset: int
    file: str
    build_id: bytes = b""
    """empty: not said here"""


@dataclass(frozen=True, slots=True)
class Name:
    time: int
    pid: int
    tid: int
    name: str
    exec: bool


@dataclass(frozen=True, slots=True)
class Fork:
    time: int
    pid: int
    tid: int
    parent: int
    parent_tid: int


Record = Sample | Mapping | Name | Fork


@dataclass(slots=True)
class PerfFile:
    data: bytes
    events: list[Event] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    realtime_ns: int = 0
    """time since 1970 at time 0 of samples; 0: not known"""
    build_ids: dict[str, bytes] = field(default_factory=dict)
    """by the path of a file"""
    skipped: int = 0
    """records of the kernel that say nothing about stacks"""
    user_stacks: int = 0
    """samples with a copy of the stack in place of a chain of addresses"""
    cut: bool = False
    _by_id: dict[int, Event] = field(default_factory=dict)
    _packed: list[bytes] = field(default_factory=list)

    def read(self) -> None:
        """Fills the tables, in the order of time."""
        if len(self.data) < _PIPE_HEADER:
            raise DamagedError("it has no header")
        size = self._numbers("<Q", 8)[0]
        if size == _PIPE_HEADER:
            self._walk(self.data, _PIPE_HEADER, len(self.data))
        else:
            self._read_table()
        if self._packed:
            unpacked = _unzstd(b"".join(self._packed))
            self._walk(unpacked, 0, len(unpacked))
        self.records.sort(key=lambda record: record.time)

    def _read_table(self) -> None:
        attr_size, attrs, attrs_size, data, data_size = self._numbers("<QQQQQ", 16)
        if not 64 <= attr_size <= 4096 or attrs + attrs_size > len(self.data) or attrs_size // attr_size > _MOST_EVENTS:
            raise DamagedError("its table of events is damaged")
        for at in range(attrs, attrs + attrs_size - attr_size + 1, attr_size):
            ids, ids_size = self._numbers("<QQ", at + attr_size - 16)
            if ids + ids_size > len(self.data):
                raise DamagedError("its table of events is damaged")
            many = ids_size // 8
            self._add_event(Event.of(self.data[at : at + attr_size - 16]), struct.unpack_from(f"<{many}Q", self.data, ids))
        end = data + data_size
        if not data_size:  # perf was ended before it wrote the size
            end, self.cut = len(self.data), True
        bits = int.from_bytes(self.data[72:104], "little")
        for place, feature in enumerate(bit for bit in range(256) if bits >> bit & 1):
            if data_size and end + 16 * place + 16 <= len(self.data):
                at, size = self._numbers("<QQ", end + 16 * place)
                self._read_feature(feature, self.data[at : at + size])
        self._walk(self.data, data, end)

    def _numbers(self, layout: str, at: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(layout, self.data, at)
        except struct.error:
            raise DamagedError("it breaks off") from None

    def _add_event(self, event: Event, ids: tuple[int, ...]) -> None:
        if len(self.events) == _MOST_EVENTS:
            raise DamagedError("it has too many events")
        self.events.append(event)
        self._by_id.update(dict.fromkeys(ids, event))

    def _walk(self, data: bytes, at: int, end: int) -> None:
        end = min(end, len(data))
        while at + 8 <= end:
            kind, misc, size = struct.unpack_from("<IHH", data, at)
            if size < 8 or at + size > end:
                self.cut = True
                return
            self._read_record(kind, misc, data[at + 8 : at + size])
            at += size
            if kind == _AUXTRACE and size >= 16:  # its data comes behind it
                at += struct.unpack_from("<Q", data, at - size + 8)[0]

    def _read_record(self, kind: int, misc: int, body: bytes) -> None:
        try:
            if kind == _SAMPLE:
                self._read_sample(body)
            elif kind in (_MMAP, _MMAP2):
                pid, _, begin, size, offset = struct.unpack_from("<IIQQQ", body)
                if kind == _MMAP2 or not misc & _DATA:
                    name = _text(body[32 + (32 if kind == _MMAP2 else 0) :])
                    build_id = body[36 : 36 + min(body[32], _ID_BYTES)] if kind == _MMAP2 and misc & _HAS_BUILD_ID else b""
                    self.records.append(Mapping(self._time(body), pid, begin, begin + size, offset, name, build_id))
            elif kind == _COMM:
                pid, tid = struct.unpack_from("<II", body)
                self.records.append(Name(self._time(body), pid, tid, _text(body[8:]), bool(misc & _EXEC)))
            elif kind == _FORK:
                pid, parent, tid, parent_tid, time = struct.unpack_from("<IIIIQ", body)
                self.records.append(Fork(time, pid, tid, parent, parent_tid))
            elif kind in (_COMPRESSED, _COMPRESSED2):
                size = struct.unpack_from("<Q", body)[0] if kind == _COMPRESSED2 else len(body)
                self._packed.append(body[8 : 8 + size] if kind == _COMPRESSED2 else body)
            elif kind == _ATTR:
                size = struct.unpack_from("<I", body, 4)[0]
                ids = body[size:]
                self._add_event(Event.of(body[:size]), struct.unpack(f"<{len(ids) // 8}Q", ids[: len(ids) // 8 * 8]))
            elif kind == _BUILD_ID:
                self._add_build_id(misc, body)
            elif kind == _EVENT_UPDATE:
                what, identity = struct.unpack_from("<QQ", body)
                if what == _UPDATE_NAME and identity in self._by_id:
                    self._by_id[identity].name = _text(body[16:])
            elif kind == _FEATURE:
                self._read_feature(struct.unpack_from("<Q", body)[0], body[8:])
            elif kind < _FIRST_OF_TOOL:
                self.skipped += 1
        except struct.error:
            raise DamagedError(f"a record of kind {kind} is cut off") from None

    def _time(self, body: bytes) -> int:
        """When a record that is no sample was written: it ends in some fields of a sample."""
        if not self.events or not self.events[0].id_all or not self.events[0].sample_type & _TIME:
            return 0
        behind = sum(bool(self.events[0].sample_type & bit) for bit in (_ID, _STREAM_ID, _CPU, _IDENTIFIER))
        at = len(body) - 8 * (behind + 1)
        return int(struct.unpack_from("<Q", body, at)[0]) if at >= 0 else 0

    def _read_sample(self, body: bytes) -> None:
        if not self.events:
            raise DamagedError("a sample comes before the first event")
        event = self._event(body)
        kinds = event.sample_type
        at = 8 if kinds & _IDENTIFIER else 0
        values = {}
        for bit in (_IP, _TID, _TIME, _ADDR, _ID, _STREAM_ID, _CPU, _PERIOD):
            if kinds & bit:
                values[bit] = struct.unpack_from("<Q", body, at)[0]
                at += 8
        if kinds & _READ:
            at += _read_size(event.read_format, body, at)
        chain = b""
        if kinds & _CALLCHAIN:
            count = struct.unpack_from("<Q", body, at)[0]
            if count > len(body) // 8:
                raise DamagedError(f"a stack claims {count:,} frames")
            chain = body[at + 8 : at + 8 + 8 * count]
            chain = chain[: len(chain) // 8 * 8]
        if not chain and _IP in values:
            chain = struct.pack("<Q", values[_IP])
        self.user_stacks += bool(kinds & _STACK_USER)
        owner = values.get(_TID, 0)
        period = values.get(_PERIOD, event.period) or 1
        self.records.append(Sample(values.get(_TIME, 0), event, owner & 0xFFFFFFFF, owner >> 32, period, chain))

    def _event(self, body: bytes) -> Event:
        first = self.events[0]
        if len(self.events) == 1:
            return first
        kinds = first.sample_type
        if kinds & _IDENTIFIER:
            at = 0
        elif kinds & _ID:
            at = 8 * sum(bool(kinds & bit) for bit in (_IP, _TID, _TIME, _ADDR))
        else:
            return first
        return self._by_id.get(struct.unpack_from("<Q", body, at)[0], first)

    def _read_feature(self, feature: int, body: bytes) -> None:
        try:
            if feature in (_HOSTNAME, _RELEASE, _CPU_NAME):
                self.facts[{_HOSTNAME: "host", _RELEASE: "kernel", _CPU_NAME: "cpu"}[feature]] = _string(body, 0)[0]
            elif feature == _BUILD_IDS:
                self._read_build_ids(body)
            elif feature == _CPUS:
                self.facts["cores"] = str(struct.unpack_from("<I", body, 4)[0])
            elif feature == _COMMAND:
                self.command = tuple(_strings(body))
            elif feature == _EVENTS:
                self._name_events(body)
            elif feature == _CLOCK:
                _, _, wall, clock = struct.unpack_from("<IIQQ", body)
                self.realtime_ns = wall - clock
        except struct.error:
            self.cut = True

    def _add_build_id(self, misc: int, body: bytes) -> None:
        """Behind the number of a process 20 bytes, and in newer files how many of them count; then the path."""
        size = min(body[24], _ID_BYTES) if misc & _HAS_SIZE and len(body) > 24 else _ID_BYTES
        self.build_ids[_text(body[28:])] = body[4 : 4 + size]

    def _read_build_ids(self, body: bytes) -> None:
        at = 0
        while at + 8 <= len(body):
            _, misc, size = struct.unpack_from("<IHH", body, at)
            if size < 8:
                return
            self._add_build_id(misc, body[at + 8 : at + size])
            at += size

    def _name_events(self, body: bytes) -> None:
        count, attr_size = struct.unpack_from("<II", body)
        at = 8
        for number in range(min(count, _MOST_EVENTS)):
            ids = struct.unpack_from("<I", body, at + attr_size)[0]
            name, at = _string(body, at + attr_size + 4)
            event = self._by_id.get(struct.unpack_from("<Q", body, at)[0]) if ids else None
            at += 8 * ids
            if event is None and number < len(self.events):
                event = self.events[number]
            if event is not None and name:
                event.name = name


def _read_size(layout: int, body: bytes, at: int) -> int:
    """Bytes of the values that a sample read."""
    times = 8 * (bool(layout & 1) + bool(layout & 2))
    each = 8 * (1 + bool(layout & 4) + bool(layout & 16))
    if not layout & 8:
        return times + each
    return 8 + times + each * int(struct.unpack_from("<Q", body, at)[0])


def _text(body: bytes) -> str:
    return body.partition(b"\0")[0].decode("utf-8", "replace")


def _string(body: bytes, at: int) -> tuple[str, int]:
    """A text behind its length, and where it ends."""
    size = struct.unpack_from("<I", body, at)[0]
    return _text(body[at + 4 : at + 4 + size]), at + 4 + size


def _strings(body: bytes) -> Iterator[str]:
    at = 4
    for _ in range(min(struct.unpack_from("<I", body)[0], len(body) // 4)):
        text, at = _string(body, at)
        yield text


def _unzstd(packed: bytes) -> bytes:
    try:
        import zstandard  # type: ignore[import-not-found]
    except ImportError:
        raise AiflameError(
            "records that perf packed (`perf record -z`) need `pip install zstandard`; or import the text of `perf script`"
        ) from None
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(io.BytesIO(packed), read_across_frames=True) as reader:
            content = reader.read(_MOST_UNPACKED + 1)
    except zstandard.ZstdError as error:
        raise DamagedError(f"its packed records cannot be unpacked: {error}") from None
    if len(content) > _MOST_UNPACKED:
        raise DamagedError(f"its packed records become more than {_MOST_UNPACKED >> 20:,} MB")
    return bytes(content)

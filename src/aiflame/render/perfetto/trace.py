"""A timeline as Perfetto reads it (`.pftrace`): a sequence of protobuf packets.

The messages and the numbers of their fields: https://github.com/google/perfetto, protos/perfetto/trace. We write them ourselves, which
saves a dependency. In `benchmarks/results/timeline.json` its own builders, which keep the whole trace in memory, took 2.4 s of CPU time and
440 MB for the slices, arrows and facts of 100,000 kernels; our whole command, which reads the profile first, took 1.7 s and 350 MB.

Slices go out in parts, each packed with zlib (a packet `compressed_packets`), so that memory does not grow with the file.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.chunks import count
from aiflame.attribute.arrays.wire import Chosen, Fixed64, Message, Part, Runs, Same, Some, Varint, encode, number, text
from aiflame.attribute.timeline.samples import clock_of
from aiflame.attribute.timeline.tables import SliceKind, Timeline, TrackKind
from aiflame.attribute.timeline.whole import timeline as timeline_of
from aiflame.profile.folder.meta import Clocks
from aiflame.profile.tables.interface import Tables

ROWS = 1 << 16
"""The number of slices that are written at a time."""
MOST_WITH_STEPS = 2_000_000
"""The most slices of a trace in which each kernel has its step as a fact. A viewer stores equal sets of facts once; with the step, each
kernel has a set of its own, and the viewer needs half as much memory again. The track above shows the step, too."""
SLICES_A_RECORD = 2
"""The usual number of slices for each kernel, copy and launch: its own, and those around it."""
LONGEST_NAME = 4096
"""Characters of a name or fact; the viewer measures and draws each of them."""

_WAITING = 4
_SAMPLED = {0: "CPU time", 1: "wall-clock time"}
"""By clock of samples."""
_SEQUENCE = 1
_MONOTONIC, _RAW, _REALTIME = 3, 5, 1  # builtin_clock.proto
_CLEARED, _NEEDED = 1, 2  # trace_packet.proto, SequenceFlags
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # track_event.proto, Type
_EXPLICIT = 3  # track_descriptor.proto, ChildTracksOrdering
_BYTES = 3  # counter_descriptor.proto, Unit


class _Packet:
    """trace.proto and trace_packet.proto"""

    PACKET, CLOCK_SNAPSHOT, TIMESTAMP, SEQUENCE, TRACK_EVENT, INTERNED_DATA, FLAGS = 1, 6, 8, 10, 11, 12, 13
    COMPRESSED, CLOCK_ID, DEFAULTS, TRACK_DESCRIPTOR, FIRST = 50, 58, 59, 60, 87


class _Event:
    """track_event.proto"""

    CATEGORY_IIDS, ANNOTATIONS, TYPE, NAME_IID, TRACK, DOUBLE_VALUE, FLOWS, ENDING_FLOWS = 3, 4, 9, 10, 11, 44, 47, 48


class _Track:
    """track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto, counter_descriptor.proto"""

    UUID, NAME, PROCESS, THREAD, PARENT, COUNTER, ORDERING, RANK, DESCRIPTION = 1, 2, 3, 4, 5, 8, 11, 12, 14
    PROCESS_PID, PROCESS_CMDLINE, PROCESS_SORT, PROCESS_NAME, PROCESS_START = 1, 2, 3, 6, 7
    THREAD_PID, THREAD_TID, THREAD_NAME = 1, 2, 5
    COUNTER_UNIT, COUNTER_UNIT_NAME = 3, 6


class _Interned:
    """interned_data.proto; all its messages have the number first, then the text"""

    CATEGORIES, NAMES, KEYS, TEXTS = 1, 2, 3, 29
    IID, TEXT = 1, 2


class _Annotation:
    """debug_annotation.proto"""

    KEY_IID, UINT, INT, ARRAY, TEXT_IID = 1, 3, 4, 12, 17


_CATEGORIES: Mapping[SliceKind, str] = {
    SliceKind.STEP: "step",
    SliceKind.PHASE: "phase",
    SliceKind.LAYER: "layer",
    SliceKind.OP: "op",
    SliceKind.CALL: "call",
    SliceKind.WAIT: "wait",
    SliceKind.KERNEL: "kernel",
    SliceKind.COPY: "copy",
    SliceKind.REGION: "region",
    SliceKind.MARK: "mark",
    SliceKind.FUNCTION: "function",
    SliceKind.WAITING: "waiting",
    SliceKind.TRACED: "traced call",
    SliceKind.SCOPE: "inside a kernel",
}
_STEP = "step"
_TAIL = number(_Packet.SEQUENCE, _SEQUENCE) + number(_Packet.FLAGS, _NEEDED)
"""The end of every packet that uses interned texts."""


def write(timeline: Timeline, clocks: Clocks, file: BinaryIO) -> None:
    """Writes the whole trace. `clocks`: one moment on three clocks."""
    Trace(clocks, file, steps=len(timeline.slices) <= MOST_WITH_STEPS).add(timeline)


def write_profile(profile: Tables, clocks: Clocks, file: BinaryIO, *, samples: bool = True) -> int:
    """Writes the timeline of a profile while it is made, so that it is never completely in memory; returns the number of slices."""
    records = sum(count(profile.scan(name)) for name in ("launches", "kernels", "copies"))
    trace = Trace(clocks, file, steps=records * SLICES_A_RECORD <= MOST_WITH_STEPS, sampled=_sampled(profile))
    trace.add(timeline_of(profile, samples=samples, taker=trace.add))
    return trace.slices


def _sampled(profile: Tables) -> str:
    clock = clock_of(profile)
    return "" if clock is None else _SAMPLED[clock]


class Trace:
    """A trace to which parts of a timeline are added, as `Making` gives them. With `steps`, each kernel has its step as a fact. `sampled`:
    the time that the samples of threads show."""

    def __init__(self, clocks: Clocks, file: BinaryIO, *, steps: bool, sampled: str = "") -> None:
        self.slices = 0
        self._sampled = sampled
        self._file, self._steps = file, steps
        self._pids: dict[int, int] = {}
        self._texts = _Texts()
        file.write(_first_packets(clocks))

    def add(self, part: Timeline) -> None:
        self._file.write(_tracks(part.tracks, self._pids, self._sampled))
        for data in _packed(self._packets(part)):
            self._file.write(data)
        self.slices += len(part.slices)

    def _packets(self, part: Timeline) -> Iterator[bytes]:
        """The packets of a part, in pieces."""
        yield from self._texts.packets(part)
        for begin in range(0, len(part.slices), ROWS):
            yield _slices(part.slices[begin : begin + ROWS], self._texts, steps=self._steps)
        for begin in range(0, len(part.points), ROWS):
            yield _points(part.points[begin : begin + ROWS])


def _packed(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Each part as one compressed packet. Compressing takes as long as building parts, so both run at the same time, and only a few parts
    wait."""
    with ThreadPoolExecutor(1) as packer:
        waiting: deque[Future[bytes]] = deque()
        for part in parts:
            waiting.append(packer.submit(zlib.compress, part, 1))
            if len(waiting) > _WAITING:
                yield _packet(text(_Packet.COMPRESSED, waiting.popleft().result()))
        for last in waiting:
            yield _packet(text(_Packet.COMPRESSED, last.result()))


def _packet(body: bytes) -> bytes:
    return text(_Packet.PACKET, body)


def _first_packets(clocks: Clocks) -> bytes:
    """All times use CLOCK_MONOTONIC: nothing needs to be converted, and traces of the system are aligned by their own snapshots."""
    clocks_read = [(_MONOTONIC, clocks.monotonic_ns), (_RAW, clocks.raw_ns), (_REALTIME, clocks.realtime_ns)]
    snapshot = b"".join(text(1, number(1, clock) + number(2, moment)) for clock, moment in clocks_read if moment > 0)
    sequence = number(_Packet.SEQUENCE, _SEQUENCE)
    first = text(_Packet.CLOCK_SNAPSHOT, snapshot + number(2, _MONOTONIC)) + number(_Packet.TIMESTAMP, max(clocks.monotonic_ns, 0))
    first += number(_Packet.CLOCK_ID, _MONOTONIC)
    defaults = text(_Packet.DEFAULTS, number(_Packet.CLOCK_ID, _MONOTONIC)) + number(_Packet.FLAGS, _CLEARED) + number(_Packet.FIRST, 1)
    return _packet(first + sequence) + _packet(defaults + sequence)


def _tracks(tracks: pl.DataFrame, pids: dict[int, int], sampled: str) -> bytes:
    """`pids`: the process id of each track of a process that was written."""
    packets = []
    for row in tracks.iter_rows(named=True):
        kind = TrackKind(row["kind"])
        name = _shown(row["name"])
        body = number(_Track.UUID, row["track"] + 1) + number(_Track.ORDERING, _EXPLICIT) + number(_Track.RANK, row["track"])
        if kind == TrackKind.PROCESS:
            # Every process needs a number of its own to be shown separately.
            pid = row["number"] or (1 << 30) + row["process"]
            pids[row["track"]] = pid
            arguments = [_shown(one) for one in row["full_name"].split("\0") if one]
            process = number(_Track.PROCESS_PID, pid) + b"".join(text(_Track.PROCESS_CMDLINE, one) for one in arguments)
            process += text(_Track.PROCESS_NAME, name) + number(_Track.PROCESS_START, max(row["begin_ns"], 0))
            body += text(_Track.PROCESS, process + number(_Track.PROCESS_SORT, row["process"]))
        elif kind == TrackKind.THREAD and row["number"]:
            thread = number(_Track.THREAD_PID, pids[row["parent"]]) + number(_Track.THREAD_TID, row["number"])
            body += number(_Track.PARENT, row["parent"] + 1) + text(_Track.THREAD, thread + text(_Track.THREAD_NAME, name))
        else:
            body += (number(_Track.PARENT, row["parent"] + 1) if row["parent"] >= 0 else b"") + text(_Track.NAME, name)
        if kind == TrackKind.SAMPLES and row["number"]:
            # One thread cannot have two tracks: the viewer would make one of them. So only the text says whose samples these are.
            body += text(_Track.DESCRIPTION, f"thread {row['number']}" + (f", {sampled}" if sampled else ""))
        if kind == TrackKind.COUNTER:
            unit = number(_Track.COUNTER_UNIT, _BYTES) if row["unit"] == "bytes" else b""
            body += text(_Track.COUNTER, unit or (text(_Track.COUNTER_UNIT_NAME, row["unit"]) if row["unit"] else b""))
        packets.append(_packet(text(_Packet.TRACK_DESCRIPTOR, body) + number(_Packet.SEQUENCE, _SEQUENCE)))
    return b"".join(packets)


def _shown(name: str) -> str:
    """A text that a viewer can show: NUL would end it, and lone surrogates are not characters."""
    clean = name.encode("utf-8", "replace").decode().replace("\0", "\u2400")
    return clean if len(clean) <= LONGEST_NAME else clean[:LONGEST_NAME] + "…"


class _Texts:
    """Names, categories and facts: each is written once, and later referred to by number."""

    def __init__(self) -> None:
        self._names = 0
        self._keys: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        self._annotations = [b""]
        """By set; 0 means none."""

    def packets(self, part: Timeline) -> Iterator[bytes]:
        """The new rows of a part of a timeline, in pieces: a viewer refuses a packet of hundreds of megabytes."""
        if not self._keys:
            yield from _interned(_Interned.CATEGORIES, [_CATEGORIES[kind] for kind in SliceKind], 0)
        facts = part.facts
        yield from _interned(_Interned.KEYS, *_new_texts(self._keys, [_STEP, *facts["key"].unique(maintain_order=True).to_list()]))
        yield from _interned(_Interned.NAMES, part.names.to_list(), self._names)
        self._names += len(part.names)
        yield from _interned(_Interned.TEXTS, *_new_texts(self._texts, facts["text"].drop_nulls().unique(maintain_order=True).to_list()))
        numbered = facts.with_columns(
            iid=pl.Series([self._texts[text] if text is not None else None for text in facts["text"].to_list()], dtype=pl.UInt32),
            key=pl.Series([self._keys[key] for key in facts["key"].to_list()], dtype=pl.UInt32),
        )
        self._annotations += _annotations(numbered)[len(self._annotations) - 1 :]

    def annotations(self, sets: NDArray[np.uint32]) -> Part:
        return Chosen(*_used(self._annotations, sets))


def _new_texts(numbers: dict[str, int], texts: Sequence[str]) -> tuple[list[str], int]:
    """The texts that are not in `numbers` yet, and the number of older ones: each new text gets the next number, from 1."""
    before = len(numbers)
    for text_ in texts:
        numbers.setdefault(text_, len(numbers) + 1)
    return list(islice(numbers, before, None)), before


def _interned(field: int, texts: Sequence[str], before: int) -> Iterator[bytes]:
    """The texts, with numbers that continue those before."""
    for begin in range(0, len(texts), 1 << 12):
        part = texts[begin : begin + (1 << 12)]
        entries = (number(_Interned.IID, before + 1 + begin + at) + text(_Interned.TEXT, _shown(one)) for at, one in enumerate(part))
        yield _packet(text(_Packet.INTERNED_DATA, b"".join(text(field, entry) for entry in entries)) + _TAIL)


def _used(pieces: Sequence[bytes], which: NDArray[np.uint32]) -> tuple[list[bytes], NDArray[np.int64]]:
    used, place = np.unique(which, return_inverse=True)
    return [pieces[one] if one < len(pieces) else b"" for one in used.tolist()], place  # the last sets may be empty


def _annotations(rows: pl.DataFrame) -> list[bytes]:
    """The facts of each set, ready to be written."""
    sets = [b""] * (rows["set"].to_list()[-1] if len(rows) else 0)
    collected: list[bytes] = []
    listed: list[bytes] = []
    last: tuple[int, int] | None = None
    values = rows.select("set", "key", "iid", "number", several=pl.len().over("set", "key") > 1).rows()

    def close() -> None:
        if listed and last is not None:
            collected.append(text(_Event.ANNOTATIONS, number(_Annotation.KEY_IID, last[1]) + b"".join(listed)))
            listed.clear()

    for of, key, iid, amount, several in values:
        if last is not None and (of, key) != last:
            close()
        if last is not None and of != last[0]:
            sets[last[0] - 1] = b"".join(collected)
            collected.clear()
        last = of, key
        value = number(_Annotation.TEXT_IID, iid) if iid is not None else number(_Annotation.UINT, amount or 0)
        if several:
            listed.append(text(_Annotation.ARRAY, value))
        else:
            collected.append(text(_Event.ANNOTATIONS, number(_Annotation.KEY_IID, key) + value))
    close()
    if last is not None:
        sets[last[0] - 1] = b"".join(collected)
    return sets


def _slices(slices: pl.DataFrame, texts: _Texts, *, steps: bool) -> bytes:
    """The begin and end of each slice, one after the other: the viewer sorts by time, and keeps the order of simultaneous events."""
    count = len(slices)
    track = slices["track"].to_numpy() + np.uint32(1)
    kind = slices["kind"].to_numpy()
    ending = np.isin(kind, (SliceKind.KERNEL, SliceKind.COPY))
    step = np.where(ending & steps, slices["step"].to_numpy(), -1)  # calls are inside their step
    flow, flows = slices["flow"].to_numpy().astype(np.int64), slices["flows"].to_numpy().astype(np.int64)
    lasting, stepping = np.flatnonzero(kind != SliceKind.MARK), np.flatnonzero(step >= 0)
    begin: list[Part] = [
        Chosen(_KINDS, kind),
        Varint(_Event.NAME_IID, slices["name"].to_numpy().astype(np.int64) + 1),
        Varint(_Event.TRACK, track),
        texts.annotations(slices["facts"].to_numpy()),
        # Not among the facts that slices share: with the step, there would be as many sets as slices.
        Some(
            stepping,
            Message(_Event.ANNOTATIONS, [Same(number(_Annotation.KEY_IID, 1)), Varint(_Annotation.INT, step[stepping])], len(stepping)),
        ),
        Runs(_Event.FLOWS, flow, np.where(ending, 0, flows)),
        Runs(_Event.ENDING_FLOWS, flow, np.where(ending, flows, 0)),
    ]
    end: list[Part] = [Same(number(_Event.TYPE, _END)), Varint(_Event.TRACK, track[lasting])]
    ends = _events(slices["end_ns"].to_numpy()[lasting], end, len(lasting))
    return encode([_events(slices["begin_ns"].to_numpy(), begin, count), Some(lasting, ends)], count)


_KINDS = [
    b"",
    *(
        number(_Event.CATEGORY_IIDS, place + 1) + number(_Event.TYPE, _INSTANT if kind == SliceKind.MARK else _BEGIN)
        for place, kind in enumerate(SliceKind)
    ),
]
"""By SliceKind, whose numbers are consecutive from 1."""


def _points(points: pl.DataFrame) -> bytes:
    count = len(points)
    event: list[Part] = [
        Same(number(_Event.TYPE, _COUNTER)),
        Varint(_Event.TRACK, points["track"].to_numpy() + np.uint32(1)),
        Fixed64(_Event.DOUBLE_VALUE, points["value"].to_numpy()),
    ]
    return encode([_events(points["time_ns"].to_numpy(), event, count)], count)


def _events(time_ns: NDArray[np.int64], parts: Sequence[Part], count: int) -> Message:
    packet: list[Part] = [Varint(_Packet.TIMESTAMP, time_ns), Message(_Packet.TRACK_EVENT, parts, count), Same(_TAIL)]
    return Message(_Packet.PACKET, packet, count)

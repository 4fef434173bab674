"""CPU profiles of V8 within traces of Chrome and node: `Profile` events with their `ProfileChunk`s, and `CpuProfile` events of older ones.

Their events hold whole trees of functions, so the file is read a second time for them, where it has some.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.errors import AiflameError
from aiflame.exchange.readers.chrome.events import PROFILES, Events
from aiflame.exchange.readers.chrome.threads import Threads
from aiflame.exchange.readers.frames import AnyFrame, Frames
from aiflame.exchange.readers.json_document import mapping, sequence, whole
from aiflame.exchange.readers.json_rows import NONE, JsonRows, Key, Kind
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.cpuprofile import add_times, calls_of_nodes
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.spans import divided
from aiflame.profile.schema.enums import SampleState
from aiflame.values import dataclass, field

_KEYS = (Key("ph", Kind.TEXT), Key("name", Kind.TEXT), Key("ts", Kind.DECIMAL, 3), Key("args.data", Kind.RAW, name="data"))
_MOST_CALLS = 8_000_000
_LONGEST = 1 << 61
_WHOLE = "CpuProfile"


@dataclass(slots=True)
class Profiles:
    """Samples of V8: calls, which follow those of the trace in one table of stacks, and the time of each sample."""

    making: Making
    frames: Frames
    process: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    frame: list[int] = field(default_factory=list)
    _rows: dict[tuple[int, int, int], int] = field(default_factory=dict)
    _thread: int = 0
    _times: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """process, thread, call (-1: none), begin and end"""

    def call(self, process: int, parent: int, frame: AnyFrame) -> int:
        key = process, parent, self.frames.number(frame)
        row = self._rows.setdefault(key, len(self.process))
        if row == len(self.process):
            if row == _MOST_CALLS:
                raise AiflameError(f"the stacks of the trace have more than {_MOST_CALLS:,} distinct places: too many to import")
            self.process.append(process)
            self.parent.append(parent)
            self.frame.append(key[2])
        return row

    def time(self, process: int, thread: int, call: int, clock: int, ns: int, at: int) -> None:
        """A sample, by its end; V8 knows of none on which thread it was taken."""
        if 0 < ns < _LONGEST and abs(at) < _LONGEST:
            self._times.append((process, self._thread, call, at - ns, at))

    def add(self, process: int, thread: int, profile: dict[str, Any]) -> None:
        self._thread = thread
        add_times(self, process, calls_of_nodes(self, process, profile), profile)

    def write(self, stack: Whole, shift: int) -> None:
        """`stack`: of each call."""
        if not self._times:
            return
        process, thread, call, begin, end = (np.array(column, dtype=np.int64) for column in zip(*self._times, strict=True))
        for row, first, last in divided(np.arange(len(begin)), begin + shift, end + shift):
            self.making.add(
                "cpu_samples",
                pl.DataFrame(
                    {
                        "process": process[row],
                        "thread": thread[row],
                        "stack": np.append(stack, 0)[call[row]],
                        "weight": np.ones(len(row), dtype=np.int64),
                        "time_ns": np.maximum(last, 0),
                        "period_ns": last - first,
                        "state": np.full(len(row), int(SampleState.ON_CPU)),
                        "clock": np.zeros(len(row), dtype=np.int64),
                    }
                ),
            )
        self.making.last_ns = max(self.making.last_ns, int(end.max()) + shift)
        self.making.note("samples of V8 last until the next one by the clock: how long a processor was used is not in the trace")


def read(source: Source, events: Events, threads: Threads, frames: Frames, making: Making) -> Profiles:
    """The profiles of all threads; none where the trace has none."""
    profiles = Profiles(making, frames)
    rows = events.profiles
    if rows.is_empty():
        return profiles
    data = list(_data(source))
    if len(data) != len(rows):
        making.note("the CPU profiles in the trace are damaged: they are left out")
        return profiles
    for (pid, tid), profile in _put_together(events, data):
        process, thread = threads.row_of(pid, tid)
        profiles.add(process, thread, profile)
    return profiles


def _data(source: Source) -> Iterator[str]:
    """The data of each event of profiles, in the order of the file."""
    rows = JsonRows(_KEYS, "traceEvents", source=source.name)

    def parts() -> Iterator[Any]:
        for block, _ in source.blocks():
            yield rows.feed(block)
        yield rows.finish()

    texts: dict[int, str] = {}

    def text(number: int) -> str:
        if number not in texts:
            texts[number] = rows.text(number) or ""
        return texts[number]

    for batch in parts():
        if batch.rows:
            for phase, name, ts, data in zip(*(batch[key].tolist() for key in ("ph", "name", "ts", "data")), strict=True):
                if ts != NONE and text(phase) in ("P", "I") and text(name) in PROFILES:
                    yield rows.text(data) or ""


def _put_together(events: Events, data: list[str]) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """Each profile as a file of its own would have it, with its thread. Chunks, which another thread writes, have the profile's id."""
    rows = events.profiles.with_columns(text=events.texts_of(events.profiles["name"])).select("pid", "tid", "id", "begin", "text")
    open_: dict[tuple[int, int], tuple[tuple[int, int], dict[str, Any]]] = {}
    for (pid, tid, number, begin, name), text in zip(rows.iter_rows(), data, strict=True):
        given = _parsed(text)
        if name == _WHOLE:
            yield (pid, tid), mapping(given.get("cpuProfile"))
            continue
        fresh: dict[str, Any] = {"nodes": [], "samples": [], "timeDeltas": [], "startTime": begin // 1000}
        profile = open_.setdefault((pid, number), ((pid, tid), fresh))[1]
        if name == "Profile":
            open_[pid, number] = (pid, tid), profile
            profile["startTime"] = whole(given.get("startTime"), begin // 1000)
        part = mapping(given.get("cpuProfile"))
        profile["nodes"] += sequence(part.get("nodes"))
        samples, deltas = sequence(part.get("samples")), sequence(given.get("timeDeltas")) or sequence(part.get("timeDeltas"))
        profile["samples"] += samples[: len(deltas)]
        profile["timeDeltas"] += deltas[: len(samples)]
        if "endTime" in given:
            profile["endTime"] = given["endTime"]
    yield from open_.values()


def _parsed(text: str) -> dict[str, Any]:
    try:
        return mapping(json.loads(text, strict=False)) if text else {}
    except (ValueError, RecursionError):
        return {}

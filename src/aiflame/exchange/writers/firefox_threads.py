"""The threads of a Firefox profile: tracks of the timeline with their slices as markers, and samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.stacks.sample_time import sample_ns
from aiflame.attribute.timeline.samples import clock_of, shown_parents
from aiflame.attribute.timeline.stacks import Stacks
from aiflame.attribute.timeline.tables import Making, SliceKind, Timeline, TrackKind
from aiflame.attribute.timeline.whole import owners_of
from aiflame.profile.schema.enums import SampleState
from aiflame.values import dataclass, field

_SAMPLES = {"node": pl.Int64, "kernel": pl.Int64, "begin_ns": pl.Int64, "worth": pl.Int64, "cpu": pl.Int64}
"""`node` of the trie of functions, `kernel` (row of names) below it or -1, `cpu`: CPU time, null where it means nothing."""
_MARKERS = {"name": pl.UInt32, "begin_ns": pl.Int64, "end_ns": pl.Int64, "kind": pl.UInt8, "facts": pl.UInt32}
_NO_TRACKS = (TrackKind.PROCESS, TrackKind.DEVICE, TrackKind.MACHINE, TrackKind.COUNTER, TrackKind.SAMPLES)


@dataclass(slots=True)
class Thread:
    name: str
    pid: int
    tid: int
    process: str
    main: bool
    parts: list[pl.DataFrame] = field(default_factory=list)
    """of samples"""
    marked: list[pl.DataFrame] = field(default_factory=list)

    @property
    def samples(self) -> pl.DataFrame:
        return pl.concat([pl.DataFrame(schema=_SAMPLES), *self.parts])

    @property
    def markers(self) -> pl.DataFrame:
        return pl.concat([pl.DataFrame(schema=_MARKERS), *self.marked])


class Threads:
    """Takes the parts of a timeline, then samples."""

    def __init__(self, profile: Analysis, stacks: Stacks, base: int) -> None:
        self.facts: dict[int, dict[str, str]] = {}
        self.parent = shown_parents(stacks)
        self._profile, self._stacks, self._base = profile, stacks, base
        self._threads: dict[tuple[object, ...], Thread] = {}
        self._of_track: list[tuple[object, ...] | None] = []
        self._tracks: list[dict[str, Any]] = []
        self._names: list[str] = []
        launches = profile.scan("launches").select("process", "stack").collect()
        self._launched = self._nodes(launches)

    def all(self) -> Iterator[Thread]:
        """Those that have something, the threads of a process beside each other."""
        there = [thread for thread in self._threads.values() if thread.parts or thread.marked]
        yield from sorted(there, key=lambda thread: thread.pid)

    def name(self, row: int) -> str:
        return self._names[row] or "[no name]"

    def used_nodes(self) -> Ints:
        parts = [part["node"].to_numpy() for thread in self._threads.values() for part in thread.parts]
        return np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *parts]))

    def kernels(self) -> list[tuple[int, int]]:
        """Each kernel with the node that it is below."""
        parts = [part.select("node", "kernel").unique() for thread in self._threads.values() for part in thread.parts]
        pairs = pl.concat([pl.DataFrame(schema={"node": pl.Int64, "kernel": pl.Int64}), *parts]).filter(pl.col("kernel") >= 0)
        return [(node, kernel) for node, kernel in pairs.unique().sort("node", "kernel").iter_rows()]

    def add(self, part: Timeline) -> None:
        for row in part.tracks.iter_rows(named=True):
            self._tracks.append(row)
            self._of_track.append(self._key(row))
        self._names += part.names.to_list()
        for number, key, text, amount in part.facts.select("set", "key", "text", "number").iter_rows():
            of_set = self.facts.setdefault(number, {})
            value = text if text is not None else str(amount or 0)
            of_set[key] = f"{of_set[key]} < {value}" if key in of_set else value
        for (track,), slices in part.slices.partition_by("track", as_dict=True, maintain_order=True).items():
            key = self._of_track[int(track)]
            if key is None:
                continue
            thread = self._threads[key]
            rows = slices.with_columns(pl.col("begin_ns", "end_ns") - self._base)
            thread.marked.append(rows.select(list(_MARKERS)))
            work = rows.filter(pl.col("kind").is_in([int(SliceKind.KERNEL), int(SliceKind.COPY)]))
            if len(work):
                launch = work["launch"].to_numpy()
                node = np.where(launch >= 0, self._launched[launch], 0) if len(self._launched) else np.zeros(len(work), dtype=np.int64)
                columns = {"node": pl.Series(node), "kernel": pl.col("name"), "worth": pl.col("end_ns") - pl.col("begin_ns")}
                thread.parts.append(work.with_columns(**columns, cpu=None).select(list(_SAMPLES)).cast(_SAMPLES))  # type: ignore[arg-type]

    def add_samples(self) -> None:
        clock = clock_of(self._profile)
        if clock is None:
            return
        end = pl.col("time_ns").clip(upper_bound=LATEST).cast(pl.Int64)
        rows = self._profile.scan("cpu_samples").filter(pl.col("clock") == clock)
        chosen = rows.select("process", "thread", "stack", "state", end=end, worth=sample_ns().cast(pl.Int64)).collect()
        on_cpu = pl.col("state") == int(SampleState.ON_CPU)
        chosen = chosen.with_columns(
            node=pl.Series(self._nodes(chosen)),
            kernel=pl.lit(-1),
            begin_ns=pl.col("end") - pl.col("worth") - self._base,
            cpu=pl.when(on_cpu).then("worth").otherwise(0),
        )
        making = Making()
        owners = owners_of(self._profile, making)
        tracks: list[dict[str, Any]] = []
        for (process, thread), part in chosen.partition_by("process", "thread", as_dict=True, maintain_order=True).items():
            key = "thread", int(process), int(thread)
            if key not in self._threads:
                track = owners.thread(int(process), int(thread))
                tracks += making.finish().tracks.rows(named=True)
                row, above = tracks[track], tracks[tracks[track]["parent"]]
                self._threads[key] = Thread(row["name"], self._pid(above), row["number"], above["name"], row["number"] == above["number"])
            self._threads[key].parts.append(part.select(list(_SAMPLES)).cast(_SAMPLES))  # type: ignore[arg-type]

    def _nodes(self, rows: pl.DataFrame) -> Ints:
        process, stack = (rows[name].to_numpy().astype(np.int64) for name in ("process", "stack"))
        return self._stacks.visible_of(process, stack)

    def _pid(self, process: dict[str, Any]) -> int:
        return int(process["number"]) or (1 << 23) + int(process["process"])

    def _key(self, row: dict[str, Any]) -> tuple[object, ...] | None:
        """Which thread a track belongs to; it is made when it is new."""
        kind, above = TrackKind(row["kind"]), int(row["parent"])
        if kind in _NO_TRACKS:
            return None
        process = self._process(above)
        key: tuple[object, ...]
        if kind == TrackKind.THREAD or (kind == TrackKind.REGIONS and row["thread"]):
            key = "thread", row["process"], row["thread"]
            name, tid = str(row["name"]), int(row["number"])
        elif kind in (TrackKind.STREAM, TrackKind.PURPOSE):
            key, tid = ("stream", above, row["number"]), 0
            name = f"{self._tracks[above]['name']} stream {row['number']}"
        else:
            key, tid, name = ("track", above, row["name"]), 0, str(row["name"])
        if key not in self._threads:
            free = (1 << 23) + len(self._threads)
            self._threads[key] = Thread(name, self._pid(process), tid or free, str(process["name"]), bool(tid) and tid == process["number"])
        return key

    def _process(self, track: int) -> dict[str, Any]:
        while int(self._tracks[track]["parent"]) >= 0:
            track = int(self._tracks[track]["parent"])
        return self._tracks[track]

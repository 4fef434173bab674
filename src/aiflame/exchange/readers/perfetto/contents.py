"""Reads all packets of a trace, and resolves their references: times, tracks, interned texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.perfetto.clocks import MONOTONIC, Clocks
from aiflame.exchange.readers.perfetto.events import EVENT, NONE, Events
from aiflame.exchange.readers.perfetto.interned import CATEGORIES, INTERNED, NAMES, Interned, Texts
from aiflame.exchange.readers.perfetto.packets import PacketReader, Packets
from aiflame.exchange.readers.perfetto.tracks import Tracks
from aiflame.exchange.readers.protobuf import DamagedError, fields, message, unsigned
from aiflame.exchange.readers.source import Source

_PROCESS_TREE, _SNAPSHOT, _PROCESS, _THREAD, _DEFAULTS, _TRACK = 2, 6, 43, 44, 59, 60
RENDER_STAGE, PROFILE, STREAMED_PROFILE, PERF_SAMPLE, STACK_SAMPLE, SYMBOLS, GPU_COUNTERS = 53, 37, 54, 66, 135, 61, 52
_KEPT = (RENDER_STAGE, PROFILE, STREAMED_PROFILE, PERF_SAMPLE, STACK_SAMPLE, SYMBOLS, GPU_COUNTERS)
_KNOWN = {_PROCESS_TREE, _SNAPSHOT, _PROCESS, _THREAD, _DEFAULTS, _TRACK, INTERNED, EVENT, *_KEPT}
_GLOBAL = 0
_USED = (
    *("event", "time", "uuid", "scope", "type", "name", "category", "value"),
    *("phase", "duration_us", "unscoped", "local", "shared", "id_scope"),
)
"""Columns of events that their readers use."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A packet with a message that a reader of its own reads."""

    packet: int
    sequence: int
    scope: int
    message: bytes


@dataclass(slots=True)
class Contents:
    texts: Texts = field(default_factory=Texts)
    events: Events = field(default_factory=Events)
    tracks: Tracks = field(default_factory=Tracks)
    clocks: Clocks = field(default_factory=Clocks)
    kept: dict[int, list[Kept]] = field(default_factory=lambda: {number: [] for number in _KEPT})
    """By field of the packet."""
    defaults: list[tuple[int, int, int, dict[int, bytes | int]]] = field(default_factory=list)
    """packet, sequence, scope, fields"""
    damaged: int = 0
    interned: Interned = field(init=False)
    _packets: list[pl.DataFrame] = field(default_factory=list)
    _times: tuple[Whole, Whole] | None = None

    def __post_init__(self) -> None:
        self.interned = Interned(self.texts)

    @staticmethod
    def read(source: Source, making: Making, progress: Callable[[float], None]) -> Contents:
        contents = Contents()
        reader = PacketReader(source, making, progress)
        for packets in reader.batches(_KNOWN):
            contents._add(packets)
        contents.damaged += reader.damaged + contents.events.damaged + contents.interned.damaged
        contents._set_times()
        making.unused.update(contents.events.unused)
        making.unused.update({f"interned data of field {number}": count for number, count in contents.interned.unused.items()})
        if contents.clocks.unknown:
            numbers = ", ".join(sorted({str(number) for _, number in contents.clocks.unknown}))
            making.note(f"no snapshot leads from the clocks {numbers} to the trace's: their times are taken as they are")
        return contents

    def time_of(self, packet: Whole) -> Whole:
        """The times of packets by their numbers; NONE for those without one."""
        assert self._times is not None
        numbers, times = self._times
        if not len(numbers):
            return np.full(len(packet), NONE, dtype=np.int64)
        place = np.minimum(np.searchsorted(numbers, packet), len(numbers) - 1)
        return np.where(numbers[place] == packet, times[place], NONE)

    def defaults_of(self, kept: Kept) -> dict[int, bytes | int]:
        """The defaults that a packet's sequence has at that moment."""
        before = (one[3] for one in reversed(self.defaults) if one[1:3] == (kept.sequence, kept.scope) and one[0] <= kept.packet)
        return next(before, {})

    def event_table(self) -> pl.DataFrame:
        """The events with `time`, `lane`, `uuid`, `pid_of_lane`, and names and categories as numbers of texts."""
        rows = self.events.take_table().with_columns(event=pl.int_range(0, pl.len()))
        rows = self._with_defaults(rows, "track_default")
        of_sequence = rows["sequence"].replace_strict(
            {sequence: number for number, sequence in enumerate(self.tracks.of_sequences)}, default=-1, return_dtype=pl.Int64
        )
        rows = rows.with_columns(
            of_sequence=of_sequence,
            uuid=pl.when("has_track").then("track").otherwise(pl.col("track_default").fill_null(_GLOBAL)),
            time=pl.Series(self._event_times(rows)),
        )
        scope = rows["scope"].to_numpy()
        for name, number in (("name", NAMES), ("category", CATEGORIES)):
            inline = rows[name].to_numpy()
            iid = rows[f"{name}_iid"].to_numpy()
            if name == "name":
                legacy = rows["legacy_name"].to_numpy()
                iid = np.where((iid == 0) & (legacy != NONE), legacy, iid)
            interned = np.maximum(self.interned.numbers(number, scope, iid), 0)
            rows = rows.with_columns(pl.Series(name, np.where(inline > 0, inline, interned)))
        return self._with_lanes(rows)

    def _with_lanes(self, rows: pl.DataFrame) -> pl.DataFrame:
        """A track of the trace, or a thread that older traces name beside it."""
        key = ["uuid"]
        if self.tracks.of_sequences or (rows["pid"] != NONE).any() or (rows["tid"] != NONE).any():
            thread = pl.when(pl.col("has_track") | (pl.col("uuid") != _GLOBAL)).then(-1).otherwise("of_sequence")
            key, rows = ["uuid", "of_sequence", "pid", "tid"], rows.with_columns(of_sequence=thread)
        lanes = rows.select(key).unique(maintain_order=True).with_columns(lane=pl.int_range(0, pl.len()))
        threads = list(self.tracks.of_sequences.values())
        places = []
        for row in lanes.select(key).iter_rows():
            uuid, of_sequence, pid, tid = row if len(key) > 1 else (*row, -1, NONE, NONE)
            if of_sequence >= 0:
                own, thread_of = threads[of_sequence]
            else:
                place = self.tracks.place(uuid & 0xFFFFFFFFFFFFFFFF)
                own, thread_of = place.pid, place.tid
            places.append((own if pid == NONE else pid, thread_of if tid == NONE else tid))
        schema = {"pid_of_lane": pl.Int64, "tid_of_lane": pl.Int64}
        lanes = lanes.hstack(pl.DataFrame(places, schema=schema, orient="row"))
        return rows.select(*_USED, *(name for name in key if name != "uuid")).join(lanes, on=key, how="left", maintain_order="left")

    def _event_times(self, rows: pl.DataFrame) -> Whole:
        times = self.time_of(rows["packet"].to_numpy())
        delta, absolute = rows["delta_us"].to_numpy(), rows["absolute_us"].to_numpy()
        old = (delta != NONE) | (absolute != NONE)
        if old.any():
            base = rows["sequence"].replace_strict(self.tracks.references, default=0, return_dtype=pl.Int64).to_numpy()
            step = pl.Series("step", np.where(delta != NONE, np.clip(delta, -(1 << 40), 1 << 40), 0))
            passed = rows.select("scope").with_columns(step).select(pl.col("step").cum_sum().over("scope")).to_series().to_numpy()
            moment = np.clip(np.where(absolute != NONE, absolute, base + passed), -(1 << 50), 1 << 50) * 1000
            here = np.flatnonzero(old)
            clock = np.full(len(here), MONOTONIC if self.clocks.primary else 0)
            sequence = rows["sequence"].to_numpy()[here]
            times[here] = self.clocks.of_packets(rows["packet"].to_numpy()[here], sequence, clock, moment[here])
        return times

    def _add(self, packets: Packets) -> None:
        self.interned.add(packets)
        self.events.add(packets, self.texts)
        timed = packets.timestamp != -1
        numbers = packets.first + np.arange(len(packets.timestamp))
        columns = {"packet": numbers, "sequence": packets.sequence, "scope": packets.scope, "clock": packets.clock}
        columns["time"] = packets.timestamp
        self._packets.append(pl.DataFrame({name: column[timed] for name, column in columns.items()}))
        for number in (_PROCESS_TREE, _SNAPSHOT, _PROCESS, _THREAD, _DEFAULTS, _TRACK, *_KEPT):
            packet, begin, end = packets.messages(number)
            for at, first, until in zip(packet.tolist(), begin.tolist(), end.tolist(), strict=True):
                data = packets.batch.bytes[first:until]
                try:
                    self._add_message(number, packets, at, data)
                except DamagedError:
                    self.damaged += 1

    def _add_message(self, number: int, packets: Packets, at: int, data: bytes) -> None:
        packet, sequence, scope = packets.first + at, int(packets.sequence[at]), int(packets.scope[at])
        if number in _KEPT:
            self.kept[number].append(Kept(packet, sequence, scope, data))
        elif number == _SNAPSHOT:
            self.clocks.add(packet, sequence, data)
        elif number == _DEFAULTS:
            self.defaults.append((packet, sequence, scope, _fields(data)))
        elif number == _TRACK:
            self.tracks.add(data, int(packets.pid[at]))
        elif number == _PROCESS:
            self.tracks.add_process(memoryview(data))
        elif number == _THREAD:
            self.tracks.add_thread_of_sequence(sequence, data)
        else:
            self.tracks.add_process_tree(data)

    def _set_times(self) -> None:
        rows = pl.concat(self._packets) if self._packets else pl.DataFrame()
        self._packets.clear()
        if rows.is_empty():
            self._times = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
            return
        rows = self._with_defaults(rows, "clock_default").with_columns(
            clock=pl.when(pl.col("clock") == 0).then(pl.col("clock_default").fill_null(0)).otherwise("clock")
        )
        packet, sequence, clock, time = (rows[name].to_numpy() for name in ("packet", "sequence", "clock", "time"))
        self._times = packet, self.clocks.of_packets(packet, sequence, clock, time)

    def _with_defaults(self, rows: pl.DataFrame, column: str) -> pl.DataFrame:
        """The default that each packet's sequence has had since its state was cleared."""
        given = [(packet, scope, _default(fields_, column)) for packet, _, scope, fields_ in self.defaults]
        table = pl.DataFrame(given, schema={"packet": pl.Int64, "scope": pl.Int64, column: pl.Int64}, orient="row")
        return rows.join_asof(table.sort("packet"), on="packet", by="scope", strategy="backward", check_sortedness=False)


def _default(given: dict[int, bytes | int], column: str) -> int | None:
    if column == "clock_default":
        value = given.get(58)
        return value & 0xFFFFFFFF if isinstance(value, int) else None
    events = given.get(11)
    if not isinstance(events, bytes):
        return None
    uuid = next((unsigned(value) for number, value in fields(events) if number == 11), None)
    return None if uuid is None else uuid - (1 << 64) if uuid >> 63 else uuid


def _fields(data: bytes) -> dict[int, bytes | int]:
    return {number: value if isinstance(value, int) else bytes(message(value)) for number, value in fields(data)}

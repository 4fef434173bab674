"""Chrome's JSON trace events, which Perfetto, chrome://tracing, speedscope and others open: the timeline, written while it is made.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. A viewer knows processes and threads only: each track of
the timeline is a thread of its process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

import numpy as np
import polars as pl

from aiflame.attribute.devices.records import COPY_NAMES
from aiflame.attribute.timeline.tables import SliceKind, Timeline, TrackKind
from aiflame.attribute.timeline.whole import timeline
from aiflame.exchange.writers.event_text import at_least, members, microseconds, number, text
from aiflame.exchange.writers.facts import Facts
from aiflame.exchange.writers.json_events import Choice, EventFile, FactTexts, quoted
from aiflame.exchange.writers.kineto_devices import COPIES
from aiflame.profile.tables.interface import Tables

CATEGORIES: Mapping[SliceKind, str] = {
    SliceKind.STEP: "user_annotation",
    SliceKind.PHASE: "user_annotation",
    SliceKind.LAYER: "layer",
    SliceKind.OP: "cpu_op",
    SliceKind.CALL: "Runtime",
    SliceKind.WAIT: "wait",
    SliceKind.KERNEL: "kernel",
    SliceKind.COPY: "gpu_memcpy",
    SliceKind.REGION: "user_annotation",
    SliceKind.MARK: "mark",
    SliceKind.FUNCTION: "function",
    SliceKind.WAITING: "waiting",
    SliceKind.TRACED: "traced call",
    SliceKind.SCOPE: "inside a kernel",
}
"""The names that torch.profiler gives such slices, where it has them."""
ON_DEVICES = "gpu_user_annotation"
"""Steps, phases, layers and ops of the work on a stream."""
_OF_TORCH = {name: COPIES[kind] for kind, name in COPY_NAMES.items()}
"""Names of copies that readers of such traces understand."""
_FREE = 1 << 23
"""No process and no thread has this number or a greater one."""
_MACHINE = 1 << 24


def write(profile: Tables, facts: Facts, file: TextIO, *, samples: bool = True) -> int:
    """The number of events."""
    trace = _Trace(facts, file)
    trace.add(timeline(profile, samples=samples, taker=trace.add))
    return trace.finish()


def head(facts: Facts) -> dict[str, object]:
    """Facts about the whole trace. Its times count from `baseTimeNanoseconds` since 1970."""
    about = {"command": " ".join(facts.command), "host": facts.host, "made by": facts.comments[0], "notes": list(facts.notes)}
    return {
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": facts.since_1970(facts.clocks.monotonic_ns),
        "otherData": {key: value for key, value in about.items() if value},
    }


class _Trace:
    """A trace that grows by parts of a timeline."""

    def __init__(self, facts: Facts, file: TextIO) -> None:
        self._base = facts.clocks.monotonic_ns
        self._file = EventFile(file, head(facts))
        self._pid: list[int] = []
        """Of each track."""
        self._tid: list[int] = []
        self._kind: list[int] = []
        self._shown: list[str] = []
        self._unit: list[str] = []
        self._taken: set[tuple[int, int]] = set()
        self._names: list[str] = []
        self._facts = FactTexts()

    def add(self, part: Timeline) -> None:
        self._tracks(part.tracks)
        self._names += [quoted(_OF_TORCH.get(name, name)) for name in part.names.to_list()]
        self._facts.add(part.facts)
        for begin in range(0, len(part.slices), 1 << 18):
            self._slices(part.slices[begin : begin + (1 << 18)])
        self._points(part.points)

    def finish(self) -> int:
        self._file.finish()
        return self._file.events

    def _tracks(self, tracks: pl.DataFrame) -> None:
        events: list[dict[str, object]] = []

        def tell(what: str, track: int, **value: object) -> None:
            events.append({"ph": "M", "name": what, "pid": self._pid[track], "tid": self._tid[track], "args": value})

        for row in tracks.iter_rows(named=True):
            kind, track, above, name = TrackKind(row["kind"]), row["track"], row["parent"], row["name"] or "[no name]"
            self._kind.append(int(kind))
            self._unit.append(row["unit"])
            if above < 0:
                self._pid.append(self._free(-1, row["number"] or _FREE + track, _MACHINE + track))
                self._tid.append(0)
                self._shown.append("")
                tell("process_name", track, name=_short(name))
                tell("process_sort_index", track, sort_index=track)
                if row["full_name"]:
                    tell("process_labels", track, labels=_short(row["full_name"].replace("\0", " ").strip()))
                continue
            pid = self._pid[above]
            self._pid.append(pid)
            own = row["number"] if kind == TrackKind.THREAD else 0
            self._tid.append(self._free(pid, own or _FREE + track, _FREE + track))
            self._shown.append(f"{self._shown[above]} › {name}" if self._shown[above] else name)
            if kind != TrackKind.COUNTER:
                tell("thread_name", track, name=_short(self._shown[track]))
                tell("thread_sort_index", track, sort_index=track)
        self._file.add_all(events)

    def _free(self, pid: int, tid: int, otherwise: int) -> int:
        """The number of a thread, or of a process (`pid` -1), if no other track has it."""
        own = otherwise if (pid, tid) in self._taken else tid
        self._taken.add((pid, own))
        return own

    def _slices(self, slices: pl.DataFrame) -> None:
        track, kind = slices["track"].to_numpy(), slices["kind"].to_numpy()
        on_devices = np.array(self._kind)[track] == TrackKind.PURPOSE
        categories = ["", *(CATEGORIES[one] for one in SliceKind), ON_DEVICES]
        category = Choice("category", categories, np.where(on_devices, len(categories) - 1, kind))
        name = Choice("named", self._names, slices["name"].to_numpy())
        facts = self._facts.of("said", slices["facts"].to_numpy())
        rows = slices.with_columns(
            pl.Series("pid", np.array(self._pid)[track]),
            pl.Series("tid", np.array(self._tid)[track]),
            category.numbers,
            name.numbers,
            facts.numbers,
            begin=pl.col("begin_ns") - self._base,
            took=pl.col("end_ns") - pl.col("begin_ns"),
            correlation=pl.col("launch") + 1,
        )
        moment = pl.col("kind") == int(SliceKind.MARK)
        where = (text(',"pid":'), number("pid"), text(',"tid":'), number("tid"), text(',"ts":'), microseconds("begin"))
        what = (category.piece, text('","name":'), name.piece, *where)
        linked = at_least("correlation", 1, text(',"correlation":'), number("correlation"))
        of_step = at_least("step", 0, text(',"step":'), number("step"))
        args = (members(facts.piece, linked, of_step), text("}"))
        self._file.add(rows.filter(~moment), text('{"ph":"X","cat":"'), *what, text(',"dur":'), microseconds("took"), *args)
        self._file.add(rows.filter(moment), text('{"ph":"i","s":"t","cat":"'), *what, *args)
        self._arrows(rows.filter(pl.col("flows") > 0).select("kind", "flow", "flows", "pid", "tid", "begin"))

    def _arrows(self, rows: pl.DataFrame) -> None:
        """From launches to their kernels and copies: a viewer joins the two ends by their number."""
        where = (
            number("id"),
            text(',"pid":'),
            number("pid"),
            text(',"tid":'),
            number("tid"),
            text(',"ts":'),
            microseconds("begin"),
            text("}"),
        )
        call = pl.col("kind") == int(SliceKind.CALL)
        numbers = pl.int_ranges("flow", pl.col("flow") + pl.col("flows"), dtype=pl.Int64)
        begins = rows.filter(call).with_columns(id=numbers).explode("id")
        self._file.add(begins, text('{"ph":"s","cat":"ac2g","name":"ac2g","id":'), *where)
        self._file.add(rows.filter(~call).with_columns(id="flow"), text('{"ph":"f","bp":"e","cat":"ac2g","name":"ac2g","id":'), *where)

    def _points(self, points: pl.DataFrame) -> None:
        track = points["track"].to_numpy()
        names = [quoted(name) for name in self._shown]
        units = [quoted(unit or "value") for unit in self._unit]
        name, unit = Choice("named", names, track), Choice("unit", units, track)
        rows = points.with_columns(
            pl.Series("pid", np.array(self._pid, dtype=np.int64)[track]),
            name.numbers,
            unit.numbers,
            begin=pl.col("time_ns") - self._base,
        ).filter(pl.col("value").is_finite())
        value = Choice("number", rows["value"].cast(pl.String).to_list(), np.arange(len(rows)))
        where = (text(',"pid":'), number("pid"), text(',"ts":'), microseconds("begin"))
        self._file.add(
            rows.with_columns(value.numbers),
            text('{"ph":"C","name":'),
            name.piece,
            *where,
            text(',"args":{'),
            unit.piece,
            text(":"),
            value.piece,
            text("}}"),
        )


def _short(name: str) -> str:
    return name if len(name) <= 4096 else name[:4096] + "…"

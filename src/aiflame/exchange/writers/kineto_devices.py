"""Work of devices, as torch.profiler writes it: kernels, copies and fills, and the ends of arrows from their launches."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.devices.records import COPY_NAMES
from aiflame.attribute.timeline.tables import SliceKind, Timeline, TrackKind
from aiflame.attribute.timeline.work import NO_DEVICE
from aiflame.exchange.writers.event_text import at_least, microseconds, number, text
from aiflame.exchange.writers.json_events import Choice, EventFile, quoted
from aiflame.json_text import json_text
from aiflame.profile.schema.enums import CopyKind
from aiflame.values import dataclass

COPIES = {
    CopyKind.HOST_TO_DEVICE: "Memcpy HtoD (Host -> Device)",
    CopyKind.DEVICE_TO_HOST: "Memcpy DtoH (Device -> Host)",
    CopyKind.DEVICE_TO_DEVICE: "Memcpy DtoD (Device -> Device)",
    CopyKind.FILL: "Memset (Device)",
    CopyKind.MAP: "Memcpy HtoD (Host -> Device, mapped)",
    CopyKind.PEER: "Memcpy PtoP (Device -> Device)",
}
_NUMBERED = re.compile(r"(?P<name>.*) \[(?P<number>\d{1,5})\]", re.DOTALL)
_FIRST_FREE_STREAM = 1 << 16


@dataclass(frozen=True, slots=True)
class Devices:
    numbers: dict[str, int]
    """By the name that our tables have: `NVIDIA H200 [0]`."""

    @staticmethod
    def of(profile: Analysis) -> Devices:
        named = [profile.scan(table).select(pl.col("device").unique()).collect()["device"] for table in ("kernel_shapes", "copies")]
        numbers: dict[str, int] = {}
        free = set(range(1 << 16))
        names = sorted({str(name) or NO_DEVICE for name in pl.concat(named).to_list()})
        for name in names:
            if (given := _NUMBERED.fullmatch(name)) and int(given["number"]) in free:
                numbers[name] = int(given["number"])
                free.discard(numbers[name])
        for name in names:
            if name not in numbers:
                numbers[name] = min(free)
                free.discard(numbers[name])
        return Devices(numbers)

    @property
    def count(self) -> int:
        return max(self.numbers.values(), default=-1) + 1

    def number(self, name: str) -> int:
        return self.numbers.setdefault(name, self.count)

    def properties(self) -> list[dict[str, object]]:
        """The number and the name of each, for `deviceProperties`."""
        return [{"id": one, "name": _bare(name)} for name, one in sorted(self.numbers.items(), key=lambda pair: pair[1])]

    def names(self) -> list[dict[str, object]]:
        events: list[dict[str, object]] = []
        for name, pid in self.numbers.items():
            values = (
                ("process_name", {"name": name}),
                ("process_labels", {"labels": f"GPU {pid}"}),
                ("process_sort_index", {"sort_index": 5_000_000 + pid}),
            )
            events += [{"ph": "M", "name": what, "pid": pid, "tid": 0, "args": value} for what, value in values]
        return events


def _bare(name: str) -> str:
    given = _NUMBERED.fullmatch(name)
    return given["name"] if given else name


class Work:
    """Takes the parts of a timeline that kernels and copies are in."""

    def __init__(self, file: EventFile, devices: Devices, base: int, external: NDArray[np.int64], original: Mapping[str, str]) -> None:
        """`external`: of each launch, the number of the op around it. `original`: whole names of kernels as another tool wrote them."""
        self._original = original
        self._file, self._devices, self._base, self._external = file, devices, base, external
        self._device: list[int] = []
        """Of each track, and its stream."""
        self._stream: list[int] = []
        self._streams: dict[tuple[int, int], int] = {}
        """Of each device's streams the process that uses it: no two may share one."""
        self._names: list[str] = []
        self._full: list[str] = [""]
        """The whole name of a kernel, by its set of facts."""
        self._args: list[str] = [""]

    def add(self, part: Timeline) -> None:
        """Writes them."""
        events: list[dict[str, object]] = []
        for row in part.tracks.iter_rows(named=True):
            device, stream = -1, -1
            if row["kind"] == TrackKind.DEVICE:
                device = self._devices.number(row["name"])
            elif row["kind"] == TrackKind.STREAM:
                device = self._device[row["parent"]]
                stream = self._own_stream(device, row["number"], row["process"])
                events.append({"ph": "M", "name": "thread_name", "pid": device, "tid": stream, "args": {"name": f"stream {stream}"}})
            self._device.append(device)
            self._stream.append(stream)
        self._file.add_all(events)
        self._names += part.names.to_list()
        self._facts(part.facts)
        for begin in range(0, len(part.slices), 1 << 18):
            rows = part.slices[begin : begin + (1 << 18)]
            self._kernels(rows.filter(pl.col("kind") == int(SliceKind.KERNEL)))
            self._copies(rows.filter(pl.col("kind") == int(SliceKind.COPY)))

    def _own_stream(self, device: int, stream: int, process: int) -> int:
        if self._streams.setdefault((device, stream), process) == process:
            return stream
        free = _FIRST_FREE_STREAM + len(self._streams)
        self._streams[device, free] = process
        return free

    def _facts(self, facts: pl.DataFrame) -> None:
        current = 0
        of_set: dict[str, str | int] = {}
        for number_of, key, value, amount in facts.select("set", "key", "text", "number").iter_rows():
            if number_of != current:
                self._keep(current, of_set)
                current, of_set = number_of, {}
            of_set.setdefault(key, value if value is not None else amount or 0)
        self._keep(current, of_set)

    def _keep(self, number_of: int, of_set: dict[str, str | int]) -> None:
        if not number_of:
            return
        for texts in (self._full, self._args):
            texts += [""] * (number_of - len(texts))
        full = str(of_set.get("full_name", ""))
        self._full.append(self._original.get(full, full))
        args: dict[str, object] = {}
        for key, said in (("registers", "registers per thread"), ("bytes", "bytes")):
            if of_set.get(key):
                args[said] = of_set[key]
        if shared := int(of_set.get("static_shared", 0)) + int(of_set.get("dynamic_shared", 0)):
            args["shared memory"] = shared
        for key in ("grid", "block"):
            if of_set.get(key):
                args[key] = [int(one) for one in str(of_set[key]).split(" × ")]
        self._args.append("".join(f",{quoted(key)}:{json_text(value, separators=(',', ':'))}" for key, value in args.items()))

    def _kernels(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        sets, names = rows["facts"].to_numpy(), rows["name"].to_numpy()
        key = sets.astype(np.int64) << 32 | names
        distinct, which = np.unique(key, return_inverse=True)
        named = [
            quoted(self._full[one >> 32] if one >> 32 < len(self._full) and self._full[one >> 32] else self._names[one & 0xFFFFFFFF])
            for one in distinct.tolist()
        ]
        self._write(rows, Choice("named", named, which), Choice("category", ["kernel"], np.zeros(len(rows), dtype=np.int64)))

    def _copies(self, rows: pl.DataFrame) -> None:
        if rows.is_empty():
            return
        kind_of = {name: kind for kind, name in COPY_NAMES.items()}
        kinds = [kind_of.get(name, CopyKind.DEVICE_TO_DEVICE) for name in self._names]
        name = Choice("named", [quoted(COPIES[kind]) for kind in kinds], rows["name"].to_numpy())
        categories = ["gpu_memset" if kind == CopyKind.FILL else "gpu_memcpy" for kind in kinds]
        self._write(rows, name, Choice("category", categories, rows["name"].to_numpy()))

    def _write(self, rows: pl.DataFrame, name: Choice, category: Choice) -> None:
        track, launch = rows["track"].to_numpy(), rows["launch"].to_numpy()
        self._args += [""] * (int(rows["facts"].max() or 0) + 1 - len(self._args))  # type: ignore[arg-type]
        external = self._external[launch] if len(self._external) else np.zeros(len(rows), dtype=np.int64)
        facts = Choice("said", self._args, rows["facts"].to_numpy())
        rows = rows.with_columns(
            name.numbers,
            category.numbers,
            facts.numbers,
            pl.Series("pid", np.array(self._device)[track]),
            pl.Series("tid", np.array(self._stream)[track]),
            pl.Series("external", np.where(launch >= 0, external, 0)),
            begin=pl.col("begin_ns") - self._base,
            took=pl.col("end_ns") - pl.col("begin_ns"),
            id=pl.col("launch") + 1,
        )
        where = (text(',"pid":'), number("pid"), text(',"tid":'), number("tid"), text(',"ts":'), microseconds("begin"))
        args = (
            text(',"args":{"device":'),
            number("pid"),
            text(',"context":1,"stream":'),
            number("tid"),
            at_least("id", 1, text(',"correlation":'), number("id")),
            at_least("external", 1, text(',"External id":'), number("external")),
            facts.piece,
            text("}}"),
        )
        what = (text('{"ph":"X","cat":"'), category.piece, text('","name":'), name.piece)
        self._file.add(rows, *what, *where, text(',"dur":'), microseconds("took"), *args)
        arrow = (text('{"ph":"f","bp":"e","cat":"ac2g","name":"ac2g","id":'), number("id"), *where, text("}"))
        self._file.add(rows.filter(pl.col("launch") >= 0), *arrow)

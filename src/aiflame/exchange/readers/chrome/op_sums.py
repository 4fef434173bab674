"""Calls of torch's ops by their inputs, as torch's own tables sum them up: time, work of devices, memory, operations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints, Mask, Whole
from aiflame.exchange.readers.chrome.events import MEMORY, Events
from aiflame.exchange.readers.chrome.meaning import OPS, RUNTIMES, region_name
from aiflame.exchange.readers.chrome.op_shapes import call_of_texts, placed
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.spans import Spans
from aiflame.exchange.readers.torch_flops import flops_of

_MOST = 100_000
"""Different inputs; calls with others are summed up by the name of their op."""
_LONGEST = 4_000
"""Characters of a description of inputs; longer ones are left out."""
_AT_ONCE = 1 << 18
_STEP = re.compile(r"^ProfilerStep#\d+$")
_CPU, _MKLDNN, _IDEEP = 0, 2, 5
_ON_CPUS = (_CPU, _MKLDNN, _IDEEP)
"""torch's numbers of devices that are CPUs."""
_NO_NAME = (1 << 32) - 1
"""Stands for the name `[memory]`, which the texts of the trace need not have."""
_INPUTS = ("dims", "types", "values")
_KEY = ["process", "name", *_INPUTS]
_KINDS = ("cpu", "device")
_BYTES = tuple(f"{own}{kind}_bytes" for kind in _KINDS for own in ("self_", ""))
_SUMS = ("calls", "self_ns", "took_ns", "self_device_ns", "device_ns", "launches", *_BYTES)


def add_op_sums(
    making: Making,
    events: Events,
    calls: pl.DataFrame,
    spans: Spans,
    launches: pl.DataFrame,
    work: pl.DataFrame,
    annotated: pl.DataFrame,
    memory: pl.DataFrame,
) -> None:
    """Writes the sums, where the trace has shapes or memory. `launches`: process, correlation, row (of `calls`); `work`: process,
    correlation, took; `annotated`: the stretches of time that the program named; `memory`: process, moment, allocated, device_type."""
    if events.shapes.is_empty() and memory.is_empty():
        return
    of = _Calls(events, calls, spans)
    if not len(of.row):
        return
    columns = {"calls": of.count(), **of.times(), **of.on_devices(launches, work)}
    bytes_of, beside = of.memory(annotated, memory) if len(memory) else ({}, [])
    parts = [pl.DataFrame(schema=dict.fromkeys(_SUMS, pl.Int64)), *of.pieces(columns | bytes_of), *beside]
    rows = pl.concat(parts, how="diagonal").group_by(_KEY, maintain_order=True).agg(pl.col(name).sum() for name in _SUMS)
    _write(making, events, rows)


class _Calls:
    """The calls of ops and runtimes, and which made which."""

    def __init__(self, events: Events, calls: pl.DataFrame, spans: Spans) -> None:
        self._events, self._spans = events, spans
        kinds = calls["cat"].unique()
        texts = events.texts_of(kinds)
        ops, runtimes = (calls["cat"].is_in(kinds.filter(texts.is_in(names)).implode()).to_numpy() for names in (OPS, RUNTIMES))
        self._is_op: Mask = ops
        self.row: Whole = np.flatnonzero(ops | runtimes)
        around = spans.nearest(ops | runtimes, strict=True)[self.row]
        self.parent: Whole = np.where(around >= 0, np.searchsorted(self.row, np.maximum(around, 0)), -1)
        """The call that made each; -1: none."""
        self._name = calls["name"].gather(self.row)
        names = self._name.to_numpy()
        inner = self.parent >= 0
        count = np.bincount(self.parent[inner], minlength=len(self.row))
        above = np.maximum(self.parent, 0)
        self.kept: Mask = ~(inner & (count[above] == 1) & (names[above] == names))
        """False for a call in one of the same name that made no other: torch takes the two for one."""
        of_like = np.where(self.kept, np.arange(len(self.row)), above)
        while (of_like[of_like] != of_like).any():
            of_like = of_like[of_like]
        self._counts_as: Whole = of_like
        self._inputs = self._inputs_of(calls)

    def _inputs_of(self, calls: pl.DataFrame) -> dict[str, Whole]:
        """The texts of the inputs of each call: rows of the trace's texts, 0 where none are known."""
        inputs: dict[str, Whole] = {name: np.zeros(len(self.row), dtype=np.uint32) for name in _INPUTS}
        if self._events.shapes.is_empty():
            return inputs
        described = placed(self._events.shapes, calls)
        distinct = described.select("name", *_INPUTS).unique(maintain_order=True)
        if len(distinct) > _MOST:
            described = described.join(distinct.head(_MOST), on=["name", *_INPUTS], how="semi")
        row = described["row"].to_numpy()
        of_ops = self._is_op[row]
        place = np.searchsorted(self.row, row[of_ops])
        for name, column in inputs.items():
            column[place] = described[name].to_numpy()[of_ops]
        return inputs

    def count(self) -> Ints:
        """1 for each call; 0 for one in its like, and for later pieces of a call."""
        again = self._spans.again
        return (self.kept if again is None else self.kept & ~again[self.row]).astype(np.int64)

    def times(self) -> dict[str, Ints]:
        took = (self._spans.end - self._spans.begin)[self.row]
        return {"self_ns": self._own(took), "took_ns": np.where(self.kept, took, 0)}

    def on_devices(self, launches: pl.DataFrame, work: pl.DataFrame) -> dict[str, Ints]:
        """The time of the work that each op launched itself, and with the ops that it called."""
        if launches.is_empty() or work.is_empty():
            return {}
        launch, wanted = (rows["process"].to_numpy().astype(np.int64) << 32 | rows["correlation"].to_numpy() for rows in (launches, work))
        order = np.argsort(launch, kind="stable")
        launch = launch[order]
        at = np.minimum(np.searchsorted(launch, wanted), len(launch) - 1)
        launched = (launch[at] == wanted) & (wanted >= 0)
        place, size = self._op_around(launches["row"].to_numpy()[order[at[launched]]]), len(self.row)
        took, place = work["took"].to_numpy()[launched][place >= 0], place[place >= 0]
        own = nodes.gather(place.astype(np.int64), took, size)
        parent = np.append(-1, self.parent + 1).astype(np.int32)
        whole = nodes.sum_up(parent, np.append(0, own))[1:]
        whole = np.where(self._is_op[self.row] & self.kept, whole, 0)
        return {"self_device_ns": own, "device_ns": whole, "launches": np.bincount(place, minlength=size)}

    def _op_around(self, row: Whole) -> Whole:
        """The place of the op at or around each of these calls; -1: none."""
        place = np.minimum(np.searchsorted(self.row, row), len(self.row) - 1).astype(np.int64)
        if (self.row[place] != row).any():  # a call that is no op and of no runtime
            op = self._spans.nearest(self._is_op)[row]
            return np.where(op >= 0, np.searchsorted(self.row, np.maximum(op, 0)), -1)
        while (others := (place >= 0) & ~self._is_op[self.row[place]]).any():
            place[others] = self.parent[place[others]]
        return place

    def memory(self, annotated: pl.DataFrame, memory: pl.DataFrame) -> tuple[dict[str, Ints], list[pl.DataFrame]]:
        """Bytes allocated less bytes freed during each call, on whichever thread, as torch adds them up. The same for annotations, and
        outside of all of these: rows with _KEY."""
        spans, size = self._spans, len(self.row)
        first = spans.process[self.row], spans.thread[self.row], spans.begin[self.row], spans.end[self.row]
        second = (annotated[name].to_numpy().astype(np.int64) for name in ("process", "thread", "begin", "end"))
        process, thread, begin, end = (np.concatenate(pair) for pair in zip(first, second, strict=True))
        every, sorted_rows = Spans.of(process, thread, begin, end, np.zeros(len(process), dtype=np.int32))
        order = np.arange(len(process))[sorted_rows]
        sums = {name: np.zeros(len(order), dtype=np.int64) for name in _BYTES}
        alone = []
        for (owner,), rows in memory.partition_by("process", as_dict=True, maintain_order=True).items():
            here = np.flatnonzero(every.process == owner)
            during = _During(rows, every.begin[here], every.end[here])
            for kind in _KINDS:
                sums[f"{kind}_bytes"][order[here]] = during.sums(kind)
            outside = during.outside()
            alone += [{"process": owner, "name": _NO_NAME, **outside}] if outside["calls"] else []
        inner = np.flatnonzero(every.parent >= 0)
        for kind in _KINDS:
            sums[f"self_{kind}_bytes"] = sums[f"{kind}_bytes"].copy()
            np.subtract.at(sums[f"self_{kind}_bytes"], order[every.parent[inner]], sums[f"{kind}_bytes"][order[inner]])
        of_calls = {name: column[:size] * (1 if name.startswith("self") else self.kept) for name, column in sums.items()}
        named = annotated.select("process", "name").with_columns(pl.Series(name, column[size:]) for name, column in sums.items())
        beside = [named, pl.DataFrame(alone, schema=dict.fromkeys(("process", "name", "calls", *_BYTES), pl.Int64))]
        return of_calls, [_keyed(rows) for rows in beside]

    def pieces(self, columns: dict[str, Ints]) -> Iterator[pl.DataFrame]:
        """The sums of the calls in pieces, as there may be millions."""
        for at in range(0, len(self.row), _AT_ONCE):
            here = slice(at, at + _AT_ONCE)
            one = self._counts_as[here]
            keys = {"process": self._spans.process_of(self.row[here]), "name": self._name.gather(one)}
            inputs = {name: column[one] for name, column in self._inputs.items()}
            rows = pl.DataFrame(keys | inputs | {name: of[here] for name, of in columns.items()})
            yield _keyed(rows.group_by(_KEY, maintain_order=True).agg(pl.exclude(_KEY).sum()))

    def _own(self, whole: Ints) -> Ints:
        """The values without those of the calls that each made."""
        own: Ints = whole.copy()
        inner = self.parent >= 0
        np.subtract.at(own, self.parent[inner], whole[inner])
        return own


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with all columns of _KEY, and one type for each column."""
    rows = rows.with_columns(pl.lit(0).alias(name) for name in _INPUTS if name not in rows.columns)
    return rows.cast({name: pl.UInt32 if name in ("name", *_INPUTS) else pl.Int64 for name in rows.columns})


class _During:
    """Bytes that were allocated and freed in stretches of time. Both ends belong to a stretch, as torch has it. Where the trace has whole
    microseconds, many calls begin when another one ends: there an end does not belong to it, so that nothing counts for both."""

    def __init__(self, memory: pl.DataFrame, begin: Whole, end: Whole) -> None:
        rows = memory.sort("moment", maintain_order=True)
        moment = rows["moment"].to_numpy()
        self._whole_us = len(np.unique(np.concatenate([moment, begin, end]) % 1000)) == 1
        first = np.searchsorted(moment, begin, side="left")
        last = np.searchsorted(moment, end, side="left" if self._whole_us else "right")
        self._first, self._last = first, np.maximum(first, last)
        on_cpu = rows["device_type"].is_in(_ON_CPUS).to_numpy()
        size = rows["allocated"].to_numpy()
        self._passed = {
            "cpu": np.append(0, np.cumsum(np.where(on_cpu, size, 0))),
            "device": np.append(0, np.cumsum(np.where(on_cpu, 0, size))),
        }

    def sums(self, kind: str) -> Ints:
        """The sum of each stretch."""
        sums: Ints = self._passed[kind][self._last] - self._passed[kind][self._first]
        return sums

    def outside(self) -> dict[str, int]:
        """The number and the sums of the moments in no stretch."""
        size = len(self._passed["cpu"])
        change = np.bincount(self._first, minlength=size) - np.bincount(self._last, minlength=size)
        alone = np.cumsum(change)[:-1] == 0
        sums = {kind: int(np.diff(passed)[alone].sum()) for kind, passed in self._passed.items()}
        both = {f"{own}{kind}_bytes": value for kind, value in sums.items() for own in ("", "self_")}
        return {"calls": int(alone.sum()), **both}


def _write(making: Making, events: Events, rows: pl.DataFrame) -> None:
    texts = {name: _plain(events, rows[name]) for name in _INPUTS}
    number = rows["name"].unique()
    of_names = dict(zip(number.to_list(), _names(events, number), strict=True))
    names = [of_names[row] for row in rows["name"].to_list()]
    each = [flops_of(name, call_of_texts(*inputs)) if inputs[0] else 0 for name, *inputs in zip(names, *texts.values(), strict=True)]
    written = rows.with_columns(
        name=pl.Series(names, dtype=pl.String),
        shapes=pl.Series(texts["dims"], dtype=pl.String),
        types=pl.Series(texts["types"], dtype=pl.String),
        values=pl.Series(texts["values"], dtype=pl.String),
        flops=pl.Series(each, dtype=pl.Int64).cast(pl.Float64) * pl.col("calls"),
    )
    making.add("op_sums", written.with_columns(pl.col("flops").clip(0, 1 << 62).cast(pl.UInt64)).drop("dims"))


def _plain(events: Events, column: pl.Series) -> list[str]:
    """The descriptions on one line each: some versions of torch write each number on a line of its own."""
    number = column.unique()
    plain = {}
    for row, text in zip(number.to_list(), events.texts_of(number).to_list(), strict=True):
        try:
            line = json.dumps(json.loads(text)) if 0 < len(text) <= 4 * _LONGEST else ""
        except (ValueError, RecursionError):
            line = ""
        plain[row] = line if len(line) <= _LONGEST else ""
    return [plain[row] for row in column.to_list()]


def _names(events: Events, number: pl.Series) -> list[str]:
    """As ops and regions are called in the profile."""
    texts = events.texts_of(pl.Series(np.where(number.to_numpy() == _NO_NAME, 0, number.to_numpy()))).to_list()
    names = ["ProfilerStep*" if _STEP.match(text) else region_name(text) for text in texts]
    return [MEMORY if row == _NO_NAME else name for row, name in zip(number.to_list(), names, strict=True)]

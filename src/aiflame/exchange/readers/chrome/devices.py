"""Kernels and copies in a trace, the calls that launched them, and calls that waited for them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.chrome.events import Events
from aiflame.exchange.readers.chrome.meaning import RUNTIMES
from aiflame.exchange.readers.launch_keys import first_of_each, is_in, keys
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.overlaps import AGAIN
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.schema.enums import CallBackend, CallKind, CopyKind, GpuApi, SyncKind

_KERNELS = ("kernel", "concurrent_kernel", "Kernel")
_COPIES = (
    (CopyKind.HOST_TO_DEVICE, re.compile(r"HtoD|HostToDevice|Host -> Device|H2D|M2D")),
    (CopyKind.DEVICE_TO_HOST, re.compile(r"DtoH|DeviceToHost|Device -> Host|D2H|D2M")),
    (CopyKind.PEER, re.compile(r"PtoP|PeerToPeer")),
    (CopyKind.FILL, re.compile(r"(?i:memset|fill)")),
)
_SYNCS = (
    (SyncKind.STREAM, re.compile(r"StreamSynchronize")),
    (SyncKind.EVENT, re.compile(r"EventSynchronize")),
    (SyncKind.CONTEXT, re.compile(r"(Device|Ctx)Synchronize")),
)
_SHAPE = ("process", "name", "device", "grid", "block", "registers", "shared")
_AT_ONCE = 1 << 17
"""Rows that are written in one piece: their columns of 64 bits need memory."""
_BACKENDS = (
    (CallBackend.HIP, re.compile(r"^hip")),
    (CallBackend.HSA, re.compile(r"^hsa_")),
    (CallBackend.LEVEL_ZERO, re.compile(r"^ze[A-Z]|^urEnqueue|^ur[A-Z]")),
    (CallBackend.CUDA, re.compile(r"^cu")),
)


def add_launches(
    making: Making, events: Events, calls: pl.DataFrame, spans: Spans, stack: Whole, autograd: Mapping[str, Whole], work: pl.DataFrame
) -> pl.DataFrame:
    """Writes launches: calls of a runtime that wait for devices or have the correlation id of work, for other work the ops with its
    external id. And all calls of runtimes, with those that wait for devices. `stack` and `autograd`: for each call. Gives process,
    correlation and row (of `calls`) of the launches."""
    kinds = calls.select("cat").unique()
    of_runtimes = kinds.filter(events.texts_of(kinds["cat"]).is_in(RUNTIMES))["cat"]

    def chosen(which: pl.Expr, *columns: str) -> pl.DataFrame:
        rows = calls.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"), which.alias("chosen"), *columns)
        rows = rows.filter("chosen").drop("chosen")
        return rows.with_columns(process=pl.Series(spans.process_of(rows["row"].to_numpy())))

    runtime = chosen(pl.col("cat").is_in(of_runtimes.implode()) & (pl.col("call") != AGAIN), "correlation", "name")
    columns = ["process", "correlation", "row"]
    texts = runtime["name"].unique()
    waits = texts.filter(events.texts_of(texts).str.contains("|".join(pattern.pattern for _, pattern in _SYNCS)))
    own, of_work, of_waits = keys(runtime, work, runtime.filter(pl.col("name").is_in(waits.implode())))
    first = first_of_each(own, np.concatenate([of_work, of_waits]))
    direct = runtime.select(columns)[first]
    without = pl.Series(~is_in(of_work, own[first]))
    lost = work.filter(without & (work["correlation"] >= 0) & (work["external"] >= 0))
    by_op = lost.select("process", "external", "correlation").unique(["process", "correlation"])
    ops = chosen(pl.col("external").is_in(by_op["external"].implode()), "external").unique(
        ["process", "external"], keep="last", maintain_order=True
    )
    indirect = ops.join(by_op, on=["process", "external"]).select(columns)
    launches = pl.concat([direct.with_columns(took=True), indirect.with_columns(took=False)])
    launches = launches.with_columns(begin_ns=pl.Series(spans.begin[launches["row"].to_numpy()])).sort("process", "begin_ns")
    for piece in launches.iter_slices(_AT_ONCE):
        row = piece["row"].to_numpy()
        making.add(
            "launches",
            piece.with_columns(
                thread=pl.Series(spans.thread_of(row)),
                stack=pl.Series(stack[row]),
                end_ns=pl.when("took").then(pl.Series(spans.call_end[row])).otherwise("begin_ns"),
                api=pl.lit(int(GpuApi.CUDA)),
                **{name: pl.Series(column[row]) for name, column in autograd.items()},
            ),
        )
    wanted, of_launches = keys(work, launches)
    lone = int((~is_in(wanted, of_launches)).sum())
    if lone:
        making.note(f"{lone:,} kernels and copies of the trace have no call that launched them: no stack leads to them")
    _add_calls(making, events, runtime, spans, stack, autograd)
    return launches.select(columns)


def add_work(making: Making, events: Events, work: pl.DataFrame) -> None:
    """Writes kernels and copies."""
    if work.is_empty():
        return
    kinds = work.select("cat").unique()
    of_kernels = kinds.filter(events.texts_of(kinds["cat"]).is_in(_KERNELS))["cat"]
    is_kernel = pl.col("cat").is_in(of_kernels.implode())
    devices, streams = _device_names(events, work), _streams(work)
    shapes = _add_shapes(making, events, work.lazy().filter(is_kernel), devices)
    for piece in work.iter_slices(_AT_ONCE):
        rows = piece.join(streams, on=["device", "stream"], how="left", maintain_order="left").with_columns(
            api=pl.lit(int(GpuApi.CUDA)),
            correlation=pl.max_horizontal("correlation", 0),
            node=pl.max_horizontal("node", 0),
            start_ns="begin",
            end_ns="end",
        )
        kernels = rows.filter(is_kernel).join(shapes, on=_SHAPE, how="left", maintain_order="left", nulls_equal=True)
        making.add("kernels", kernels.select("process", "shape", "correlation", "node", "start_ns", "end_ns", "api", stream="number"))
        _add_copies(making, events, rows.filter(~is_kernel), devices)


def _add_shapes(making: Making, events: Events, kernels: pl.LazyFrame, devices: Mapping[int, str]) -> pl.DataFrame:
    """Writes the distinct kernels with their sizes, and gives the number of each (`shape`)."""
    distinct = kernels.select(_SHAPE).unique(maintain_order=True)
    shapes = distinct.with_columns(shape=pl.int_range(1, pl.len() + 1).over("process")).collect()
    sizes = {name: _dimensions(events, shapes[name]) for name in ("grid", "block")}
    making.add(
        "kernel_shapes",
        shapes.select(
            "process",
            id="shape",
            name=events.texts_of(shapes["name"]),
            device=_device(devices),
            api=pl.lit(int(GpuApi.CUDA)),
            registers=pl.max_horizontal("registers", 0),
            static_shared=pl.max_horizontal("shared", 0),
            **{f"{name}_{axis}": sizes[name][:, at] for name in sizes for at, axis in enumerate("xyz")},
        ),
    )
    return shapes


def _device(devices: Mapping[int, str]) -> pl.Expr:
    return pl.col("device").replace_strict(devices, default="GPU", return_dtype=pl.String)


def _add_copies(making: Making, events: Events, copies: pl.DataFrame, devices: Mapping[int, str]) -> None:
    if copies.is_empty():
        return
    texts = copies["name"].unique()
    kinds = [
        next((int(kind) for kind, pattern in _COPIES if pattern.search(text)), int(CopyKind.DEVICE_TO_DEVICE))
        for text in events.texts_of(texts).to_list()
    ]
    making.add(
        "copies",
        copies.select(
            *("process", "correlation", "node", "start_ns", "end_ns", "api"),
            kind=pl.col("name").replace_strict(texts, kinds, return_dtype=pl.UInt32),
            device=_device(devices),
            bytes=pl.max_horizontal("bytes", 0),
            stream="number",
        ),
    )


def _add_calls(making: Making, events: Events, runtime: pl.DataFrame, spans: Spans, stack: Whole, autograd: Mapping[str, Whole]) -> None:
    """`runtime`: process, row (of the spans), name and correlation of calls."""
    if runtime.is_empty():
        return
    kinds = making.numbered("call_names", runtime.select("process", "name").unique(maintain_order=True))
    texts = events.texts_of(kinds["name"])
    backend = [next((int(kind) for kind, pattern in _BACKENDS if pattern.search(text)), int(CallBackend.CUDA)) for text in texts.to_list()]
    making.add("call_names", kinds.select("process", "id", backend=pl.Series(backend), name=texts))
    sync = [next((int(kind) for kind, pattern in _SYNCS if pattern.search(text)), 0) for text in texts.to_list()]
    kinds = kinds.with_columns(sync=pl.Series(sync, dtype=pl.Int64))
    for piece in runtime.iter_slices(_AT_ONCE):
        row = piece["row"].to_numpy()
        rows = piece.join(kinds, on=["process", "name"], how="left", maintain_order="left").with_columns(
            begin_ns=pl.Series(spans.begin[row]), end_ns=pl.Series(spans.call_end[row])
        )
        making.add(
            "calls",
            rows.select(
                *("process", "begin_ns", "end_ns"),
                thread=pl.Series(spans.thread_of(row)),
                stack=pl.Series(stack[row]),
                name="id",
                kind=pl.lit(int(CallKind.BLOCKING)),
                peer=pl.lit(0xFFFFFFFF),
                **{name: pl.Series(column[row]) for name, column in autograd.items()},
            ),
        )
        making.add(
            "syncs",
            rows.filter(pl.col("sync") > 0).select(
                "process",
                "end_ns",
                kind="sync",
                api=pl.lit(int(GpuApi.CUDA)),
                correlation=pl.max_horizontal("correlation", 0),
                start_ns="begin_ns",
            ),
        )


def _device_names(events: Events, work: pl.DataFrame) -> dict[int, str]:
    """The name of each device, with its number: `NVIDIA H200 [0]`."""
    given = events.members.get("deviceProperties")
    names = {
        one["id"]: one["name"]
        for one in (given if isinstance(given, list) else [])
        if isinstance(one, dict) and isinstance(one.get("id"), int) and isinstance(one.get("name"), str)
    }
    return {number: f"{names.get(number, 'GPU')} [{max(number, 0)}]" for number in work["device"].unique().to_list()}


def _streams(work: pl.DataFrame) -> pl.DataFrame:
    """A number for each stream of each device; that of the trace, where devices have no streams of the same number."""
    pairs = work.select("device", "stream").unique().sort("stream", "device")
    own = pairs["stream"]
    if own.n_unique() < len(own) or not own.is_between(0, (1 << 32) - 1).all():
        return pairs.with_columns(number=pl.int_range(1, pl.len() + 1))
    return pairs.with_columns(number="stream")


def _dimensions(events: Events, column: pl.Series) -> np.ndarray:
    """`[8, 1, 1]` → three numbers."""
    texts = column.unique()
    sizes = {}
    for row, text in zip(texts.to_list(), events.texts_of(texts).to_list(), strict=True):
        sizes[row] = _three(text)
    return np.array([sizes[row] for row in column.to_list()], dtype=np.int64).reshape(-1, 3)


def _three(text: str) -> tuple[int, int, int]:
    try:
        numbers = [number if isinstance(number, int) and 0 <= number < 1 << 32 else 0 for number in json.loads(text or "[]")]
    except (ValueError, TypeError, RecursionError):
        numbers = []
    x, y, z = [*numbers, 0, 0, 0][:3]
    return x, y, z

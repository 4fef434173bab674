"""What ran on devices in a trace: kernels and copies, the calls that launched them, and calls that waited for them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.chrome.events import Events
from aiflame.exchange.readers.chrome.meaning import RUNTIMES
from aiflame.exchange.readers.making import Making
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
_BACKENDS = (
    (CallBackend.HIP, re.compile(r"^hip|^hsa_")),
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

    def placed(which: pl.Expr) -> pl.DataFrame:
        rows = calls.with_row_index("row").filter(which)
        row = rows["row"].to_numpy()
        return rows.select("row", "external", "correlation", "name").with_columns(
            process=pl.Series(spans.track[row] >> 32),
            thread=pl.Series(spans.track[row] & 0xFFFFFFFF),
            stack=pl.Series(stack[row]),
            begin_ns=pl.Series(spans.begin[row]),
            end_ns=pl.Series(spans.end[row]),
            **{name: pl.Series(column[row]) for name, column in autograd.items()},
        )

    runtime = placed(pl.col("cat").is_in(of_runtimes.implode()))
    texts = runtime["name"].unique()
    waits = texts.filter(events.texts_of(texts).str.contains("|".join(pattern.pattern for _, pattern in _SYNCS)))
    waiting = runtime.filter(pl.col("name").is_in(waits.implode()))
    launched = pl.concat([work.select("process", "correlation"), waiting.select("process", "correlation")])
    launched = launched.filter(pl.col("correlation") >= 0).unique()
    direct = runtime.join(launched, on=["process", "correlation"], how="semi").unique(
        ["process", "correlation"], keep="first", maintain_order=True
    )
    lost = work.join(direct, on=["process", "correlation"], how="anti").filter(pl.col("correlation") >= 0, pl.col("external") >= 0)
    by_op = lost.select("process", "external", work_correlation="correlation").unique(["process", "work_correlation"])
    ops = placed(pl.col("external").is_in(by_op["external"].implode())).unique(["process", "external"], keep="last", maintain_order=True)
    indirect = ops.join(by_op, on=["process", "external"]).with_columns(correlation="work_correlation", end_ns="begin_ns")
    columns = ["process", "thread", "stack", "begin_ns", "end_ns", "correlation", "row", *autograd]
    launches = pl.concat([direct.select(columns), indirect.select(columns)]).sort("process", "begin_ns")
    making.add("launches", launches.with_columns(api=pl.lit(int(GpuApi.CUDA))))
    lone = work.join(launches, on=["process", "correlation"], how="anti")
    if len(lone):
        making.note(f"{len(lone):,} kernels and copies of the trace have no call that launched them: no stack leads to them")
    _add_calls(making, events, runtime)
    return launches.select("process", "correlation", "row")


def add_work(making: Making, events: Events, work: pl.DataFrame) -> None:
    """Writes kernels and copies."""
    if work.is_empty():
        return
    devices = _device_names(events, work)
    rows = work.with_columns(
        category=events.texts_of(work["cat"]),
        device_name=pl.col("device").replace_strict(devices, default="GPU", return_dtype=pl.String),
        stream_number=_streams(work),
        api=pl.lit(int(GpuApi.CUDA)),
        correlation=pl.max_horizontal("correlation", 0),
        node=pl.max_horizontal("node", 0),
        start_ns="begin",
        end_ns="end",
    )
    _add_kernels(making, events, rows.filter(pl.col("category").is_in(_KERNELS)))
    _add_copies(making, events, rows.filter(~pl.col("category").is_in(_KERNELS)))


def _add_kernels(making: Making, events: Events, kernels: pl.DataFrame) -> None:
    key = ["process", "name", "device_name", "grid", "block", "registers", "shared"]
    shapes = kernels.select(key).unique(maintain_order=True).with_columns(shape=pl.int_range(1, pl.len() + 1).over("process"))
    sizes = {name: _dimensions(events, shapes[name]) for name in ("grid", "block")}
    making.add(
        "kernel_shapes",
        shapes.select(
            "process",
            id="shape",
            name=events.texts_of(shapes["name"]),
            device="device_name",
            api=pl.lit(int(GpuApi.CUDA)),
            registers=pl.max_horizontal("registers", 0),
            static_shared=pl.max_horizontal("shared", 0),
            **{f"{name}_{axis}": sizes[name][:, at] for name in sizes for at, axis in enumerate("xyz")},
        ),
    )
    rows = kernels.join(shapes, on=key, how="left", maintain_order="left", nulls_equal=True)
    making.add("kernels", rows.select("process", "shape", "correlation", "node", "start_ns", "end_ns", "api", stream="stream_number"))


def _add_copies(making: Making, events: Events, copies: pl.DataFrame) -> None:
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
            device="device_name",
            bytes=pl.max_horizontal("bytes", 0),
            stream="stream_number",
        ),
    )


def _add_calls(making: Making, events: Events, runtime: pl.DataFrame) -> None:
    if runtime.is_empty():
        return
    kinds = making.numbered("call_names", runtime.select("process", "name").unique(maintain_order=True))
    texts = events.texts_of(kinds["name"])
    backend = [next((int(kind) for kind, pattern in _BACKENDS if pattern.search(text)), int(CallBackend.CUDA)) for text in texts.to_list()]
    making.add("call_names", kinds.select("process", "id", backend=pl.Series(backend), name=texts))
    rows = runtime.join(kinds, on=["process", "name"], how="left", maintain_order="left")
    making.add(
        "calls",
        rows.select(
            *("process", "thread", "stack", "begin_ns", "end_ns", "autograd", "sequence"),
            name="id",
            kind=pl.lit(int(CallKind.BLOCKING)),
            peer=pl.lit(0xFFFFFFFF),
        ),
    )
    sync = [next((int(kind) for kind, pattern in _SYNCS if pattern.search(text)), 0) for text in texts.to_list()]
    waits = rows.join(
        kinds.with_columns(sync=pl.Series(sync)).filter(pl.col("sync") > 0).select("process", "name", "sync"), on=["process", "name"]
    )
    making.add(
        "syncs",
        waits.select(
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
    known = {
        one["id"]: one["name"]
        for one in (given if isinstance(given, list) else [])
        if isinstance(one, dict) and isinstance(one.get("id"), int) and isinstance(one.get("name"), str)
    }
    return {number: f"{known.get(number, 'GPU')} [{max(number, 0)}]" for number in work["device"].unique().to_list()}


def _streams(work: pl.DataFrame) -> pl.Series:
    """A number for each stream of each device; that of the trace, where devices have no streams of the same number."""
    pairs = work.select("device", "stream").unique().sort("stream", "device")
    own = pairs["stream"]
    if own.n_unique() < len(own) or not own.is_between(0, (1 << 32) - 1).all():
        pairs = pairs.with_columns(number=pl.int_range(1, pl.len() + 1))
    else:
        pairs = pairs.with_columns(number="stream")
    return work.select("device", "stream").join(pairs, on=["device", "stream"], how="left", maintain_order="left")["number"]


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

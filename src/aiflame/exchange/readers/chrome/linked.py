"""Traces of Intel's unitrace and of Triton's Proton in Chrome's JSON: only arrows lead from a call to the work that it launched."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from aiflame.exchange.readers.chrome.events import Events
from aiflame.exchange.readers.devices.trace import CALLS, COPIES, KERNELS, DeviceTrace, shaped
from aiflame.exchange.readers.devices.writing import write
from aiflame.exchange.readers.frames import NamedFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.schema.enums import CallBackend, CopyKind, GpuApi
from aiflame.profile.schema.kinds import Kind

_OF_DEVICES = "gpu_op"
_LANES = re.compile(r"Graph: Stream ")
"""Proton's scopes on a device."""
_RUNTIMES = (
    (re.compile(r"ze[A-Z]|ur[A-Z]"), CallBackend.LEVEL_ZERO, "Level Zero"),
    (re.compile(r"cl[A-Z]"), CallBackend.OPENCL, "OpenCL"),
    (re.compile(r"P?MPI_"), CallBackend.MPI, "MPI"),
)
_WAITS = re.compile(r"Synchronize|WaitFor|clFinish|_Wait")
_COPY = re.compile(r"(?P<name>(?:ze|cl)[A-Z]\w*(?:Copy|Fill|Read|Write|Map|Migrate)\w*(?:\([\w ]*\))?)(?:\[(?P<bytes>\d{1,18})[^\]]*\])?")
_COPIES = ((CopyKind.FILL, "Fill"), (CopyKind.HOST_TO_DEVICE, "(M2D)"), (CopyKind.DEVICE_TO_HOST, "(D2M)"), (CopyKind.PEER, "P2P"),
           (CopyKind.DEVICE_TO_HOST, "EnqueueRead"), (CopyKind.HOST_TO_DEVICE, "EnqueueWrite"), (CopyKind.MAP, "Map"))  # fmt: skip
_SHAPE = re.compile(r"(?P<name>.*?)\[SIMD\w* *\{(?P<grid>[\d; ]+)\} \{(?P<block>[\d; ]+)\}\]", re.DOTALL)
_DEVICE = re.compile(r".*\[(?P<name>[^\]]+)\] *(?P<address>[0-9a-f]+(?::[0-9a-f]+){3})(?: #(?P<number>\d{1,4}))?.*")
_LAST_NUMBER = re.compile(r"(\d{1,9})\D*$")


def is_linked(events: Events) -> bool:
    """Kineto's traces have correlation ids."""
    return bool(len(events.arrows)) or bool(events.texts_of(events.work["cat"].unique()).is_in([_OF_DEVICES]).any())


def read(events: Events, making: Making) -> None:
    making.lacks = ("stall reasons of kernels", "counters of devices", "CPU time (calls have wall-clock time)")
    texts = events.texts
    tables = pl.concat(events.take_calls()), events.work, events.arrows
    ids = pl.concat([rows[name] for rows in tables for name in ("pid", "tid")]).unique()
    numbers = pl.DataFrame(
        {"text": ids, "number": [_id(text, -row) for row, text in zip(ids.to_list(), texts.gather(ids).to_list(), strict=True)]},
        schema={"text": ids.dtype, "number": pl.Int64},
    )
    named = events.names.with_columns(what=events.texts_of(events.names["name"]), text=events.texts_of(events.names["given_name"]))
    named = _numbered(named, numbers)
    processes = dict(named.filter(what="process_name").select("pid", "text").iter_rows())
    threads = {(pid, tid): text for pid, tid, text in named.filter(what="thread_name").select("pid", "tid", "text").iter_rows()}
    calls, work, arrows = (_numbered(rows, numbers) for rows in tables)
    lanes = [tid for (_, tid), text in threads.items() if _LANES.match(text)]
    on_devices = calls.filter(pl.col("tid").is_in(lanes))
    if len(on_devices):
        making.unused["scopes on devices"] += len(on_devices)
    calls = calls.filter(~pl.col("tid").is_in(lanes))

    trace = DeviceTrace(GpuApi.CUDA, processes=processes, threads=threads, since_1970=_epoch(events, calls, work))
    frames = {row: _frame(trace, text) for row, text in _texts(events, calls["name"]).items()}
    calls = calls.with_columns(
        frame=pl.col("name").replace_strict(frames, return_dtype=pl.Int64), correlation=pl.int_range(1, pl.len() + 1)
    )
    trace.calls = shaped(calls, CALLS)
    work = _with_callers(events, work, arrows, calls)
    _add_work(trace, events, work, processes, threads)
    write(trace, making)


def _id(text: str, otherwise: int) -> int:
    try:
        number = int(text)
    except ValueError:
        return otherwise
    return number if abs(number) < 1 << 32 else otherwise


def _numbered(rows: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    for column in ("pid", "tid"):
        own = numbers.rename({"text": column, "number": "of"})
        rows = (
            rows.join(own, on=column, how="left", maintain_order="left").with_columns(pl.col("of").fill_null(-1).alias(column)).drop("of")
        )
    return rows


def _texts(events: Events, column: pl.Series) -> dict[int, str]:
    rows = column.unique()
    return dict(zip(rows.to_list(), events.texts_of(rows).to_list(), strict=True))


def _epoch(events: Events, calls: pl.DataFrame, work: pl.DataFrame) -> int | None:
    """unitrace counts from 1970, Proton from its first event."""
    first = min((int(rows["begin"].min()) for rows in (calls, work) if len(rows)), default=0)  # type: ignore[arg-type]
    return 0 if first > 10**18 else None


def _frame(trace: DeviceTrace, name: str) -> int:
    for pattern, backend, module in _RUNTIMES:
        if pattern.match(name):
            number = trace.frames.number(NamedFrame(name, Kind.C, module=module))
            trace.backends[number] = backend
            if _WAITS.search(name):
                trace.waits.add(number)
            return number
    return trace.frames.number(NamedFrame(name, Kind.CPP))


def _with_callers(events: Events, work: pl.DataFrame, arrows: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Each piece of work with the number of the call in which the arrow to its begin starts, and that call's process; 0 and -1: none."""
    phase = events.texts_of(arrows["ph"])
    key = ["cat", "id"]
    starts = arrows.filter(phase == "s").unique(key, keep="first", maintain_order=True)
    tracks = pl.concat([rows.select("pid", "tid") for rows in (calls, starts)]).unique().with_row_index("track")
    placed, of_starts = (
        rows.join(tracks, on=["pid", "tid"], maintain_order="left").with_columns(pl.col("track").cast(pl.Int64)) for rows in (calls, starts)
    )
    none = np.zeros(len(placed), dtype=np.int64)
    track, begin, end = (placed[name].to_numpy() for name in ("track", "begin", "end"))
    spans, order = Spans.of(none, track, begin, end, none)
    at = spans.innermost(np.zeros(len(of_starts), dtype=np.int64), *(of_starts[name].to_numpy() for name in ("track", "begin")))
    row = np.where(at >= 0, np.append(np.arange(len(begin))[order], -1)[at], -1)
    callers = of_starts.select(key).with_columns(caller=pl.Series(row + 1), owner=pl.Series(np.append(placed["pid"].to_numpy(), -1)[row]))
    ends = arrows.filter(phase != "s").join(callers, on=key).unique(["pid", "tid", "begin"], keep="first")
    rows = work.join(ends.select("pid", "tid", "begin", "caller", "owner"), on=["pid", "tid", "begin"], how="left", maintain_order="left")
    return rows.with_columns(correlation=pl.col("caller").fill_null(0), owner=pl.col("owner").fill_null(-1))


def _add_work(
    trace: DeviceTrace, events: Events, work: pl.DataFrame, processes: dict[int, str], threads: dict[tuple[int, int], str]
) -> None:
    of_intel = events.texts_of(work["cat"]) == _OF_DEVICES
    names = _texts(events, work["name"])
    copies = {row: copy for row, text in names.items() if (copy := _COPY.fullmatch(text))}
    shapes = {row: shape for row, text in names.items() if row not in copies and (shape := _SHAPE.fullmatch(text))}
    if of_intel.any():
        trace.api = GpuApi.LEVEL_ZERO
        if any(text.startswith("clEnqueue") for text in names.values()):
            trace.api = GpuApi.OPENCL
    pids = work.filter(of_intel)["pid"].unique().sort().to_list()
    devices = {pid: _DEVICE.fullmatch(processes.get(pid, "")) for pid in pids}
    titles = {
        pid: f"{device['name'] if device else 'GPU'} [{(device['number'] if device else None) or number}]"
        for number, (pid, device) in enumerate(devices.items())
    }
    trace.devices = {**titles, 0: titles.get(0, "GPU [0]")}
    trace.addresses = {pid: device["address"] for pid, device in devices.items() if device}
    trace.names = {row: shapes[row]["name"] if row in shapes else text for row, text in names.items()}
    streams = {tid: _last_number(threads.get((pid, tid), ""), tid) for pid, tid in work.select("pid", "tid").unique().iter_rows()}
    rows = work.with_columns(
        pid=pl.col("owner"),
        device=pl.when(of_intel).then("pid").otherwise(0),
        stream=pl.col("tid") if of_intel.any() else pl.col("tid").replace_strict(streams, return_dtype=pl.Int64),
        node=pl.lit(0),
        is_copy=pl.col("name").is_in(list(copies)),
    )
    sizes = pl.DataFrame(
        [(row, *_three(shape["grid"]), *_three(shape["block"])) for row, shape in shapes.items()],
        schema={"name": pl.UInt32, **{f"{of}_{axis}": pl.Int64 for of in ("grid", "block") for axis in "xyz"}},
        orient="row",
    )
    kernels = rows.filter(~pl.col("is_copy")).join(sizes, on="name", how="left", maintain_order="left").drop("registers")
    trace.kernels = shaped(kernels, KERNELS)
    moved = pl.DataFrame(
        [(row, _copy_kind(copy["name"]), int(copy["bytes"] or 0)) for row, copy in copies.items()],
        schema={"name": pl.UInt32, "kind": pl.Int64, "bytes": pl.Int64},
        orient="row",
    )
    trace.copies = shaped(rows.filter("is_copy").drop("bytes").join(moved, on="name", how="left", maintain_order="left"), COPIES)


def _copy_kind(name: str) -> int:
    return int(next((kind for kind, part in _COPIES if part in name), CopyKind.DEVICE_TO_DEVICE))


def _three(text: str) -> tuple[int, int, int]:
    parts = [int(part) for part in text.split(";") if part.strip().isdecimal() and len(part) < 12]
    x, y, z = (*parts, 1, 1, 1)[:3]
    return x, y, z


def _last_number(text: str, otherwise: int) -> int:
    number = _LAST_NUMBER.search(text)
    return int(number[1]) if number else otherwise

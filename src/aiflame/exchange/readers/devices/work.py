"""Writes the work of devices, and the calls in which threads waited for it."""

from __future__ import annotations

import re

import polars as pl

from aiflame.exchange.readers.devices.few import distinct, with_few
from aiflame.exchange.readers.devices.trace import DeviceTrace
from aiflame.exchange.readers.making import Making
from aiflame.profile.schema.enums import SyncKind

_SHAPE = (
    *("name", "device"),
    *(f"{name}_{axis}" for name in ("grid", "block") for axis in "xyz"),
    *("registers", "static_shared", "dynamic_shared", "local_bytes"),
)
_SYNCS = (
    (SyncKind.STREAM, re.compile(r"StreamSynchronize|hsa_signal_wait")),
    (SyncKind.EVENT, re.compile(r"EventSynchronize")),
    (SyncKind.CONTEXT, re.compile(r"(Device|Ctx)Synchronize")),
)
_STREAM = ("process", "device", "stream")
_MOST_NUMBER, _MOST_SIZE = 0xFFFFFFFF, (1 << 62) - 1


def add_kernels_and_copies(trace: DeviceTrace, making: Making, process: dict[int, int]) -> pl.DataFrame:
    """Gives process and correlation of each."""
    if trace.kernels.is_empty() and trace.copies.is_empty():
        return pl.DataFrame(schema={"process": pl.Int64, "correlation": pl.Int64})
    kernels, copies = (_placed(rows, process) for rows in (trace.kernels, trace.copies))
    streams = _streams(kernels, copies)
    kernels, copies = (with_few(rows, streams, _STREAM) for rows in (kernels, copies))
    _add_kernels(trace, making, kernels)
    making.add(
        "copies",
        copies.select(
            *("process", "correlation", "node", "kind"),
            api=pl.lit(int(trace.api)),
            device=_device(trace),
            bytes=pl.col("bytes").clip(0, _MOST_SIZE),
            start_ns="begin",
            end_ns="end",
            stream="number",
        ),
    )
    used = pl.concat([distinct(rows, ("process", "device")) for rows in (kernels, copies)]).unique(maintain_order=True)
    with_address = used.filter(pl.col("device").is_in(list(trace.addresses))).sort("process", "device")
    addresses = with_address["device"].replace_strict(dict(trace.addresses), default="", return_dtype=pl.String)
    making.add("gpu_devices", with_address.select("process", device=_device(trace)).with_columns(address=addresses))
    return pl.concat([rows.select("process", "correlation") for rows in (kernels, copies)])


def add_syncs(trace: DeviceTrace, making: Making, placed_calls: pl.DataFrame, process: dict[int, int]) -> pl.DataFrame:
    """As the tool recorded them; where it did not, calls that wait. Gives process and correlation of each."""
    if not trace.syncs.is_empty():
        rows = _placed(trace.syncs, process).rename({"begin": "start_ns", "end": "end_ns"})
    else:
        kinds = {
            number: next((int(kind) for kind, pattern in _SYNCS if pattern.search(getattr(trace.frames.all[number], "name", ""))), 0)
            for number in trace.backends
        }
        of = pl.col("frame").replace_strict(kinds, default=0, return_dtype=pl.Int64)
        rows = placed_calls.with_columns(kind=of, stream=pl.lit(0, dtype=pl.Int64), start_ns="begin_ns").filter(pl.col("kind") > 0)
    making.add(
        "syncs",
        rows.select("process", "kind", "correlation", "start_ns", "end_ns", api=pl.lit(int(trace.api)), stream=_number("stream")),
    )
    return rows.select(pl.col("process", "correlation").cast(pl.Int64))


def _placed(rows: pl.DataFrame, process: dict[int, int]) -> pl.DataFrame:
    sound = (pl.col(name).clip(0, _MOST_SIZE) for name in ("correlation", "node") if name in rows.columns)
    return rows.with_columns(process=pl.col("pid").replace_strict(process, default=0, return_dtype=pl.Int64)).with_columns(*sound)


def _streams(kernels: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    """A number for each stream, unique in its process: the tool's own, where no two devices have the same one."""
    pairs = pl.concat([distinct(rows, _STREAM) for rows in (kernels, copies)]).unique().sort("process", "stream", "device")
    twice = pairs.group_by("process", "stream").len()["len"].max()
    if pairs.is_empty() or (twice == 1 and pairs["stream"].is_between(0, _MOST_NUMBER).all()):
        return pairs.with_columns(number="stream")
    return pairs.with_columns(number=pl.int_range(1, pl.len() + 1).over("process"))


def _add_kernels(trace: DeviceTrace, making: Making, kernels: pl.DataFrame) -> None:
    if kernels.is_empty():
        return
    shapes = distinct(kernels, ("process", *_SHAPE)).with_columns(shape=pl.int_range(1, pl.len() + 1).over("process"))
    making.add(
        "kernel_shapes",
        shapes.select(
            "process",
            *(_number(name) for name in _SHAPE if name not in ("name", "device")),
            id="shape",
            name=pl.col("name").replace_strict(dict(trace.names), default="[unknown kernel]", return_dtype=pl.String),
            device=_device(trace),
            api=pl.lit(int(trace.api)),
        ),
    )
    rows = with_few(kernels, shapes, ("process", *_SHAPE))
    making.add(
        "kernels",
        rows.select("process", "shape", "correlation", "node", start_ns="begin", end_ns="end", api=pl.lit(int(trace.api)), stream="number"),
    )


def _device(trace: DeviceTrace) -> pl.Expr:
    return pl.col("device").replace_strict(dict(trace.devices), default="GPU", return_dtype=pl.String)


def _number(column: str) -> pl.Expr:
    return pl.col(column).clip(0, _MOST_NUMBER)

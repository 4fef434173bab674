"""Kernels and copies of a device. Lines that the profiler derived from others are left out: they have the same time once more."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Mask, Whole
from aiflame.exchange.readers.devices.trace import COPIES, KERNELS, DeviceTrace
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.spans import Spans
from aiflame.exchange.readers.xla.host import add_steps
from aiflame.exchange.readers.xla.launches import with_path
from aiflame.exchange.readers.xla.space import Named, Plane
from aiflame.profile.schema.enums import CopyKind

DEVICE = re.compile(r"/device:(?P<kind>[A-Z]+):(?P<number>\d{1,6})(?P<part>.*)", re.DOTALL)
STEPS = "Steps"
_STREAM = re.compile(r"Stream\b")
_OPS = ("XLA Ops", "Async XLA Ops", "Sparse Core Ops")
_COPIES = (
    (CopyKind.HOST_TO_DEVICE, re.compile(r"H2D|HtoD|HostToDevice")),
    (CopyKind.DEVICE_TO_HOST, re.compile(r"D2H|DtoH|DeviceToHost")),
    (CopyKind.PEER, re.compile(r"P2P|PtoP|PeerToPeer")),
    (CopyKind.FILL, re.compile(r"(?i:memset|fill)")),
)
_OF_SHAPE = (
    *(f"{name}_{axis}" for name in ("grid", "block") for axis in "xyz"),
    *("registers", "static_shared", "dynamic_shared", "local_bytes"),
)
_PAIR = re.compile(r"(\w+):(\d{1,18}(?:,\d{1,18})*)")
_MOST_REGISTERS = 1024
_SIZES = {"regs": "registers", "static_shared": "static_shared", "group_mem": "static_shared", "dynamic_shared": "dynamic_shared",
          "private_mem": "local_bytes"}  # fmt: skip


def add_device(trace: DeviceTrace, making: Making, plane: Plane, number: int, path: Whole, names: dict[str, int]) -> None:
    """`number` and `path` become columns of its kernels and copies, the latter until launches are known; `names`: of kernels."""
    title = DEVICE.fullmatch(plane.name)
    kind = plane.stats.get("device_type_string") or " ".join(
        part for part in (plane.stats.get("device_vendor"), title["kind"] if title else "device") if isinstance(part, str)
    )
    trace.devices = {**trace.devices, number: f"{kind} [{title['number'] if title else number}]{title['part'][:40] if title else ''}"}
    used = _lines(plane)
    for line, count in zip(*np.unique(plane.line[~used[plane.line]], return_counts=True), strict=True):
        making.unused[f"events of the derived line {plane.lines[line].name[:40]}"] += int(count)
    rows = np.flatnonzero(used[plane.line] & ~plane.aggregated)
    details: dict[str, int] = {}
    copied = np.maximum(plane.texts("memcpy_details", details), plane.texts("memset_details", details))
    is_copy = copied >= 0
    correlation = np.maximum(plane.numbers("correlation_id"), 0)
    streams = np.array([line.id for line in plane.lines], dtype=np.int64)

    def work(row: Whole, begin: Whole, end: Whole) -> pl.DataFrame:
        columns = {"correlation": correlation[row], "begin": begin, "end": end, "stream": streams[plane.line[row]], "path": path[row]}
        return pl.DataFrame(columns).with_columns(pid=pl.lit(-1), device=pl.lit(number), node=pl.lit(0))

    copies = rows[is_copy[rows]]
    kinds = np.array([_copy_kind(named.name) for named in plane.named], dtype=np.int64)
    sizes = np.array([*(_bytes(text) for text in details), 0], dtype=np.int64)
    some = work(copies, plane.begin[copies], plane.end[copies]).with_columns(
        kind=pl.Series(kinds[plane.name_of[copies]]), bytes=pl.Series(sizes[copied[copies]])
    )
    trace.copies = pl.concat([trace.copies, with_path(some, COPIES)])
    row, begin, end = _pieces(plane, rows[~is_copy[rows]])
    own = np.array([names.setdefault(_name(named), len(names)) for named in plane.named], dtype=np.int64)
    shapes: dict[str, int] = {}
    shape = plane.texts("kernel_details", shapes)
    described = pl.DataFrame([_shape(text) for text in ("", *shapes)], schema=dict.fromkeys(_OF_SHAPE, pl.Int64), strict=False)
    kernels = work(row, begin, end).with_columns(name=pl.Series(own[plane.name_of[row]]))
    kernels = pl.concat([kernels, described[shape[row] + 1]], how="horizontal")
    trace.kernels = pl.concat([trace.kernels, with_path(kernels, KERNELS)])


def add_steps_of_device(trace: DeviceTrace, plane: Plane, thread: int, pid: int) -> bool:
    lines = np.array([line.name == STEPS for line in plane.lines], dtype=np.bool_)
    rows = np.flatnonzero(lines[plane.line] & ~plane.aggregated) if len(lines) else np.zeros(0, dtype=np.int64)
    add_steps(trace, plane, rows, thread, pid)
    return bool(len(rows))


def _lines(plane: Plane) -> Mask:
    """The lines with work: streams, or the ops of XLA where there are no streams."""
    streams = np.array([bool(_STREAM.match(line.name)) for line in plane.lines], dtype=np.bool_)
    return streams if streams.any() else np.array([line.name in _OPS for line in plane.lines], dtype=np.bool_)


def _pieces(plane: Plane, rows: Whole) -> tuple[Whole, Whole, Whole]:
    """Row, begin and end of each kernel. An op of XLA around others, such as a loop, has the time in which none of them runs."""
    if any(_STREAM.match(line.name) for line in plane.lines):
        return rows, plane.begin[rows], plane.end[rows]
    nothing = np.zeros(len(rows), dtype=np.int64)
    spans, order = Spans.of(nothing, plane.line[rows], plane.begin[rows], plane.end[rows], nothing)
    pieces = list(spans.own_time())
    row, begin, end = (np.concatenate([nothing[:0], *(piece[at] for piece in pieces)]) for at in range(3))
    return rows[order][row], begin, end


def _name(named: Named) -> str:
    """`%fusion.1 = f32[8]{0} fusion(…)` → `fusion.1`; AMD's kernels end in `.kd`."""
    return named.display_name or named.name.partition(" = ")[0].removeprefix("%").removesuffix(".kd")


def _copy_kind(name: str) -> int:
    return int(next((kind for kind, pattern in _COPIES if pattern.search(name)), CopyKind.DEVICE_TO_DEVICE))


def _bytes(details: str) -> int:
    values: dict[str, str] = dict(_PAIR.findall(details))
    return int((values.get("size") or values.get("num_bytes") or "0").partition(",")[0])


def _shape(details: str) -> dict[str, int]:
    shape: dict[str, int] = {}
    for key, value in _PAIR.findall(details):
        numbers = [int(part) for part in value.split(",")]
        if key in ("grid", "block"):
            shape.update({f"{key}_{axis}": size for axis, size in zip("xyz", numbers, strict=False)})
        elif key in _SIZES:
            shape[_SIZES[key]] = numbers[0]
    if shape.get("registers", 0) > _MOST_REGISTERS:
        shape["registers"] = shape["static_shared"] = 0  # older ROCm writes other memory here
    return shape

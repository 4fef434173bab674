"""Threads of a host: calls that JAX, XLA or TensorFlow traced, functions of Python, calls of CUDA's and HIP's runtimes."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.devices.trace import CALLS, REGIONS, DeviceTrace, shaped
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.xla.launches import with_path
from aiflame.exchange.readers.xla.ops import OpNames
from aiflame.exchange.readers.xla.space import Plane
from aiflame.profile.schema.enums import CallBackend, PayloadType, RegionApi, RegionKind
from aiflame.profile.schema.kinds import Kind

MODULE = "[TraceMe]"
STEP = "step"
"""Category of regions that are steps."""
_PYTHON = re.compile(r"\$(?P<file>[^\n]+?\.\w+|<[^>]*>):(?P<line>\d{1,9}) (?P<function>.*)", re.DOTALL)
_BUILTIN = re.compile(r"\$(?:<unknown>|(?P<module>[\w.]+)) (?P<function>.*)", re.DOTALL)
_RUNTIMES = (
    (re.compile(r"hip\w"), CallBackend.HIP, "HIP"),
    (re.compile(r"hsa_\w"), CallBackend.HSA, "HSA"),
    (re.compile(r"cu(?:da)?[A-Z]\w"), CallBackend.CUDA, "CUDA"),
)
_WAITS = re.compile(r"Synchronize|(?i:wait for)|BlockHostUntil|BlockUntilReady|::Await\b")
_METADATA = re.compile(r"#[^#\n]*=[^#\n]*#$")
_NUMBERED = re.compile(r"(?P<name>.*)/-?\d+$", re.DOTALL)


def add_host(trace: DeviceTrace, making: Making, plane: Plane, ops: OpNames, paths: Whole, pid: int) -> None:
    """The frames of the op that an event ran for lie around its own."""
    for line in plane.lines:
        numbered = _NUMBERED.fullmatch(line.name)
        if line.name:
            trace.threads.setdefault((pid, line.id), numbered["name"] if numbered else line.name)
    correlation = plane.numbers("correlation_id")
    empty = (plane.end <= plane.begin) & (correlation <= 0)
    making.unused["moments on threads"] += int((empty & ~plane.aggregated).sum())
    rows = np.flatnonzero(~empty & ~plane.aggregated)
    own = np.array([_frame(trace, named.name) for named in plane.named], dtype=np.int64)
    repeats = ops.depth()[paths[rows]] + 1
    plane.check_rows(int(repeats.sum()))
    last = np.cumsum(repeats) - 1
    row = np.repeat(rows, repeats)
    level = np.arange(len(row)) - np.repeat(last + 1 - repeats, repeats)
    begins = np.cumsum(ops.depth()) - ops.depth()
    flat = np.array([0, *(frame for path in ops.paths for frame in path)], dtype=np.int64)
    frame = flat[np.minimum(begins[paths[row]] + level, len(flat) - 2) + 1] if len(flat) > 1 else np.zeros(len(row), dtype=np.int64)
    frame[last] = own[plane.name_of[rows]]
    linked = np.zeros(len(row), dtype=np.int64)
    linked[last] = np.maximum(correlation[rows], 0)
    thread = np.array([line.id for line in plane.lines], dtype=np.int64)[plane.line[row]]
    path = np.zeros(len(row), dtype=np.int64)
    path[last] = paths[rows]
    columns = {"path": path, "tid": thread, "begin": plane.begin[row], "end": plane.end[row], "frame": frame, "correlation": linked}
    calls = pl.DataFrame(columns).with_columns(pid=pl.lit(pid))
    trace.calls = pl.concat([trace.calls, with_path(calls, CALLS)])
    add_steps(trace, plane, np.flatnonzero(plane.has("step_num") & ~plane.aggregated), thread=None, pid=pid)


def add_steps(trace: DeviceTrace, plane: Plane, rows: Whole, thread: int | None, pid: int) -> None:
    """Regions, on the threads of the events or on one thread."""
    number = plane.numbers("step_num")
    tid = np.array([line.id for line in plane.lines], dtype=np.int64)[plane.line[rows]] if thread is None else np.full(len(rows), thread)
    names = [plane.named[place].name or STEP for place in plane.name_of[rows].tolist()]
    regions = pl.DataFrame(
        {"tid": tid, "begin": plane.begin[rows], "end": plane.end[rows], "payload": number[rows].view(np.uint64)},
    ).with_columns(
        pid=pl.lit(pid),
        name=pl.Series(names, dtype=pl.String),
        api=pl.lit(int(RegionApi.XLA)),
        kind=pl.lit(int(RegionKind.NESTED)),
        category=pl.lit(STEP),
        payload_type=pl.lit(int(PayloadType.SIGNED)),
    )
    trace.regions = pl.concat([trace.regions, shaped(regions, REGIONS)])


def _frame(trace: DeviceTrace, name: str) -> int:
    for pattern, backend, module in _RUNTIMES:
        if pattern.match(name):
            number = trace.frames.number(NamedFrame(name, Kind.C, module=module))
            trace.backends[number] = backend
            break
    else:
        number = trace.frames.number(_described(name))
    if _WAITS.search(name):
        trace.waits.add(number)
    return number


def _described(name: str) -> AnyFrame:
    if place := _PYTHON.fullmatch(name):
        return PythonFrame(place["function"], place["file"], int(place["line"]))
    if builtin := _BUILTIN.fullmatch(name):
        return NamedFrame(builtin["function"], Kind.C, module=builtin["module"] or "")
    return NamedFrame(_METADATA.sub("", name) or name, Kind.CPP, module=MODULE)

"""Traces of XLA's profilers (JAX, TensorFlow, PyTorch/XLA): `*.xplane.pb`."""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers.devices.trace import CALLS, COPIES, KERNELS, DeviceTrace
from aiflame.exchange.readers.devices.writing import write
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.protobuf import DamagedError
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.xla.device import DEVICE, add_device, add_steps_of_device
from aiflame.exchange.readers.xla.hlo import PLANE as METADATA
from aiflame.exchange.readers.xla.host import STEP, add_host
from aiflame.exchange.readers.xla.launches import Launched, add_ops_of_work, with_path
from aiflame.exchange.readers.xla.ops import OpNames
from aiflame.exchange.readers.xla.scopes import Scopes
from aiflame.exchange.readers.xla.space import Plane, Space, read_space
from aiflame.profile.schema.enums import GpuApi

_MOST = 1 << 30
_BEGIN = re.compile(rb"\n[\x00-\xff]{1,5}?(?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?\x12[\x01-\x7f](?:/host:|/device:|Task Environment|#Chip)")
_READ = frozenset(
    ("correlation_id", "hlo_op", "hlo_module", "name", "tf_op", "step_num", "kernel_details", "memcpy_details", "memset_details",
     "device_id", "program_id", "run_id", "device_ordinal", "group_id", "_src", "_p", "_pt", "_c", "_ct", "_r")
)  # fmt: skip
"""Stats that are shown, or that say what aiflame takes from elsewhere."""
_YEAR_2001 = 10**18
_MOST_NOTES, _LONGEST_NOTE = 10, 300


def is_one(head: bytes) -> bool:
    return bool(_BEGIN.match(head))


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    making.lacks = ("stall reasons of kernels", "CPU time (calls have wall-clock time)", "folders of Python files")
    try:
        space = read_space(source.whole(_MOST))
        progress(0.4)
        scopes, trace = _trace(space, making)
    except DamagedError as error:
        raise AiflameError(f"{source.path} is damaged: {error}") from None
    progress(0.6)
    write(trace, making)
    scopes.add_layers(making)


def _trace(space: Space, making: Making) -> tuple[Scopes, DeviceTrace]:
    for remark in space.remarks[:_MOST_NOTES]:
        making.note(f"XLA: {' '.join(remark.split())[:_LONGEST_NOTE]}")
    vendors = {plane.stats.get("device_vendor") for plane in space.planes}
    trace = DeviceTrace(GpuApi.HIP if "AMD" in vendors else GpuApi.CUDA)
    trace.calls, trace.kernels, trace.copies = (
        with_path(trace.calls, CALLS),
        with_path(trace.kernels, KERNELS),
        with_path(trace.copies, COPIES),
    )
    scopes = Scopes(trace.frames)
    ops = OpNames(scopes)
    paths = ops.read(space.planes, making)
    pid = _pid(space)
    names: dict[str, int] = {}
    threads: dict[int, int] = {}
    stepping = False
    host = []
    for number, (plane, path) in enumerate(zip(space.planes, paths, strict=True)):
        _count_unused(making, plane)
        if DEVICE.fullmatch(plane.name) and len(plane):
            threads[number] = -1 - number
            add_device(trace, making, plane, number, path, names)
            stepping = add_steps_of_device(trace, plane, threads[number], pid) or stepping
        elif plane.name.startswith("/host:") and plane.name != METADATA:
            host.append((plane, path))
        elif len(plane):
            making.unused[f"events of {plane.name[:40]}"] += len(plane)
    launched = Launched.by(trace)
    for plane, path in host:
        add_host(trace, making, plane, ops, launched.of_calls(plane, path), pid)
    if stepping:  # a device is later than its host: a step of the host is none of it
        own = pl.col("tid").is_in(list(threads.values()))
        trace.regions = trace.regions.with_columns(
            category=pl.when(own | (pl.col("category") != STEP)).then("category").otherwise(pl.lit(""))
        )
    trace.names = {number: name for name, number in names.items()}
    lone = add_ops_of_work(trace, ops, threads, pid)
    if lone:
        making.note(f"the calls that launched {lone:,} ops are not in the trace: the ops stand on a thread with the name of their device")
        trace.threads.update({(pid, thread): space.planes[number].name for number, thread in threads.items()})
    trace.processes = {pid: f"{space.hosts[0]}: process {pid}" if space.hosts and pid else space.hosts[0] if space.hosts else "process"}
    trace.since_1970 = _epoch(space)
    return scopes, trace


def _pid(space: Space) -> int:
    given = [plane.stats.get("process_id") for plane in space.planes]
    return next((pid for pid in given if isinstance(pid, int) and 0 < pid < 1 << 32), 0)


def _epoch(space: Space) -> int | None:
    """The time of day at the trace's time 0."""
    if any(line.begin_ns > _YEAR_2001 for plane in space.planes for line in plane.lines):
        return 0
    given = [plane.stats.get("profile_start_time") for plane in space.planes]
    return next((start for start in given if isinstance(start, int) and _YEAR_2001 < start < 1 << 62), None)


def _count_unused(making: Making, plane: Plane) -> None:
    if plane.aggregated.any():
        making.unused["events without a time"] += int(plane.aggregated.sum())
    for name, count in plane.stat_counts().items():
        if name not in _READ:
            making.unused[f"stat {name[:40]}"] += count

"""Traces of devices in one form for all profilers: calls and regions on threads, work of devices, samples of CPUs.

Times are the tool's own, in nanoseconds; a process is the tool's number of it (`pid`), and -1 where it is not known.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import polars as pl

from aiflame.exchange.readers.frames import Frames
from aiflame.profile.schema.enums import CallBackend, GpuApi
from aiflame.values import dataclass, field

I64, TEXT = pl.Int64(), pl.String()

CALLS = {
    "pid": I64,
    "tid": I64,
    "begin": I64,
    "end": I64,  # null: it has none
    "frame": I64,  # number in `frames`
    "correlation": I64,  # 0: none
    "chain": I64,  # row of `chains` of the frame that called it; -1: the call around it
    "failed": I64,
}
REGIONS = {
    "pid": I64,
    "tid": I64,
    "begin": I64,
    "end": I64,  # null: the program never ended it
    "kind": I64,  # RegionKind
    "api": I64,  # RegionApi; 0: NVTX
    "domain": TEXT,
    "category": TEXT,
    "name": TEXT,
    "color": I64,
    "payload_type": I64,  # PayloadType
    "payload": pl.UInt64(),
}
_WORK = {
    "pid": I64,
    "correlation": I64,
    "node": I64,
    "begin": I64,
    "end": I64,
    "device": I64,  # key of `devices`
    "stream": I64,
}
KERNELS = {
    **_WORK,
    "name": I64,  # key of `names`
    **{f"{name}_{axis}": I64 for name in ("grid", "block") for axis in "xyz"},
    "registers": I64,
    "static_shared": I64,
    "dynamic_shared": I64,
    "local_bytes": I64,
}
COPIES = {**_WORK, "kind": I64, "bytes": I64}  # CopyKind
SYNCS = {"pid": I64, "correlation": I64, "begin": I64, "end": I64, "kind": I64, "stream": I64}  # SyncKind
CHAINS = {"pid": I64, "parent": I64, "frame": I64}  # parent: an earlier row, -1: none
SAMPLES = {"pid": I64, "tid": I64, "time": I64, "chain": I64, "period": I64, "waiting": pl.Boolean(), "cpu": I64, "clock": I64}
"""`clock`: 0 is CPU time, 1 wall-clock time."""
COUNTERS = {"pid": I64, "time": I64, "name": TEXT, "value": pl.Float64()}
MEASURED = {"series": I64, "time": I64, "value": pl.Float64()}  # place in `series`; a value holds until the next of its series
VALUES = {"pid": I64, "chain": I64, "kind": I64, "value": I64, "tid": I64}  # row of `chains`; place in `value_kinds`; -1: not known
NODES = {"pid": I64, "tid": I64, "begin": I64, "node": I64, "original": I64}


def _empty(schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return _made_once(tuple(schema.items())).clone()


@functools.cache
def _made_once(schema: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(schema))


@dataclass(slots=True)
class DeviceTrace:
    api: GpuApi
    frames: Frames = field(default_factory=Frames)
    backends: dict[int, CallBackend] = field(default_factory=dict)
    """Frames that are calls of a runtime, and whose."""
    waits: set[int] = field(default_factory=set)
    """Frames in which a thread waits."""
    calls: pl.DataFrame = field(default_factory=lambda: _empty(CALLS))
    regions: pl.DataFrame = field(default_factory=lambda: _empty(REGIONS))
    kernels: pl.DataFrame = field(default_factory=lambda: _empty(KERNELS))
    copies: pl.DataFrame = field(default_factory=lambda: _empty(COPIES))
    syncs: pl.DataFrame = field(default_factory=lambda: _empty(SYNCS))
    chains: pl.DataFrame = field(default_factory=lambda: _empty(CHAINS))
    samples: pl.DataFrame = field(default_factory=lambda: _empty(SAMPLES))
    counters: pl.DataFrame = field(default_factory=lambda: _empty(COUNTERS))
    measured: pl.DataFrame = field(default_factory=lambda: _empty(MEASURED))
    series: list[tuple[str, str, str]] = field(default_factory=list)
    """Quantities of GPUs that were measured again and again: device, name and unit."""
    timed: bool = True
    """The time that each call spent itself counts; else that of samples alone."""
    nodes: pl.DataFrame = field(default_factory=lambda: _empty(NODES))
    """Nodes of graphs: the call that made each."""
    values: pl.DataFrame = field(default_factory=lambda: _empty(VALUES))
    value_kinds: list[tuple[str, str]] = field(default_factory=list)
    """Name and unit of values of stacks that are no time."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Of kernels."""
    devices: Mapping[int, str] = field(default_factory=dict)
    addresses: Mapping[int, str] = field(default_factory=dict)
    """Of devices, on PCI."""
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    since_1970: int | None = None
    """The time of day at the tool's time 0."""
    shift: int = 0
    """From the tool's times to the profile's, once it is written."""


def shaped(rows: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Rows with exactly these columns; numbers that are missing are 0, and of `chain` -1."""
    if rows.is_empty():
        return _empty(schema)
    columns = []
    for name, kind in schema.items():
        value = pl.col(name).cast(kind) if name in rows.columns else pl.lit(None, dtype=kind)
        if name == "chain":
            value = value.fill_null(-1)
        elif name != "end" and kind == I64:
            value = value.fill_null(0)
        elif kind == TEXT:
            value = value.fill_null("")
        columns.append(value.alias(name))
    return rows.select(columns)

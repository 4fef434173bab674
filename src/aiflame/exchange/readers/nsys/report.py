"""Reports of Nsight Systems (nsys), exported as SQLite, Parquet or Arrow, as a profile.

Tables are absent where they would be empty, and versions differ in their columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl

from aiflame.exchange.readers.devices.trace import COPIES, KERNELS, NODES, SYNCS, DeviceTrace, shaped
from aiflame.exchange.readers.devices.writing import write
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.nsys import facts, metrics, nvtx, stacks
from aiflame.exchange.readers.nsys.ids import with_owner
from aiflame.exchange.readers.nsys.tables import FolderTables, Tables
from aiflame.exchange.readers.sqlite_file import INT, TEXT
from aiflame.exchange.readers.sqlite_pages import Kind
from aiflame.profile.schema.enums import CopyKind, GpuApi, SyncKind

Progress = Callable[[float], None]

_WORK = dict.fromkeys(("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId"), INT)
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_MEMORY = {"CUPTI_ACTIVITY_KIND_MEMCPY": "copyKind", "CUPTI_ACTIVITY_KIND_MEMSET": ""}
_SIZES = {
    **{f"{name}_{axis}": f"{name}{axis.upper()}" for name in ("grid", "block") for axis in "xyz"},
    "registers": "registersPerThread",
    "static_shared": "staticSharedMemory",
    "dynamic_shared": "dynamicSharedMemory",
    "local_bytes": "localMemoryPerThread",
}
READ: dict[str, dict[str, Kind]] = {
    "StringIds": {"id": INT, "value": TEXT},
    "CUPTI_ACTIVITY_KIND_KERNEL": {**_WORK, "demangledName": INT, "mangledName": INT, **dict.fromkeys(_SIZES.values(), INT)},
    "CUPTI_ACTIVITY_KIND_MEMCPY": {**_WORK, "bytes": INT, "copyKind": INT},
    "CUPTI_ACTIVITY_KIND_MEMSET": {**_WORK, "bytes": INT},
    _GRAPHS: {**_WORK, "graphId": INT},
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": {**_WORK, "syncType": INT},
    "CUDA_GRAPH_NODE_EVENTS": dict.fromkeys(("start", "globalTid", "graphNodeId", "originalGraphNodeId"), INT),
    "NVTX_EVENTS": nvtx.COLUMNS,
    **stacks.COLUMNS,
}
_COPIES = {
    **dict.fromkeys((1, 3, 11), CopyKind.HOST_TO_DEVICE),
    **dict.fromkeys((2, 4, 12), CopyKind.DEVICE_TO_HOST),
    9: CopyKind.MAP,
    10: CopyKind.PEER,
}
_SYNCS = {1: SyncKind.EVENT, 3: SyncKind.STREAM, 4: SyncKind.CONTEXT}
_NOT_EVENTS = re.compile(r"ENUM_|TARGET_INFO_|META_DATA_|ANALYSIS_|sqlite_|EXPORT_|DIAGNOSTIC_EVENT|PROCESSES|NVTX_PAYLOAD")
"""Tables that describe others. `nsys stats` adds tables to a file, with names in small letters."""
_EVENTS = re.compile(r"[A-Z0-9_]{4,}")


def is_folder(folder: Path) -> bool:
    names = {name.rpartition(".")[0] for name in FolderTables.names(folder)}
    return "StringIds" in names and any(name.startswith(("CUPTI_", "NVTX_", "TARGET_INFO", "OSRT_", "META_DATA")) for name in names)


def read_folder(folder: Path, making: Making, progress: Progress) -> None:
    read_tables(FolderTables.open(folder), making, progress)


def read_tables(file: Tables, making: Making, progress: Progress) -> None:
    rows = file.read_many(READ)
    progress(0.5)
    making.lacks = ("stall reasons of kernels", "stacks of Python functions", "modules of torch")
    trace = DeviceTrace(GpuApi.CUDA)
    strings = rows["StringIds"].drop_nulls("id").unique("id", keep="first")
    facts.add_facts(trace, making, file, strings)
    _add_kernels(trace, rows, strings)
    _add_copies(trace, rows)
    _add_syncs(trace, making, rows["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"])
    _add_nodes(trace, rows["CUDA_GRAPH_NODE_EVENTS"])
    nvtx.add_nvtx(trace, making, rows["NVTX_EVENTS"], strings)
    stacks.add_calls(trace, rows, strings)
    stacks.add_samples(trace, making, rows, strings, facts.sampling_period(file))
    progress(0.6)
    del rows
    _count_others(file, making)
    write(trace, making)
    metrics.add_metrics(file, making, trace)


def _add_kernels(trace: DeviceTrace, rows: dict[str, pl.DataFrame], strings: pl.DataFrame) -> None:
    kernels = _work(trace, rows["CUPTI_ACTIVITY_KIND_KERNEL"]).with_columns(pl.col(of).alias(name) for name, of in _SIZES.items())
    kernels = kernels.with_columns(name=pl.coalesce("mangledName", "demangledName", pl.lit(-1)))
    used = strings.join(kernels.select(id="name").unique(), on="id", how="semi")
    names = dict(used.iter_rows())
    graphs = _work(trace, rows[_GRAPHS])
    if len(graphs):
        first = max(names, default=0) + 1
        numbers = {of: first + place for place, of in enumerate(graphs["graphId"].unique().sort().to_list())}
        names.update({number: f"[CUDA graph {of}]" if of is not None else "[CUDA graph]" for of, number in numbers.items()})
        graphs = graphs.with_columns(name=pl.col("graphId").replace_strict(numbers, return_dtype=pl.Int64))
    trace.names = names
    trace.kernels = pl.concat([shaped(kernels, KERNELS), shaped(graphs, KERNELS)])


def _add_copies(trace: DeviceTrace, rows: dict[str, pl.DataFrame]) -> None:
    parts = []
    for table, kind in _MEMORY.items():
        copies = _work(trace, rows[table])
        meaning = (
            pl.col(kind).replace_strict({of: int(to) for of, to in _COPIES.items()}, default=int(CopyKind.DEVICE_TO_DEVICE))
            if kind
            else pl.lit(int(CopyKind.FILL))
        )
        parts.append(shaped(copies.with_columns(kind=meaning.cast(pl.Int64)), COPIES))
    trace.copies = pl.concat(parts)


def _work(trace: DeviceTrace, rows: pl.DataFrame) -> pl.DataFrame:
    """With the columns of all work; `device` is nsys' number of the GPU."""
    owned = with_owner(rows, "globalPid").with_columns(
        begin="start", correlation=pl.col("correlationId").fill_null(0), node=pl.col("graphNodeId").fill_null(0), stream="streamId"
    )
    return owned.with_columns(device=pl.col("deviceId").fill_null(0))


def _add_syncs(trace: DeviceTrace, making: Making, rows: pl.DataFrame) -> None:
    """A stream that waits for an event keeps no thread waiting."""
    kind = pl.col("syncType").replace_strict({of: int(to) for of, to in _SYNCS.items()}, default=0, return_dtype=pl.Int64)
    waits = _work(trace, rows).with_columns(kind=kind)
    trace.syncs = shaped(waits.filter(pl.col("kind") > 0), SYNCS)
    others = len(rows) - len(trace.syncs)
    if others:
        making.unused["streams that waited for events"] += others


def _add_nodes(trace: DeviceTrace, rows: pl.DataFrame) -> None:
    nodes = with_owner(rows, "globalTid").with_columns(begin="start", node="graphNodeId", original="originalGraphNodeId")
    trace.nodes = shaped(nodes.filter(pl.col("node") > 0), NODES)


def _count_others(file: Tables, making: Making) -> None:
    for table in file.tables:
        if table not in READ and table not in metrics.TABLES and _EVENTS.fullmatch(table) and not _NOT_EVENTS.match(table):
            count = file.count(table)
            if count:
                making.unused[f"rows of {table}"] += count

"""Reports of nsys, as `nsys export -t sqlite` writes them: its tables, with their columns."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import polars as pl
from arrow_streams import stream

PID, OTHER = 4242, 4343
TID = 4250
HARDWARE = 1 << 48
STRINGS = {
    1: "cudaLaunchKernel_v7000",
    2: "cudaStreamSynchronize_v3020",
    3: "cudaMemcpyAsync_v3020",
    4: "_Z4gemmPf",
    5: "gemm(float*)",
    6: "registered",
    7: "trainer",
    8: "poll",
    9: "main",
    10: "/usr/bin/app",
    11: "work()",
    12: "cudaGraphLaunch_v10000",
    13: "cudaGraphAddKernelNode_v10000",
    14: "add",
}
SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, cuDevice INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER NOT NULL, timestampType INTEGER NOT NULL, source INTEGER NOT NULL,
    severity INTEGER NOT NULL, text TEXT NOT NULL, globalPid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL,
    mangledName INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
    blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
    dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL,
    gridId INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
    copyKind INTEGER NOT NULL,
    graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL,
    bytes INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, syncType INTEGER NOT NULL,
    eventId INTEGER NOT NULL);
CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    nameId INTEGER NOT NULL, graphNodeId INTEGER NOT NULL, originalGraphNodeId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER,
    text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER,
    doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT);
CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,
    nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, nestingLevel INTEGER, callchainId INTEGER NOT NULL);
CREATE TABLE OSRT_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL, kernelMode INTEGER, unresolved INTEGER,
    originalIP INTEGER, stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth));
CREATE TABLE COMPOSITE_EVENTS (id INTEGER NOT NULL PRIMARY KEY, start INTEGER NOT NULL, cpu INTEGER, threadState INTEGER, globalTid INTEGER,
    cpuCycles INTEGER NOT NULL);
CREATE TABLE SAMPLING_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL, kernelMode INTEGER,
    unresolved INTEGER, originalIP INTEGER, stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth));
CREATE TABLE SCHED_EVENTS (start INTEGER NOT NULL, cpu INTEGER NOT NULL, isSchedIn INTEGER NOT NULL, globalTid INTEGER);
CREATE TABLE GPU_METRICS (timestamp INTEGER NOT NULL, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, value INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL, metricId INTEGER NOT NULL,
    metricName TEXT NOT NULL);
"""


def thread(pid: int, tid: int) -> int:
    return HARDWARE | pid << 24 | tid


def process(pid: int) -> int:
    return HARDWARE | pid << 24


def kernel(
    start: int, end: int, correlation: int, pid: int = PID, stream: int = 7, node: int | None = None, device: int = 0
) -> tuple[object, ...]:
    return (start, end, device, 1, stream, correlation, process(pid), 5, 5, 4, 32, 8, 2, 1, 128, 1, 1, 1024, 512, 16, 0, 1, node)


def call(start: int, end: int, name: int, correlation: int, pid: int = PID, tid: int = TID, result: int = 0) -> tuple[object, ...]:
    return (start, end, 0, thread(pid, tid), correlation, name, result, None)


def nvtx(start: int, end: int | None, kind: int, text: str | None = None, **others: object) -> tuple[object, ...]:
    names: tuple[str, ...] = (
        "rangeId",
        "category",
        "color",
        "text",
        "globalTid",
        "endGlobalTid",
        "textId",
        "domainId",
        "uint64Value",
        "int64Value",
    )
    names += ("doubleValue", "uint32Value", "int32Value", "floatValue", "jsonTextId", "jsonText")
    given = {"text": text, "globalTid": thread(PID, TID), "domainId": 0, **others}
    return (start, end, kind, *(given.get(name) for name in names))


ROWS: dict[str, list[tuple[object, ...]]] = {
    "StringIds": list(STRINGS.items()),
    "META_DATA_CAPTURE": [
        ("PROCESS_0:COMMAND", "python"),
        ("PROCESS_0:ARGUMENT_1", "x.py"),
        ("PROCESS_0:ARGUMENT_0", "-u"),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", 'TOKEN="secret"'),
        ("RATE_HZ", "1000"),
    ],
    "TARGET_INFO_SESSION_START_TIME": [(1_700_000_000_000_000_000, "", "")],
    "TARGET_INFO_GPU": [(HARDWARE, 0, "NVIDIA H100", "0000:1B:00.0", 0)],
    "PROCESSES": [(process(PID), PID, "python3")],
    "ThreadNames": [(7, 20, thread(PID, TID))],
    "DIAGNOSTIC_EVENT": [(0, 1, 1, 1, "all is well", None), (0, 1, 1, 2, "events were\nlost", None)],
    # Newer versions write rows in no order.
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        call(5_000, 5_900, 2, 3),
        call(1_000, 1_200, 1, 1),
        call(2_000, 2_500, 3, 2, result=1),
        call(1_050, 1_150, 1, 1, pid=OTHER, tid=OTHER),
        call(7_000, 7_100, 12, 9),
        call(6_000, 6_300, 13, 8),
    ],
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        kernel(3_000, 4_000, 1),
        kernel(3_500, 3_600, 1, pid=OTHER),
        kernel(7_200, 7_300, 9, node=33),
        kernel(8_000, 8_050, 77),
    ],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [
        (2_600, 2_700, 0, 1, 7, 2, process(PID), 4096, 1, None),
        (2_800, 2_850, 0, 1, 7, 0, process(PID), 10, 8, None),
    ],
    "CUPTI_ACTIVITY_KIND_MEMSET": [(2_900, 2_910, 0, 1, 7, 0, process(PID), 0, 64)],
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
        (5_010, 5_890, 0, 1, 7, 3, process(PID), 3, 0),
        (5_950, 5_960, 0, 1, 7, 4, process(PID), 2, 0),
    ],
    "CUDA_GRAPH_NODE_EVENTS": [(6_100, 6_110, 0, thread(PID, TID), 13, 30, None), (6_400, 6_410, 0, thread(PID, TID), 13, 33, 30)],
    "NVTX_EVENTS": [
        nvtx(0, None, 75, "library", domainId=3),
        nvtx(0, None, 33, "io", domainId=3, category=5),
        nvtx(500, 6_000, 59, "step", color=0xFF00FF00),
        nvtx(900, 2_600, 59, textId=6, domainId=3, category=5, uint64Value=12),
        nvtx(950, 1_500, 59, "aten::mm, seq = 4, op_id = 9"),
        nvtx(700, 5_000, 60, "fetch", rangeId=1, doubleValue=0.5),
        nvtx(4_000, None, 34, "now", int64Value=-3),
        nvtx(9_000, None, 59, "open"),
    ],
    "OSRT_API": [(9_500, 9_900, 27, thread(PID, TID), 0, 8, 0, 0, 1)],
    "OSRT_CALLCHAINS": [(1, 11, 10, None, None, 4, 0), (1, 9, 10, None, None, 5, 1)],
    "COMPOSITE_EVENTS": [(1, 4_100, 3, 1, thread(PID, TID), 100), (2, 4_200, 3, 1, thread(PID, TID), 100)],
    "SAMPLING_CALLCHAINS": [
        (1, 11, 10, None, None, 4, 0),
        (1, 9, 10, None, None, 5, 1),
        (2, 14, 10, None, None, 4, 0),
        (2, 11, 10, None, None, 4, 1),
        (2, 9, 10, None, None, 5, 2),
    ],
    "SCHED_EVENTS": [(1, 0, 1, thread(PID, TID))] * 3,
    "GPU_METRICS": [(1_000, 0x100, 1, 10), (2_000, 0x100, 1, 70), (3_000, 0x100, 1, 30)],
    "TARGET_INFO_GPU_METRICS": [(0x100, 0, "GPU Metrics", 1, "SMs Active [Throughput %]")],
}


def write(path: Path, rows: dict[str, list[tuple[object, ...]]] | None = None, without: tuple[str, ...] = (), more: str = "") -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA)
    for table, of in {**ROWS, **(rows or {})}.items():
        if of:
            connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(of[0]))})", of)
    for table in without:
        connection.execute(f"DROP TABLE {table}")
    connection.executescript(more)
    connection.commit()
    connection.close()
    return path


_OF_KERNELS = {
    "shortName": "shortName", "demangledName": "demangledName", "mangledName": "mangledName", "registersPerThread": "registersPerThread",
    **{f"{name}{axis}": f"{name}{axis}" for name in ("grid", "block") for axis in "XYZ"},
    "staticSharedMemory": "staticSharedMemory", "dynamicSharedMemory": "dynamicSharedMemory",
    "localMemoryPerThread": "localMemoryPerThread",
}  # fmt: skip
_CLASSES = {
    "CUPTI_ACTIVITY_KIND_MEMCPY": (1, "memcpy", {"copyKind": "copyKind", "bytes": "sizebytes"}),
    "CUPTI_ACTIVITY_KIND_MEMSET": (2, "memset", {"bytes": "sizebytes"}),
    "CUPTI_ACTIVITY_KIND_KERNEL": (3, "kernel", _OF_KERNELS),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (5, "sync", {"syncType": "syncType"}),
}
IN_LINES = ("StringIds", "ThreadNames", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", *_CLASSES)
"""Tables whose rows an export in lines of JSON has."""


def frames(report: Path) -> dict[str, pl.DataFrame]:
    """The tables of a report that `write` wrote."""
    with sqlite3.connect(report) as connection:
        columns = {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in ROWS}
    return {table: pl.DataFrame(rows, schema=columns[table], orient="row", infer_schema_length=None) for table, rows in ROWS.items()}


def write_arrow(report: Path, path: Path) -> Path:
    """As `nsys export -t arrow` does."""
    path.write_bytes(b"".join(stream(table, rows) for table, rows in frames(report).items()))
    return path


def write_lines(report: Path, path: Path, strings_in_one: bool) -> Path:
    """A made SQLite report as `nsys export -t jsonlines` writes it: numbers of 64 bits are texts, zeros of strings stay."""
    lines: list[dict[str, object]] = []
    with contextlib.closing(sqlite3.connect(report)) as database:
        database.row_factory = sqlite3.Row
        tables = {name: [dict(row) for row in database.execute(f"SELECT * FROM {name}")] for name in IN_LINES}
    for row in tables["CUPTI_ACTIVITY_KIND_RUNTIME"]:
        call = {"startNs": str(row["start"]), "endNs": str(row["end"]), "correlationId": row["correlationId"], "name": str(row["nameId"])}
        lines.append(
            {
                "Type": 48,
                "TraceProcessEvent": {**call, "globalTid": str(row["globalTid"]), "returnValue": row["returnValue"], "eventClass": 0},
            }
        )
    for table, (number, member, columns) in _CLASSES.items():
        for row in tables[table]:
            work = {
                name: row[name]
                for name in ("deviceId", "contextId", "streamId", "correlationId", "graphNodeId")
                if row.get(name) is not None
            }
            work.update({"startNs": str(row["start"]), "endNs": str(row["end"]), "globalPid": str(row["globalPid"]), "eventClass": number})
            of_member = {own: row[name] for name, own in columns.items() if name in row}
            lines.append({"Type": 79 if number == 3 else 80, "CudaEvent": {**work, member: of_member}})
    for row in tables["NVTX_EVENTS"]:
        marked = {
            "Type": row["eventType"],
            "Timestamp": str(row["start"]),
            "GlobalTid": str(row["globalTid"]),
            "DomainId": str(row["domainId"]),
        }
        for name, own in (("end", "EndTimestamp"), ("text", "Text"), ("textId", "TextId"), ("category", "Category"), ("color", "Color")):
            if row[name] is not None:
                marked[own] = row[name] if name == "text" else str(row[name])
        lines.append({"Type": row["eventType"], "NvtxEvent": marked})
    lines.append({"Type": 31, "CompositeEvent": {"globalTid": "1"}})
    if strings_in_one:
        texts = {row["id"]: row["value"] for row in tables["StringIds"]}
        lines.append({"data": [texts.get(number, "") for number in range(max(texts) + 1)]})
    else:
        lines += [{"type": "String", "id": str(row["id"]), "value": row["value"]} for row in tables["StringIds"]]
    lines += [{"type": "ThreadName", "globalTid": str(row["globalTid"]), "nameId": str(row["nameId"])} for row in tables["ThreadNames"]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path

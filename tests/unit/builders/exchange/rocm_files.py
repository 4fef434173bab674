"""Files of rocprofv3 of the same run, in each of its formats: two calls, two kernels, a copy, a marked range."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

PID, TID = 4711, 4712
START = 8_000_000_000_000
CALLS = (  # domain, name, begin, end, correlation
    ("HIP_RUNTIME_API", "hipLaunchKernel", 100, 150, 1),
    ("HIP_RUNTIME_API", "hipLaunchKernel", 200, 260, 2),
    ("HIP_RUNTIME_API", "hipMemcpy", 300, 900, 3),
    ("HIP_RUNTIME_API", "hipDeviceSynchronize", 920, 940, 4),
)
RANGE = ("train", 50, 950, 9)
KERNELS = ((120, 180, 1), (220, 420, 2))
COPY = (500, 800, 3, 4096)
NAME = "_Z4addffPf.kd"
BLOCK, ITEMS = (64, 2, 1), (1024, 4, 1)

SAMPLES = (  # dispatch, instruction, source line, whether it was issued, the reason why not; often
    (1, "s_waitcnt vmcnt(0)", "/src/add.hip:12", 0, "WAITCNT", 30),
    (1, "v_add_f32 v1, v2, v3", "/src/add.hip:13", 1, "", 5),
    (2, "s_waitcnt vmcnt(0)", "/src/add.hip:12", 0, "WAITCNT", 7),
    (2, "v_mfma_f32_4x4x1f32 a[0:3], v0, v1", "", 0, "ARBITER_WIN_EX_STALL", 3),
    (99, "s_endpgm", "", 0, "A_NEW_REASON", 2),
)
REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"


def results() -> dict[str, Any]:
    def record(begin: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
        return {
            "thread_id": TID,
            "correlation_id": {"internal": correlation, "external": 0},
            "start_timestamp": START + begin,
            "end_timestamp": START + end,
            **more,
        }

    names = [call[1] for call in CALLS]
    dispatch = {
        "agent_id": {"handle": 20},
        "queue_id": {"handle": 1},
        "kernel_id": 7,
        "group_segment_size": 512,
        "private_segment_size": 16,
        "workgroup_size": dict(zip("xyz", BLOCK, strict=True)),
        "grid_size": dict(zip("xyz", ITEMS, strict=True)),
    }
    process = {
        "metadata": {"pid": PID, "command": ["./a.out", "-n", "3"]},
        "agents": [{"id": {"handle": 20}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X"}],
        "buffer_records": {
            "kernel_dispatch": [record(*kernel, dispatch_info=dispatch) for kernel in KERNELS],
            "hip_api": [record(*call[2:], kind=1, operation=names.index(call[1])) for call in CALLS],
            "marker_api": [record(*RANGE[1:], kind=2, operation=0)],
            "memory_copy": [
                record(*COPY[:3], kind=3, operation=1, dst_agent_id={"handle": 20}, src_agent_id={"handle": 10}, bytes=COPY[3])
            ],
            "scratch_memory": [record(1, 2, 0)],
        },
        "strings": {
            "buffer_records": [
                {"kind": "NONE", "operations": []},
                {"kind": "HIP_RUNTIME_API", "operations": names},
                {"kind": "MARKER_CORE_API", "operations": ["roctxRangePush"]},
                {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
            ],
            "marker_api": [{"key": RANGE[3], "value": RANGE[0]}],
        },
        "kernel_symbols": [{"kernel_id": 0, "kernel_name": ""}, {"kernel_id": 7, "kernel_name": NAME, "arch_vgpr_count": 24}],
    }
    return {"rocprofiler-sdk-tool": [process]}


def write_json(folder: Path) -> Path:
    file = folder / "4711_results.json"
    file.write_text(json.dumps(results()))
    return file


def write_json_samples(folder: Path) -> Path:
    """With samples of the stochastic method; the instruction of the last cannot be decoded."""
    given = results()
    process = given["rocprofiler-sdk-tool"][0]
    for number, kernel in enumerate(process["buffer_records"]["kernel_dispatch"]):
        kernel["dispatch_info"] = {**kernel["dispatch_info"], "dispatch_id": 1 + number}
    process["strings"] |= {f"pc_sample_{of}": [row[at] for row in SAMPLES] for of, at in (("instructions", 1), ("comments", 2))}
    process["buffer_records"]["pc_sample_stochastic"] = [
        {
            "inst_index": index,
            "record": {
                "dispatch_id": dispatch,
                "corr_id": {"internal": dispatch, "external": 0},
                "timestamp": START + 130 + index,
                "wave_issued": bool(issued),
                "snapshot": {"stall_reason": f"{REASON}{reason or 'NONE'}"},
            },
        }
        for index, (dispatch, _, _, issued, reason, often) in enumerate(SAMPLES)
        for _ in range(often)
    ]
    file = folder / "4711_results.json"
    file.write_text(json.dumps(given))
    return file


def write_csv_samples(folder: Path) -> Path:
    """The file of kernels; that of the samples lies beside it."""
    head = (
        '"Sample_Timestamp","Exec_Mask","Dispatch_Id","Instruction","Instruction_Comment","Correlation_Id","Wave_Issued_Instruction",'
        '"Instruction_Type","Stall_Reason","Wave_Count"\n'
    )
    rows = (
        f'{START + 130},65535,{dispatch},"{instruction}","{line}",{dispatch},{issued},"",{REASON}{reason or "NONE"},4\n' * often
        for dispatch, instruction, line, issued, reason, often in SAMPLES
    )
    (folder / f"{PID}_pc_sampling_stochastic.csv").write_text(head + "".join(rows))
    return write_csv(folder)


def write_csv(folder: Path, prefix: str = f"{PID}_") -> Path:
    """Gives the file of kernels; the others lie beside it."""
    head = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    calls = "".join(f'"{domain}","{name}",{PID},{TID},{of},{START + begin},{START + end}\n' for domain, name, begin, end, of in CALLS)
    (folder / f"{prefix}hip_api_trace.csv").write_text(head + calls)
    name, begin, end, of = RANGE
    (folder / f"{prefix}marker_api_trace.csv").write_text(
        head + f'"MARKER_CORE_API","{name}",{PID},{TID},{of},{START + begin},{START + end}\n'
    )
    (folder / f"{prefix}agent_info.csv").write_text(
        '"Node_Id","Logical_Node_Id","Agent_Type","Name","Vendor_Name","Product_Name"\n'
        '0,0,"CPU","EPYC","CPU","AMD EPYC"\n4,1,"GPU","gfx942","AMD","AMD Instinct MI300X"\n'
    )
    (folder / f"{prefix}memory_copy_trace.csv").write_text(
        '"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        f'"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,"Agent 0","Agent 1",{COPY[2]},{START + COPY[0]},{START + COPY[1]}\n'
    )
    sizes = ",".join(str(size) for size in (*BLOCK, *ITEMS))
    file = folder / f"{prefix}kernel_trace.csv"
    file.write_text(
        '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
        '"End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y",'
        '"Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
        + "".join(
            f'"KERNEL_DISPATCH","Agent 1",1,1,{TID},{of},7,"{NAME}",{of},{START + begin},{START + end},512,16,24,0,16,{sizes}\n'
            for begin, end, of in KERNELS
        )
    )
    return file


SCHEMA = """
CREATE TABLE `rocpd_string{u}` ("id" INTEGER NOT NULL PRIMARY KEY, "guid" TEXT, "string" TEXT NOT NULL);
CREATE TABLE `rocpd_info_process{u}` ("id" INTEGER NOT NULL PRIMARY KEY, "guid" TEXT, "nid" INTEGER, "ppid" INTEGER, "pid" INTEGER NOT NULL,
    "init" BIGINT, "fini" BIGINT, "start" BIGINT, "end" BIGINT, "command" TEXT);
CREATE TABLE `rocpd_info_thread{u}` ("id" INTEGER NOT NULL PRIMARY KEY, "guid" TEXT, "nid" INTEGER, "ppid" INTEGER, "pid" INTEGER NOT NULL,
    "tid" INTEGER NOT NULL, "name" TEXT, "start" BIGINT, "end" BIGINT);
CREATE TABLE `rocpd_info_agent{u}` ("id" INTEGER NOT NULL PRIMARY KEY, "guid" TEXT, "nid" INTEGER, "pid" INTEGER, "type" TEXT,
    "absolute_index" INTEGER, "logical_index" INTEGER, "type_index" INTEGER, "uuid" INTEGER, "name" TEXT, "model_name" TEXT,
    "vendor_name" TEXT, "product_name" TEXT);
CREATE TABLE `rocpd_info_kernel_symbol{u}` ("id" INTEGER NOT NULL PRIMARY KEY, "guid" TEXT, "nid" INTEGER, "pid" INTEGER,
    "code_object_id" INTEGER, "kernel_name" TEXT, "display_name" TEXT, "arch_vgpr_count" INTEGER);
CREATE TABLE `rocpd_event{u}` ("id" INTEGER NOT NULL PRIMARY KEY, "guid" TEXT, "category_id" INTEGER, "stack_id" INTEGER,
    "parent_stack_id" INTEGER, "correlation_id" INTEGER);
CREATE TABLE `rocpd_region{u}` ("id" INTEGER NOT NULL PRIMARY KEY, "guid" TEXT, "nid" INTEGER, "pid" INTEGER NOT NULL,
    "tid" INTEGER NOT NULL, "start" BIGINT NOT NULL, "end" BIGINT NOT NULL, "name_id" INTEGER NOT NULL, "event_id" INTEGER);
CREATE TABLE `rocpd_kernel_dispatch{u}` ("id" INTEGER NOT NULL PRIMARY KEY, "guid" TEXT, "nid" INTEGER, "pid" INTEGER NOT NULL,
    "tid" INTEGER, "agent_id" INTEGER NOT NULL, "kernel_id" INTEGER NOT NULL, "dispatch_id" INTEGER NOT NULL, "queue_id" INTEGER NOT NULL,
    "stream_id" INTEGER NOT NULL, "start" BIGINT NOT NULL, "end" BIGINT NOT NULL, "private_segment_size" INTEGER,
    "group_segment_size" INTEGER, "workgroup_size_x" INTEGER, "workgroup_size_y" INTEGER, "workgroup_size_z" INTEGER,
    "grid_size_x" INTEGER, "grid_size_y" INTEGER, "grid_size_z" INTEGER, "region_name_id" INTEGER, "event_id" INTEGER);
CREATE TABLE `rocpd_memory_copy{u}` ("id" INTEGER NOT NULL PRIMARY KEY, "guid" TEXT, "nid" INTEGER, "pid" INTEGER NOT NULL,
    "tid" INTEGER, "start" BIGINT NOT NULL, "end" BIGINT NOT NULL, "name_id" INTEGER NOT NULL,
    "dst_agent_id" INTEGER, "dst_address" INTEGER,
    "src_agent_id" INTEGER, "src_address" INTEGER, "size" INTEGER NOT NULL, "queue_id" INTEGER, "stream_id" INTEGER,
    "region_name_id" INTEGER, "event_id" INTEGER);
CREATE VIEW `rocpd_kernel_dispatch` AS SELECT * FROM `rocpd_kernel_dispatch{u}`;
"""


def write_rocpd(folder: Path) -> Path:
    """The columns of the schema that ROCm 7 has, without those that nothing reads."""
    file, own = folder / "4711_results.db", "_0000ddb5_8903_7903"
    connection = sqlite3.connect(file)
    connection.executescript(SCHEMA.replace("{u}", own))
    texts = ["HIP_RUNTIME_API_EXT", "MARKER_CORE_API", "MEMORY_COPY_HOST_TO_DEVICE", RANGE[0], *dict.fromkeys(call[1] for call in CALLS)]

    def add(table: str, **row: object) -> None:
        names = ", ".join(f'"{name}"' for name in row)
        connection.execute(f"INSERT INTO rocpd_{table}{own} ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))

    for number, text in enumerate(texts):
        add("string", id=number, string=text)
    add("info_process", id=1, pid=PID, command="./a.out -n 3")
    add("info_thread", id=5, pid=1, tid=TID, name="worker")
    add("info_agent", id=2, type="GPU", name="gfx942", product_name="AMD Instinct MI300X")
    add("info_kernel_symbol", id=7, kernel_name=NAME, arch_vgpr_count=24)
    event = 0
    for domain, name, begin, end, of in (*CALLS, ("MARKER", *RANGE)):
        event += 1
        add("event", id=event, category_id=int(domain == "MARKER"), stack_id=of, parent_stack_id=0, correlation_id=0)
        add("region", pid=1, tid=5, start=START + begin, end=START + end, name_id=texts.index(name), event_id=event)
    sizes = {
        f"{of}_size_{axis}": size for of, three in (("workgroup", BLOCK), ("grid", ITEMS)) for axis, size in zip("xyz", three, strict=True)
    }
    for begin, end, of in KERNELS:
        event += 1
        add("event", id=event, category_id=0, stack_id=of, parent_stack_id=of, correlation_id=0)
        times = {"start": START + begin, "end": START + end, "event_id": event}
        segments = {"private_segment_size": 16, "group_segment_size": 512}
        add("kernel_dispatch", pid=1, tid=5, agent_id=2, kernel_id=7, dispatch_id=of, queue_id=1, stream_id=1, **times, **segments, **sizes)
    add("event", id=event + 1, category_id=0, stack_id=COPY[2], parent_stack_id=0, correlation_id=0)
    add(
        "memory_copy", pid=1, tid=5, start=START + COPY[0], end=START + COPY[1], name_id=2, dst_agent_id=2, src_agent_id=1, size=COPY[3],
        stream_id=0, event_id=event + 1,
    )  # fmt: skip
    connection.commit()
    connection.close()
    return file

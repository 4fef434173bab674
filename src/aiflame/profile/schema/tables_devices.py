"""Tables of a profile: launches, the work that devices ran, and its stalls."""

from __future__ import annotations

from aiflame.profile.schema.records import Table, columns
from aiflame.profile.schema.records import Type as T

DEVICES = (
    Table(
        "launches",
        "Launch",
        "a call that puts work on a device",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("stack", T.U32, "row of `stacks`"),
            ("api", T.U16, "GpuApi"),
            (
                "autograd",
                T.U16,
                "0: the program has no torch autograd; low 15 bits: torch's number of the thread that made the autograd node; "
                "bit 15: set while that node of the backward pass runs, clear in forward code whose latest node it is",
            ),
            ("sequence", T.U32, "low 32 bits of the node's sequence number, which counts within that thread"),
            ("variant", T.U32, "row of `kernel_variants`, 0: not known"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("correlation", T.U64, "number by which rows of `kernels`, `copies` … of the same process and api refer to this launch"),
        ),
    ),
    Table(
        "kernel_shapes",
        "KernelShape",
        "the shapes of launched kernels: a function and its dimensions, each combination once",
        columns(
            ("name", T.STR, "as compiled (mangled)"),
            ("device", T.STR, "device name, with its number where several may have the same name: `NVIDIA H200 [0]`"),
            ("api", T.U32, "GpuApi"),
            ("grid_x", T.U32, "work items or blocks"),
            ("grid_y", T.U32, ""),
            ("grid_z", T.U32, ""),
            ("block_x", T.U32, "work-group or block size, 0: chosen by the runtime"),
            ("block_y", T.U32, ""),
            ("block_z", T.U32, ""),
            ("registers", T.U32, "registers for each thread, 0: unknown"),
            ("static_shared", T.U32, "bytes of shared memory for each block"),
            ("dynamic_shared", T.U32, "bytes of shared memory for each block"),
            ("local_bytes", T.U32, "bytes of local memory for each thread: stack and spills"),
        ),
    ),
    Table(
        "kernels",
        "KernelRecord",
        "a kernel that ran on a device",
        columns(
            ("shape", T.U32, "row of `kernel_shapes`"),
            ("correlation", T.U64, "see launches"),
            ("node", T.U64, "`node` in graph_nodes, 0: not part of a graph, 2^64 - 1: of a graph made before the recording"),
            ("start_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("stream", T.U32, "number of the queue or stream, unique in the process"),
            ("api", T.U8, "GpuApi"),
        ),
    ),
    Table(
        "copies",
        "CopyRecord",
        "memory moved or filled on a device",
        columns(
            ("kind", T.U32, "CopyKind"),
            ("device", T.STR, "as in kernel_shapes"),
            ("api", T.U32, "GpuApi"),
            ("correlation", T.U64, "see launches"),
            ("node", T.U64, "as in kernels"),
            ("start_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("bytes", T.U64, "bytes moved or filled"),
            ("stream", T.U32, "number of the queue or stream, unique in the process"),
        ),
    ),
    Table(
        "graph_nodes",
        "GraphNode",
        "a node of a graph of CUDA, HIP or Level Zero: made at a stack (captured or added), or cloned from another (instantiated)",
        columns(
            ("node", T.U64, "id of the node, unique in the process"),
            ("original", T.U64, "`node` that it was cloned from, 0: made at this stack"),
            ("thread", T.U32, "row of `threads`"),
            ("stack", T.U32, "row of `stacks` that made it, 0 for a clone"),
            ("autograd", T.U16, "as in launches, when it was made"),
            ("sequence", T.U32, "as in launches, when it was made"),
            ("variant", T.U32, "as in launches"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "syncs",
        "SyncRecord",
        "a call in which the host waited for a device",
        columns(
            ("kind", T.U32, "SyncKind"),
            ("api", T.U32, "GpuApi"),
            ("correlation", T.U64, "see launches"),
            ("start_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("stream", T.U32, "as in kernels; 0: the whole context, an event, or unknown"),
        ),
    ),
    Table(
        "allocations",
        "AllocationRecord",
        "memory that the driver allocated or freed: a device's, managed, or pinned memory of the machine (with --gpu-memory)",
        columns(
            ("kind", T.U32, "AllocationKind"),
            ("memory", T.U32, "MemoryKind"),
            ("device", T.STR, "as in kernel_shapes"),
            ("api", T.U32, "GpuApi"),
            ("correlation", T.U64, "see launches"),
            ("address", T.U64, ""),
            ("bytes", T.U64, ""),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "cubins",
        "CubinRecord",
        "device code that was loaded; the profile has it once as `cubins/CRC.cubin` (16 hexadecimal digits; `.gz` once sealed)",
        columns(
            ("crc", T.U64, "checksum by which `gpu_functions` refers to it"),
            ("bytes", T.U64, "size; 0: the file could not be written"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "stall_reasons",
        "StallReason",
        "a stall reason of sampled warps",
        columns(
            ("index", T.U32, "the device's number for it"),
            ("name", T.STR, "the vendor's name; ends in _not_issued where the scheduler issued nothing in that cycle"),
        ),
    ),
    Table(
        "gpu_functions",
        "GpuFunction",
        "a function of device code that was sampled",
        columns(("cubin", T.U64, "`crc` in cubins"), ("name", T.STR, "as compiled (mangled)")),
    ),
    Table(
        "gpu_windows",
        "GpuWindow",
        "a stretch of time whose stall samples were fetched together",
        columns(
            ("device", T.STR, "as in kernel_shapes"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("samples", T.U64, "all samples taken, whether or not they name a function"),
            ("dropped", T.U64, "samples lost because a buffer was full"),
            ("foreign", T.U64, "samples in the driver's own kernels"),
            (
                "period_log2",
                T.U32,
                "one warp of each multiprocessor is sampled every 2^n cycles; 0: the period is no such number (GPUs of Intel and AMD)",
            ),
            (
                "launched_by",
                T.U64,
                "`correlation` of the launch to which all its samples belong (AMD has a window for each dispatch); 0: to none alone",
            ),
        ),
    ),
    Table(
        "gpu_samples",
        "GpuSample",
        "the number of samples at one instruction with one stall reason",
        columns(
            ("window", T.U32, "row of `gpu_windows`"),
            ("function", T.U32, "row of `gpu_functions`"),
            ("offset", T.U32, "bytes from the function's start"),
            ("reason", T.U32, "row of `stall_reasons`"),
            ("count", T.U32, "number of samples"),
        ),
    ),
)

ADDRESSES = (
    Table(
        "gpu_devices",
        "GpuDevice",
        "the PCI address of a device that a process uses",
        columns(
            ("device", T.STR, "as in kernel_shapes"),
            ("address", T.STR, "`0000:1B:00.0`"),
        ),
    ),
)

COUNTERS = (
    Table(
        "gpu_counters",
        "GpuCounter",
        "the count of one hardware counter of a whole device in a stretch of time (see --gpu-counters)",
        columns(
            ("device", T.STR, "as in kernel_shapes"),
            ("metric", T.STR, "`dram-read-bytes`, `tensor-cycles` …, or the vendor's name if the user asked for the counter by it"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("value", T.U64, "the count; values of adjacent stretches add up"),
        ),
    ),
)

LOADS = (
    Table(
        "code_loads",
        "CodeLoad",
        "device code that a driver placed in a GPU's memory; another load may have its addresses once it is gone",
        columns(
            ("crc", T.U64, "as in cubins"),
            ("device", T.STR, "as in kernel_shapes"),
            ("address", T.U64, "the lowest address of its code"),
            ("bytes", T.U64, "from there to the end of its code"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC: when the call that loaded it returned; none of its kernels ran before"),
        ),
    ),
    Table(
        "code_unloads",
        "CodeUnload",
        "the program called for the removal of device code; a load without a row lived to the end",
        columns(
            ("load", T.U32, "row of `code_loads`"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC: when the call began"),
        ),
    ),
)

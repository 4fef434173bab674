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
                "0: torch's autograd is not in the program; low 15 bits: torch's number of the thread whose counter `sequence` is from; "
                "bit 15: work of the backward node with that number, else of forward code whose last node has it",
            ),
            ("sequence", T.U32, "low 32 bits of the sequence number of an autograd node"),
            ("variant", T.U32, "row of `kernel_variants`, 0: not known to be one"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("correlation", T.U64, "joins it to `kernels` and `copies` of the same process and api"),
        ),
    ),
    Table(
        "kernel_shapes",
        "KernelShape",
        "the shapes of launched kernels: a function and its dimensions, each combination once",
        columns(
            ("name", T.STR, "as compiled (mangled)"),
            ("device", T.STR, "device name; where several may be alike, with its number: `NVIDIA H200 [0]`"),
            ("api", T.U32, "GpuApi"),
            ("grid_x", T.U32, "work items or blocks"),
            ("grid_y", T.U32, ""),
            ("grid_z", T.U32, ""),
            ("block_x", T.U32, "work-group or block size, 0 when the runtime chose"),
            ("block_y", T.U32, ""),
            ("block_z", T.U32, ""),
            ("registers", T.U32, "a thread, 0 when unknown"),
            ("static_shared", T.U32, "bytes a block"),
            ("dynamic_shared", T.U32, "bytes a block"),
            ("local_bytes", T.U32, "of local memory a thread: stack and spills"),
        ),
    ),
    Table(
        "kernels",
        "KernelRecord",
        "a kernel that ran on a device",
        columns(
            ("shape", T.U32, "row of `kernel_shapes`"),
            ("correlation", T.U64, "see launches"),
            ("node", T.U64, "graph node that it ran for (see graph_nodes), 0: launched on its own"),
            ("start_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("stream", T.U32, "queue or stream, unique in the process"),
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
            ("bytes", T.U64, "moved"),
            ("stream", T.U32, "queue or stream, unique in the process"),
        ),
    ),
    Table(
        "graph_nodes",
        "GraphNode",
        "a node of a CUDA graph: made at a stack (captured or added), or cloned from another (instantiated)",
        columns(
            ("node", T.U64, "its id, unique in the process"),
            ("original", T.U64, "the node that it was cloned from, 0: made at this stack"),
            ("thread", T.U32, "row of `threads`"),
            ("stack", T.U32, "row of `stacks` where it was made, 0 for a clone"),
            ("autograd", T.U16, "as in launches, where it was made"),
            ("sequence", T.U32, "as in launches"),
            ("variant", T.U32, "row of `kernel_variants` where known"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "syncs",
        "SyncRecord",
        "the host waited for a device",
        columns(
            ("kind", T.U32, "SyncKind"),
            ("api", T.U32, "GpuApi"),
            ("correlation", T.U64, "see launches"),
            ("start_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("stream", T.U32, "stream as in kernels; 0: the whole context, an event, or unknown"),
        ),
    ),
    Table(
        "allocations",
        "AllocationRecord",
        "device memory taken or given back (with --gpu-memory)",
        columns(
            ("kind", T.U32, "AllocationKind"),
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
        "device code that was loaded; the bytes are kept once a profile as `cubins/CRC.cubin` (16 hexadecimal digits; once sealed, `.gz`)",
        columns(
            ("crc", T.U64, "key that samples carry"),
            ("bytes", T.U64, "size; 0: it could not be kept"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "stall_reasons",
        "StallReason",
        "the stall reasons that a device may give for a sampled warp",
        columns(
            ("index", T.U32, "its number on that device"),
            ("name", T.STR, "as the vendor names it; ends in _not_issued where the warp did not issue"),
        ),
    ),
    Table(
        "gpu_functions",
        "GpuFunction",
        "a function of device code that was sampled",
        columns(("cubin", T.U64, "crc of its cubin"), ("name", T.STR, "as compiled (mangled)")),
    ),
    Table(
        "gpu_windows",
        "GpuWindow",
        "a stretch of time whose samples were taken together",
        columns(
            ("device", T.STR, "as in kernel_shapes"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("samples", T.U64, "taken, whether or not they name a function"),
            ("dropped", T.U64, "samples lost: no room in a buffer"),
            ("foreign", T.U64, "samples in kernels that are not the program's (the driver's own)"),
            ("period_log2", T.U32, "a warp of each multiprocessor is looked at every 2^n cycles"),
        ),
    ),
    Table(
        "gpu_samples",
        "GpuSample",
        "how often warps were sampled at an instruction with the same stall reason",
        columns(
            ("window", T.U32, "row of `gpu_windows`"),
            ("function", T.U32, "row of `gpu_functions`"),
            ("offset", T.U32, "bytes from the function's start"),
            ("reason", T.U32, "row of `stall_reasons`"),
            ("count", T.U32, "samples"),
        ),
    ),
)

ADDRESSES = (
    Table(
        "gpu_devices",
        "GpuDevice",
        "which of the machine's devices one of a process is",
        columns(
            ("device", T.STR, "as in kernel_shapes"),
            ("address", T.STR, "of PCI: `0000:1B:00.0`"),
        ),
    ),
)

COUNTERS = (
    Table(
        "gpu_counters",
        "GpuCounter",
        "the count of one hardware counter of a device in a stretch of time, over the whole device (see --gpu-counters)",
        columns(
            ("device", T.STR, "as in kernel_shapes"),
            ("metric", T.STR, "`dram-read-bytes`, `tensor-cycles` …, or the vendor's name of a counter that the user asked for"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("value", T.U64, "the count; values of adjacent stretches add up"),
        ),
    ),
)

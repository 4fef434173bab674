"""Tables of a profile: memory that the program took and gave back: samples of the host's, and torch's pools of device memory."""

from __future__ import annotations

from aiflame.profile.schema.records import Table, columns
from aiflame.profile.schema.records import Type as T

HOST_MEMORY = (
    Table(
        "host_allocations",
        "HostAllocation",
        "a sampled allocation of host memory (with --host-memory)",
        columns(
            ("kind", T.U32, "HostMemoryKind"),
            ("thread", T.U32, "row of `threads`: the allocating thread, 0: unknown, as before its start is recorded and after its end"),
            ("stack", T.U32, "row of `stacks`, 0: unknown"),
            ("address", T.U64, ""),
            ("bytes", T.U64, "as asked for"),
            ("weight", T.U64, "bytes that the row stands for: sums of it are unbiased estimates of all bytes"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "host_frees",
        "HostFree",
        "the end of a sampled allocation; an allocation without a row lived to the end of the recording",
        columns(
            ("allocation", T.U32, "row of `host_allocations`"),
            ("thread", T.U32, "row of `threads`: the freeing thread, 0: unknown"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
)

POOLS = (
    Table(
        "memory_refusals",
        "MemoryRefusal",
        "an allocation that failed for lack of memory: of torch's caching allocator (with --gpu-memory), of the host (with --host-memory; "
        "another row where its exception ended a Python program), or in an imported profile",
        columns(
            ("thread", T.U32, "row of `threads`, 0: not known, or a row by the exception's traceback"),
            ("stack", T.U32, "row of `stacks`"),
            ("memory", T.STR, "as in `memory_blocks`, or a device as in kernel_shapes"),
            ("bytes", T.U64, "that were asked for, 0: not known"),
            ("free_bytes", T.U64, "that the device had free, 0: not known"),
            ("used", T.U64, "as in `pool_blocks`, 0: not known"),
            ("held", T.U64, "as in `pool_blocks`, 0: not known; torch has given its unused pieces back before it refuses"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "pool_blocks",
        "PoolBlock",
        "a block of device memory that torch's caching allocator gave to the program, or got back (with --gpu-memory)",
        columns(
            ("kind", T.U32, "AllocationKind"),
            ("device", T.STR, "as in kernel_shapes"),
            ("thread", T.U32, "row of `threads`, 0: unknown, or the block came back"),
            ("stack", T.U32, "row of `stacks`, 0: unknown, or the block came back"),
            ("autograd", T.U16, "as in launches"),
            ("sequence", T.U32, "as in launches"),
            ("address", T.U64, ""),
            ("bytes", T.U64, "of the block: the request, rounded up by the allocator"),
            ("used", T.U64, "bytes of all blocks that the program had then, as the allocator counts them"),
            ("held", T.U64, "bytes that the allocator had from the driver then, in all"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
)

SEGMENTS = (
    Table(
        "memory_segments",
        "MemorySegment",
        "device memory in an imported profile that torch's caching allocator had from the driver in one piece, and cut into blocks",
        columns(
            ("memory", T.STR, "as in `memory_blocks`"),
            ("stream", T.U64, "the CUDA stream for whose blocks it is"),
            ("pool", T.STR, "the private pool of CUDA graphs, as torch numbers it; empty: none"),
            ("expandable", T.U32, "1: a part of an expandable segment, which a neighbour continues"),
            ("address", T.U64, ""),
            ("bytes", T.U64, ""),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC when the driver gave it; 0: before the first moment of the file"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC when the driver got it back; 0: it is there at the end"),
        ),
    ),
)

PHYSICAL = (
    Table(
        "physical_memory",
        "PhysicalMemory",
        "a call that created, mapped or released physical memory by CUDA's virtual memory management (with --gpu-memory). The memory is "
        "free when no reference to its handle and no mapping of it is left",
        columns(
            ("kind", T.U32, "PhysicalMemoryKind"),
            ("memory", T.U32, "MemoryKind, of CREATE"),
            ("device", T.STR, "as in kernel_shapes, of CREATE; empty: it is memory of the machine"),
            ("api", T.U32, "GpuApi"),
            ("correlation", T.U64, "see launches"),
            ("handle", T.U64, "0: UNMAP"),
            ("address", T.U64, "of MAP and UNMAP"),
            ("bytes", T.U64, "of CREATE, MAP and UNMAP"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC, of RELEASE and UNMAP when the call began, otherwise when it returned"),
        ),
    ),
)

HELD = (
    Table(
        "memory_holders",
        "MemoryHolder",
        "a container of the program's that got longer from step to step while recorded memory grew (with --host-memory or --gpu-memory)",
        columns(
            ("path", T.STR, "how the program's code reaches it: `history`, `trainer.losses`, `cache['a']`"),
            ("function", T.STR, "whose variable the path begins with; empty: one of the module"),
            ("file", T.STR, "of that function or module"),
            ("type", T.STR, "of the container: `list`"),
            ("items", T.U32, "entries that it had"),
            ("added", T.U32, "of these since `since_ns`"),
            ("content", T.STR, "the type of its newest entry with memory of its own: `Tensor`"),
            ("graphs", T.U32, "1: these are tensors that keep their autograd graph"),
            ("addresses", T.BLOB, "u64 each: the memory of its newest entries"),
            ("since_ns", T.U64, "CLOCK_MONOTONIC of the first of two looks"),
            ("time_ns", T.U64, "… of the second"),
        ),
    ),
)

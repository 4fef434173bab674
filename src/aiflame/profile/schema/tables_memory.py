"""Tables of a profile: host memory that the program took and gave back, by samples (`record --host-memory`)."""

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

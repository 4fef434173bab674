"""Tables of a profile: traced calls of runtimes, the groups of processes that communicate, and the rank of each process."""

from __future__ import annotations

from aiflame.profile.schema.records import Table, columns
from aiflame.profile.schema.records import Type as T

CALLS = (
    Table(
        "call_names",
        "CallName",
        "a function of a runtime whose calls are traced",
        columns(
            ("backend", T.U32, "CallBackend"),
            ("name", T.STR, "as the runtime has it: MPI_Allreduce, clFinish, gloo:all_reduce"),
        ),
    ),
    Table(
        "calls",
        "CallRecord",
        "a traced call",
        columns(
            ("name", T.U32, "row of `call_names`"),
            ("thread", T.U32, "row of `threads` that made it"),
            ("stack", T.U32, "row of `stacks`, 0: not asked for"),
            ("group", T.U32, "row of `groups` that it was made in, 0: none or unknown"),
            ("peer", T.U32, "rank in the group that it sends to, receives from or takes as root; 0xffffffff: none"),
            ("result", T.U32, "the runtime's return value, as 32 bits"),
            ("kind", T.U8, "CallKind"),
            ("failed", T.U8, "1: the runtime said that it failed"),
            ("autograd", T.U16, "as in launches"),
            ("sequence", T.U32, "as in launches"),
            ("bytes", T.U64, "moved or asked for, where that means something"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "groups",
        "GroupRecord",
        "processes that communicate, as a member of them sees it: a communicator or a process group",
        columns(
            ("backend", T.U32, "CallBackend"),
            ("handle", T.U64, "the runtime's own name for it in this process"),
            ("rank", T.U32, "of this process in it"),
            ("size", T.U32, "members"),
            ("name", T.STR, "where it has one"),
            ("members", T.BLOB, "u32 each: ranks in the whole job, in the order of the group; empty: all of the job, or unknown"),
        ),
    ),
    Table(
        "ranks",
        "RankRecord",
        "where the process stands in a parallel job, as its launcher's variables say; no row: in none",
        columns(
            ("rank", T.U32, "in the job"),
            ("size", T.U32, "processes of the job, 0: unknown"),
            ("local_rank", T.U32, "on this host; 0xffffffff: unknown"),
            ("launcher", T.STR, "openmpi, mpich (PMI), pmix, slurm, torchrun"),
            ("job", T.STR, "the launcher's name for the job, where it has one"),
        ),
    ),
)

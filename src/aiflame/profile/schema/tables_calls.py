"""Tables of a profile: traced calls of runtimes, groups of communicating processes, and the rank of each process."""

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
            ("name", T.STR, "name in the runtime: MPI_Allreduce, clFinish, gloo:all_reduce"),
        ),
    ),
    Table(
        "calls",
        "CallRecord",
        "a traced call",
        columns(
            ("name", T.U32, "row of `call_names`"),
            ("thread", T.U32, "row of `threads`: the calling thread"),
            ("stack", T.U32, "row of `stacks`, 0: not recorded (see --trace-stacks)"),
            ("group", T.U32, "row of `groups` in which the call communicates, 0: none or unknown"),
            ("peer", T.U32, "rank in the group: receiver, sender or root; 0xffffffff: none"),
            ("result", T.U32, "the runtime's return value, as 32 bits"),
            ("kind", T.U8, "CallKind"),
            ("failed", T.U8, "1: the runtime reported a failure"),
            ("autograd", T.U16, "as in launches"),
            ("sequence", T.U32, "as in launches"),
            ("bytes", T.U64, "bytes moved or allocated; 0 for other calls"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "groups",
        "GroupRecord",
        "a communicator or process group, as one of its processes sees it",
        columns(
            ("backend", T.U32, "CallBackend"),
            ("handle", T.U64, "the runtime's handle in this process"),
            ("rank", T.U32, "rank of this process in the group"),
            ("size", T.U32, "number of members"),
            ("name", T.STR, "empty: it has none"),
            ("members", T.BLOB, "a u32 for each member: its rank in the job, in the order of the group; empty: the whole job, or unknown"),
        ),
    ),
    Table(
        "ranks",
        "RankRecord",
        "the process's rank in a parallel job, from its launcher's variables; no row: it belongs to none",
        columns(
            ("rank", T.U32, "rank in the job"),
            ("size", T.U32, "number of ranks in the job, 0: unknown"),
            ("local_rank", T.U32, "rank among those on this host; 0xffffffff: unknown"),
            ("launcher", T.STR, "openmpi, mpich (PMI), pmix, slurm, torchrun"),
            ("job", T.STR, "the launcher's name for the job; empty: it has none"),
        ),
    ),
)

"""Tables of a profile: processes, threads and code, samples of them, and the collector's notes."""

from __future__ import annotations

from aiflame.profile.schema.records import Table, columns
from aiflame.profile.schema.records import Type as T

LIFE = Table(
    "lives",
    "LifeRecord",
    "the begin of a process, in the file that all processes of a recording share; its main thread began with it",
    columns(
        ("pid", T.U32, "process id, also that of its main thread"),
        ("ppid", T.U32, "parent's process id"),
        ("python", T.U32, "as in `processes`"),
        ("start_ns", T.U64, "CLOCK_MONOTONIC when recording began in it"),
        ("command", T.STR, "its arguments, separated by NUL; texts lie in the same file"),
        ("exe", T.STR, "path of the executable"),
        ("cwd", T.STR, "working directory"),
        ("thread_name", T.STR, "of its main thread"),
        ("forked", T.U32, "1: born by fork without exec"),
    ),
)
"""Half a record of `lives.table`: no table of a sealed profile, but rows of `processes` and `threads`."""

LIFE_END = Table(
    "lives",
    "LifeEnd",
    "the end of a process that had no tables of its own",
    columns(
        ("thread_name", T.STR, "of its main thread then"),
        ("end_ns", T.U64, "CLOCK_MONOTONIC"),
        ("cpu_ns", T.U64, "CPU time of the process while it was recorded"),
        ("thread_end_ns", T.U64, "CLOCK_MONOTONIC"),
        ("thread_cpu_ns", T.U64, "CPU time that its main thread used while recorded"),
    ),
)
"""The other half, behind it: rows of `process_ends` and `thread_ends`."""

PROGRAM = (
    Table(
        "processes",
        "ProcessRecord",
        "one row at the start of a process (and again after exec); `end_ns` comes from `process_ends`",
        columns(
            ("pid", T.U32, "process id"),
            ("ppid", T.U32, "parent's process id"),
            ("start_ns", T.U64, "CLOCK_MONOTONIC when recording began in it"),
            ("command", T.STR, "its arguments, separated by NUL"),
            ("exe", T.STR, "path of the executable"),
            ("cwd", T.STR, "working directory"),
            ("python", T.U32, "PY_VERSION_HEX >> 16 when known at start, else 0"),
            ("forked", T.U32, "1: born by fork without exec"),
        ),
    ),
    Table(
        "process_ends",
        "ProcessEnd",
        "one row when a process ends in an orderly way",
        columns(("end_ns", T.U64, "CLOCK_MONOTONIC"), ("cpu_ns", T.U64, "CPU time of the process while it was recorded")),
    ),
    Table(
        "threads",
        "ThreadRecord",
        "one row when a thread is first seen",
        columns(
            ("tid", T.U32, "thread id"),
            ("creator", T.U32, "stack that created it, 0 when unknown"),
            ("start_ns", T.U64, "CLOCK_MONOTONIC"),
            ("name", T.STR, "its name when first seen"),
        ),
    ),
    Table(
        "thread_ends",
        "ThreadEnd",
        "one row when a thread ends, or when recording stops while it lives",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("name", T.STR, "its name then (threads are often named late)"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("cpu_ns", T.U64, "CPU time it used while recorded"),
        ),
    ),
    Table(
        "modules",
        "ModuleRecord",
        "an executable mapping; the same file at the same place is one row",
        columns(
            ("path", T.STR, "file, or [vdso]"),
            ("build_id", T.BLOB, "its GNU build-id note, empty when it has none"),
            ("base", T.U64, "load bias: address minus ELF vaddr"),
            ("low", T.U64, "lowest executable address"),
            ("high", T.U64, "one past the highest"),
            ("inode", T.U64, "of the file"),
            ("device", T.U64, "of the file"),
            ("seen_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "codes",
        "CodeRecord",
        "a Python code object",
        columns(
            ("first_line", T.U32, "co_firstlineno"),
            ("filename", T.STR, "co_filename"),
            ("qualname", T.STR, "co_qualname (co_name on 3.10)"),
            ("linetable", T.BLOB, "co_linetable"),
            ("python", T.U32, "PY_VERSION_HEX >> 16: the line table's encoding"),
        ),
    ),
    Table(
        "jit_methods",
        "JitMethod",
        "code made at run time and reported to us",
        columns(
            ("name", T.STR, "method"),
            ("source", T.STR, "source file, empty when unknown"),
            ("lines", T.BLOB, "u32 pairs (offset, line)"),
            ("address", T.U64, "start"),
            ("size", T.U64, "bytes"),
            ("seen_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table("marks", "MarkRecord", "the text of a MARK or KERNEL frame", columns(("text", T.STR, "as shown"))),
    Table(
        "stacks",
        "StackNode",
        "the trie of all stacks: a node is its caller's node and one frame; 0 is the root",
        columns(("parent", T.U32, "row of `stacks`, 0 for an outermost frame"), ("frame", T.U64, "see FrameKind")),
    ),
    Table(
        "cpu_samples",
        "CpuSample",
        "a thread seen at a moment",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("stack", T.U32, "row of `stacks`"),
            (
                "weight",
                T.U16,
                "periods it stands for: 1 and the timer's overruns, and those without a tick while the thread stayed in one wait",
            ),
            ("autograd", T.U16, "as in launches"),
            ("sequence", T.U32, "as in launches"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
            ("period_ns", T.U32, "time one tick stands for"),
            ("state", T.U8, "SampleState"),
            ("clock", T.U8, "0: CPU time, 1: wall-clock time"),
            ("cpu", T.U16, "processor"),
        ),
    ),
    Table(
        "clocks",
        "ClockRecord",
        "the same moment on three clocks",
        columns(
            ("monotonic_ns", T.U64, ""),
            ("raw_ns", T.U64, ""),
            ("realtime_ns", T.U64, ""),
        ),
    ),
    Table(
        "notes",
        "NoteRecord",
        "failures of the collector, with the reason: each distinct text once",
        columns(("text", T.STR, "one line"), ("time_ns", T.U64, "CLOCK_MONOTONIC")),
    ),
)

WAITS = (
    Table(
        "waits",
        "WaitRecord",
        "a thread seen waiting, in a recording without wall-clock samples",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("stack", T.U32, "row of `stacks`"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
            ("off_us", T.U32, "time for which it had waited since it was last seen waiting, by the kernel's account; not for a CPU"),
            ("call", T.U32, "number of the system call"),
        ),
    ),
)

LOOPS = (
    Table(
        "loop_turns",
        "LoopTurn",
        "a long time for which a thread that waits for events (epoll) did not come back to wait for the next ones",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("due", T.U32, "1: more was to do when it came back: an event was there, or it did not mean to wait"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC of its first tick of CPU time since it had waited"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC when it came back"),
        ),
    ),
)

NAMES = (
    Table(
        "thread_names",
        "ThreadName",
        "a name that the program's Python gave a thread; the latest counts",
        columns(
            ("tid", T.U32, "thread id"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC when it was named"),
            ("name", T.STR, "`threading.Thread.name`, or the role of the process whose main thread it is"),
        ),
    ),
)

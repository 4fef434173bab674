"""Tables of a profile: processes, threads and code, samples of them, and the collector's notes."""

from __future__ import annotations

from aiflame.profile.schema.records import Table, columns
from aiflame.profile.schema.records import Type as T

LIFE = Table(
    "lives",
    "LifeRecord",
    "the start of a process and of its main thread",
    columns(
        ("pid", T.U32, "process id, also that of its main thread"),
        ("ppid", T.U32, "parent's process id"),
        ("python", T.U32, "as in `processes`"),
        ("start_ns", T.U64, "CLOCK_MONOTONIC when recording began in it"),
        ("command", T.STR, "its arguments, separated by NUL; texts are stored in the same file"),
        ("exe", T.STR, "path of the executable"),
        ("cwd", T.STR, "working directory"),
        ("thread_name", T.STR, "name of its main thread"),
        ("forked", T.U32, "1: born by fork without exec"),
    ),
)
"""First half of a record of `lives.table`. Sealing turns it into rows of `processes` and `threads`."""

LIFE_END = Table(
    "lives",
    "LifeEnd",
    "the end of a process that has no tables of its own",
    columns(
        ("thread_name", T.STR, "name of its main thread then"),
        ("end_ns", T.U64, "CLOCK_MONOTONIC"),
        ("cpu_ns", T.U64, "CPU time of the process while it was recorded"),
        ("thread_end_ns", T.U64, "CLOCK_MONOTONIC"),
        ("thread_cpu_ns", T.U64, "CPU time of its main thread while it was recorded"),
    ),
)
"""Second half of that record. Sealing turns it into rows of `process_ends` and `thread_ends`."""

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
            ("python", T.U32, "PY_VERSION_HEX >> 16, 0: not known at the start"),
            ("forked", T.U32, "1: born by fork without exec"),
        ),
    ),
    Table(
        "process_ends",
        "ProcessEnd",
        "one row when a process ends without being killed",
        columns(("end_ns", T.U64, "CLOCK_MONOTONIC"), ("cpu_ns", T.U64, "CPU time of the process while it was recorded")),
    ),
    Table(
        "threads",
        "ThreadRecord",
        "one row when a thread is first seen",
        columns(
            ("tid", T.U32, "thread id"),
            ("creator", T.U32, "row of `stacks` that created it, 0: unknown"),
            ("start_ns", T.U64, "CLOCK_MONOTONIC"),
            ("name", T.STR, "its name when first seen"),
        ),
    ),
    Table(
        "thread_ends",
        "ThreadEnd",
        "one row when a thread ends, or when recording stops before that",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("name", T.STR, "its name then (threads are often named late)"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
            ("cpu_ns", T.U64, "CPU time of the thread while it was recorded"),
        ),
    ),
    Table(
        "modules",
        "ModuleRecord",
        "an executable mapping of a file; mapped again at the same place, it keeps its row",
        columns(
            ("path", T.STR, "file, or [vdso]"),
            ("build_id", T.BLOB, "its GNU build-id note, empty when it has none"),
            ("base", T.U64, "load bias: address minus ELF vaddr"),
            ("low", T.U64, "lowest executable address"),
            ("high", T.U64, "one past the highest"),
            ("inode", T.U64, "the file's inode"),
            ("device", T.U64, "the file's device"),
            ("seen_ns", T.U64, "CLOCK_MONOTONIC when it was first seen"),
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
            ("python", T.U32, "PY_VERSION_HEX >> 16: the line table's encoding; 0 in imported traces: a frame's offset counts lines"),
        ),
    ),
    Table(
        "jit_methods",
        "JitMethod",
        "code that a JIT compiler made and reported to the collector",
        columns(
            ("name", T.STR, "name of the method"),
            ("source", T.STR, "source file, empty: unknown"),
            ("lines", T.BLOB, "u32 pairs (offset, line)"),
            ("address", T.U64, "start of the code"),
            ("size", T.U64, "bytes"),
            ("seen_ns", T.U64, "CLOCK_MONOTONIC when it was reported"),
        ),
    ),
    Table("marks", "MarkRecord", "the text of a MARK or KERNEL frame", columns(("text", T.STR, "as views show it"))),
    Table(
        "stacks",
        "StackNode",
        "the trie of all stacks: a node adds one frame to its caller's node; 0 is the root",
        columns(("parent", T.U32, "row of `stacks`, 0 for an outermost frame"), ("frame", T.U64, "see FrameKind")),
    ),
    Table(
        "cpu_samples",
        "CpuSample",
        "a sample of a thread",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("stack", T.U32, "row of `stacks`"),
            (
                "weight",
                T.U16,
                "number of periods that it stands for: 1, the timer's overruns, and skipped ticks while the thread stayed in one wait",
            ),
            ("autograd", T.U16, "as in launches"),
            ("sequence", T.U32, "as in launches"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC; 0 in imported files: not known"),
            ("period_ns", T.U32, "time one tick stands for"),
            ("state", T.U8, "SampleState"),
            ("clock", T.U8, "0: CPU time, 1: wall-clock time"),
            ("cpu", T.U16, "number of the processor"),
        ),
    ),
    Table(
        "clocks",
        "ClockRecord",
        "one moment on three clocks",
        columns(
            ("monotonic_ns", T.U64, ""),
            ("raw_ns", T.U64, ""),
            ("realtime_ns", T.U64, ""),
        ),
    ),
    Table(
        "notes",
        "NoteRecord",
        "a failure of the collector, with its reason; each distinct text once",
        columns(("text", T.STR, "one line"), ("time_ns", T.U64, "CLOCK_MONOTONIC")),
    ),
)

WAITS = (
    Table(
        "waits",
        "WaitRecord",
        "a thread that the recorder saw waiting, in a recording without wall-clock samples",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("stack", T.U32, "row of `stacks`"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
            ("off_us", T.U32, "time that it spent waiting since its previous row, without waiting for a CPU, from the kernel's schedstat"),
            ("call", T.U32, "number of the system call"),
        ),
    ),
)

LOOPS = (
    Table(
        "loop_turns",
        "LoopTurn",
        "a long turn of an event loop: the time between two waits for events (epoll) of a thread",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("due", T.U32, "1: more work was due at the end: an event had come, or the call was not meant to wait"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC of the first tick of CPU time after the first wait"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC when the second wait began"),
        ),
    ),
)

NAMES = (
    Table(
        "thread_names",
        "ThreadName",
        "a thread's name in Python; the latest row of a thread counts",
        columns(
            ("tid", T.U32, "thread id"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC when it was named"),
            ("name", T.STR, "`threading.Thread.name`; for a main thread, the role of its process"),
        ),
    ),
)

IMPORTED = (
    Table(
        "named_frames",
        "NamedFrame",
        "a frame of an imported trace, as the trace describes it",
        columns(
            ("name", T.STR, "as the trace has it"),
            ("kind", T.U32, "`profile.schema.kinds.Kind`"),
            ("module", T.STR, "library or category; empty: not known"),
            ("file", T.STR, "source file; empty: not known"),
            ("line", T.U32, "0: not known"),
        ),
    ),
    Table(
        "value_kinds",
        "ValueKind",
        "a kind of values that an imported profile has for stacks and that are no time; the first is the one that it means most",
        columns(
            ("name", T.STR, "as the tool calls it; it becomes a metric of the profile"),
            ("unit", T.STR, "ns, bytes, µJ, samples, objects …"),
            ("label", T.STR, "for people; empty: the name"),
        ),
    ),
    Table(
        "stack_values",
        "StackValue",
        "a value of a stack",
        columns(
            ("thread", T.U32, "row of `threads`, 0: not known"),
            ("stack", T.U32, "row of `stacks`"),
            ("kind", T.U32, "row of `value_kinds`"),
            ("value", T.I64, "in the kind's unit"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC, 0: not known"),
        ),
    ),
    Table(
        "memory_blocks",
        "MemoryBlock",
        "a block of memory in an imported profile: its life, and the stack that allocated it",
        columns(
            ("thread", T.U32, "row of `threads`, 0: not known"),
            ("stack", T.U32, "row of `stacks`"),
            ("memory", T.STR, "`host`, or the device: `GPU 0`"),
            ("bytes", T.U64, "that were asked for"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC when it was allocated; 0: before the first moment of the file"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC when it was freed; 0: it is live at the end"),
            ("address", T.U64, "of a pool's block, 0: not known"),
            ("block_bytes", T.U64, "that the pool took for it, 0: not known"),
        ),
    ),
    Table(
        "op_work",
        "OpWork",
        "the work of the op that made a launch, modelled from the shapes of its inputs",
        columns(
            ("correlation", T.U64, "as in launches; the API is CUDA's"),
            ("op", T.U32, "number of the call of the op, unique in the process: launches with one number share its work"),
            ("type", T.STR, "type of the factors: bf16, fp16, fp32, fp64, fp8; empty: another, or no products"),
            ("flops", T.U64, "operations of the whole call: a multiplication and an addition are two"),
            ("bytes", T.U64, "that the whole call must at least read and write"),
        ),
    ),
    Table(
        "op_sums",
        "OpSum",
        "calls of an op of torch with the same inputs, summed up; calls of runtimes and annotations have rows without inputs",
        columns(
            ("name", T.STR, "as the trace has it; `[memory]`: allocations outside of all calls"),
            ("shapes", T.STR, "of the inputs, as JSON; empty: not known"),
            ("types", T.STR, "of the inputs, as JSON"),
            ("values", T.STR, "other arguments, as JSON"),
            ("calls", T.U64, "one that only calls its like is one with it"),
            ("self_ns", T.U64, "outside of calls of ops and runtimes that it made; 0 for annotations"),
            ("took_ns", T.U64, "0 for annotations"),
            ("self_device_ns", T.U64, "the time of the work that it launched, but not through other ops"),
            ("device_ns", T.U64, "the time of all work that it launched"),
            ("launches", T.U64, "the number of launches in `self_device_ns`"),
            ("flops", T.U64, "operations, modelled from the shapes: torch's own count where it has one"),
            ("self_cpu_bytes", T.I64, "allocated less freed, outside of calls that it made"),
            ("cpu_bytes", T.I64, "allocated less freed, on CPUs"),
            ("self_device_bytes", T.I64, "the same on devices"),
            ("device_bytes", T.I64, "the same on devices"),
        ),
    ),
)

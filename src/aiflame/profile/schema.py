"""Every table of a profile, once: the C++ header of the collector is generated from this file, `records.py` and `codes.py`.

A table is a list of fixed-size records. While a program runs, each process appends to its own table files (the spool);
sealing turns them into Parquet. `docs/profile-format.md` describes both.

Adding a table or a column is one edit here. A reader refuses a profile whose `FORMAT` is newer than its own.
"""

from __future__ import annotations

from .records import Column, Table, Type

FORMAT = 1

SPOOL_MAGIC = b"AIFLAMET"
CONTROL_MAGIC = b"AIFLAMEC"
HEADER_BYTES = 4096
"""Bytes before the first record of a table file; the header struct itself is `SPOOL_HEADER`."""


def _columns(*rows: tuple[str, Type, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


T = Type
TABLES: tuple[Table, ...] = (
    Table(
        "processes",
        "ProcessRecord",
        "one row at the start of a process (and again after exec); `end_ns` comes from `process_ends`",
        _columns(
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
        _columns(("end_ns", T.U64, "CLOCK_MONOTONIC"), ("cpu_ns", T.U64, "CPU time of the process")),
    ),
    Table(
        "threads",
        "ThreadRecord",
        "one row when a thread is first seen",
        _columns(
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
        _columns(
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
        _columns(
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
        _columns(
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
        _columns(
            ("name", T.STR, "method"),
            ("source", T.STR, "source file, empty when unknown"),
            ("lines", T.BLOB, "u32 pairs (offset, line)"),
            ("address", T.U64, "start"),
            ("size", T.U64, "bytes"),
            ("seen_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table("marks", "MarkRecord", "the text of a MARK or KERNEL frame", _columns(("text", T.STR, "as shown"))),
    Table(
        "stacks",
        "StackNode",
        "the trie of all stacks: a node is its caller's node and one frame; 0 is the root",
        _columns(("parent", T.U32, "row of `stacks`, 0 for an outermost frame"), ("frame", T.U64, "see FrameKind")),
    ),
    Table(
        "cpu_samples",
        "CpuSample",
        "a thread seen at a moment",
        _columns(
            ("thread", T.U32, "row of `threads`"),
            ("stack", T.U32, "row of `stacks`"),
            ("weight", T.U16, "ticks it stands for: 1 and the timer's overruns"),
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
        "launches",
        "Launch",
        "a call that puts work on a device",
        _columns(
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
        "what kernels were launched as: a function and its dimensions, each combination once",
        _columns(
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
        _columns(
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
        _columns(
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
        _columns(
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
        _columns(
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
        _columns(
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
        _columns(
            ("crc", T.U64, "key that samples carry"),
            ("bytes", T.U64, "size; 0: it could not be kept"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "stall_reasons",
        "StallReason",
        "what a device may say of a sampled warp",
        _columns(
            ("index", T.U32, "its number on that device"),
            ("name", T.STR, "as the vendor names it; ends in _not_issued where the warp did not issue"),
        ),
    ),
    Table(
        "gpu_functions",
        "GpuFunction",
        "a function of device code that was sampled",
        _columns(("cubin", T.U64, "crc of its cubin"), ("name", T.STR, "as compiled (mangled)")),
    ),
    Table(
        "gpu_windows",
        "GpuWindow",
        "a stretch of time whose samples were taken together",
        _columns(
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
        "how often warps were met at an instruction, waiting for the same thing",
        _columns(
            ("window", T.U32, "row of `gpu_windows`"),
            ("function", T.U32, "row of `gpu_functions`"),
            ("offset", T.U32, "bytes from the function's start"),
            ("reason", T.U32, "row of `stall_reasons`"),
            ("count", T.U32, "samples"),
        ),
    ),
    Table(
        "regions",
        "RegionRecord",
        "a region of time that the program marks, written when it begins",
        _columns(
            ("thread", T.U32, "row of `threads` that began it"),
            ("api", T.U8, "RegionApi"),
            ("kind", T.U8, "RegionKind"),
            ("payload_type", T.U8, "PayloadType"),
            ("color", T.U32, "ARGB, 0: none given"),
            ("domain", T.STR, "empty: the default one"),
            ("category", T.STR, "its name, or its number where it has none"),
            ("name", T.STR, ""),
            ("payload", T.U64, "by payload_type"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "region_ends",
        "RegionEnd",
        "a region's end; one without ends with its thread, or with the region around it",
        _columns(("region", T.U32, "row of `regions`"), ("thread", T.U32, "that ended it"), ("end_ns", T.U64, "CLOCK_MONOTONIC")),
    ),
    Table(
        "region_data",
        "RegionData",
        "what a program tells of a region (ITT metadata)",
        _columns(("region", T.U32, "row of `regions`"), ("key", T.STR, ""), ("value", T.STR, "numbers in JSON")),
    ),
    Table(
        "counters",
        "CounterRecord",
        "a value that the program reports",
        _columns(
            ("thread", T.U32, "row of `threads`"),
            ("name", T.STR, ""),
            ("domain", T.STR, ""),
            ("value", T.U64, "the bits of a double"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "layers",
        "LayerRecord",
        "a torch module that was called, told by its address; an address that is used again is a new row",
        _columns(
            ("address", T.U64, "of the object"),
            ("type", T.STR, "its class, as CPython names the type"),
            ("seen_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "layer_names",
        "LayerName",
        "where a module hangs in a model; a module that hangs in several places has several rows",
        _columns(
            ("layer", T.U32, "row of `layers`"),
            ("root", T.U32, "row of `layers` of the outermost module"),
            ("path", T.STR, "as named_modules() of the root gives it: `layers.3.attn`; empty for the root"),
            ("type", T.STR, "its class with its module"),
        ),
    ),
    Table(
        "layer_calls",
        "LayerCall",
        "autograd nodes made one after another inside one module",
        _columns(
            ("thread", T.U32, "row of `threads`"),
            ("layer", T.U32, "row of `layers`"),
            ("autograd", T.U16, "torch's number of the thread"),
            ("sequence_begin", T.U32, "from the node with this number …"),
            ("sequence_end", T.U32, "… to before this one"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC: when the first was made"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC: when the last was made"),
        ),
    ),
    Table(
        "kernel_variants",
        "KernelVariant",
        "a specialization of a Triton kernel",
        _columns(
            ("name", T.STR, "as compiled"),
            ("readable", T.STR, "for reading: `vadd_bs256_w8_s2`"),
            ("details", T.STR, "JSON: constexprs, signature, num_warps, num_stages, num_ctas, target, file, line, hash"),
        ),
    ),
    Table(
        "kernel_origins",
        "KernelOrigin",
        "what a kernel that a compiler made was made from",
        _columns(
            ("kernel", T.STR, "name of the kernel (Triton), of the function (C++), or of the HLO instruction"),
            ("compiler", T.STR, "inductor or xla"),
            ("module", T.STR, "compiled graph or HLO module that it is of"),
            ("file", T.STR, "generated source it lies in, empty when unknown"),
            ("origins", T.STR, "JSON: see docs/profile-format.md"),
        ),
    ),
    Table(
        "kept_files",
        "KeptFile",
        "intermediate representations, with --keep-ir: `kept/FILE` in the profile",
        _columns(
            ("kernel", T.STR, "as in kernel_origins, or a kernel's compiled name; empty: of the whole graph"),
            ("module", T.STR, "as in kernel_origins"),
            ("kind", T.STR, "fx, inductor, ttir, ttgir, ptx, hlo …"),
            ("file", T.STR, ""),
        ),
    ),
    Table(
        "clocks",
        "ClockRecord",
        "the same moment on three clocks",
        _columns(
            ("monotonic_ns", T.U64, ""),
            ("raw_ns", T.U64, ""),
            ("realtime_ns", T.U64, ""),
        ),
    ),
    Table(
        "notes",
        "NoteRecord",
        "what the collector could not do, and why: each distinct text once",
        _columns(("text", T.STR, "one line"), ("time_ns", T.U64, "CLOCK_MONOTONIC")),
    ),
)

TABLE = {table.name: table for table in TABLES}

SPOOL_HEADER: tuple[Column, ...] = _columns(
    ("magic", T.U64, "SPOOL_MAGIC"),
    ("format", T.U32, "FORMAT"),
    ("table", T.U32, "place in TABLES; 0xffff for the strings stream"),
    ("record_bytes", T.U32, "size of a record; 8 for the strings stream"),
    ("pid", T.U32, ""),
    ("next", T.U64, "records reserved so far (8-byte units for the strings stream)"),
)

CONTROL: tuple[Column, ...] = _columns(
    ("magic", T.U64, "CONTROL_MAGIC"),
    ("format", T.U32, "FORMAT"),
    ("state", T.U32, "ControlState: what every process of the recording should do"),
    ("max_bytes", T.U64, "spool bytes allowed, 0 for no limit"),
    ("used_bytes", T.U64, "spool bytes taken so far, by all processes"),
    ("stop_reason", T.U32, "StopReason: why a process stopped recording"),
    ("stop_errno", T.U32, "errno of that moment"),
    ("cpu_rate", T.U32, "samples a second of CPU time and thread, 0 for none"),
    ("wall_rate", T.U32, "samples a second of wall-clock time and thread, 0 for none"),
    ("features", T.U64, "Feature bits that are on"),
    ("recorder_pid", T.U32, "who seals it"),
    ("gpu_sampling", T.U32, "GpuSampling"),
)

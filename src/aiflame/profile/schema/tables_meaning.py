"""Tables of a profile: regions, layers, autograd nodes, specializations and compilers' kernels, recorded inside the program."""

from __future__ import annotations

from aiflame.profile.schema.records import Table, columns
from aiflame.profile.schema.records import Type as T

MEANING = (
    Table(
        "regions",
        "RegionRecord",
        "a region of time that the program marks; the row is written when it begins",
        columns(
            ("thread", T.U32, "row of `threads`: the thread that began it"),
            ("api", T.U8, "RegionApi"),
            ("kind", T.U8, "RegionKind"),
            ("payload_type", T.U8, "PayloadType"),
            ("color", T.U32, "ARGB, 0: none"),
            ("domain", T.STR, "empty: the default domain"),
            ("category", T.STR, "name of the category, or its number where it has none"),
            ("name", T.STR, ""),
            ("payload", T.U64, "a value of the type payload_type"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "region_ends",
        "RegionEnd",
        "a region's end; a region without a row ends with its thread, or with the region around it",
        columns(
            ("region", T.U32, "row of `regions`"),
            ("thread", T.U32, "row of `threads`: the thread that ended it"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "region_data",
        "RegionData",
        "metadata that the program gave a region (ITT)",
        columns(("region", T.U32, "row of `regions`"), ("key", T.STR, ""), ("value", T.STR, "numbers in JSON")),
    ),
    Table(
        "counters",
        "CounterRecord",
        "a value that the program reports",
        columns(
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
        "a torch module that was called; a new module at the address of a freed one has a row of its own",
        columns(
            ("address", T.U64, "address of the object"),
            ("type", T.STR, "its class, as CPython names the type"),
            ("seen_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "layer_names",
        "LayerName",
        "the path of a module in a model; a module may have several",
        columns(
            ("layer", T.U32, "row of `layers`"),
            ("root", T.U32, "row of `layers` of the outermost module"),
            ("path", T.STR, "as named_modules() of the root gives it: `layers.3.attn`; empty for the root"),
            ("type", T.STR, "its class with its module"),
        ),
    ),
    Table(
        "layer_calls",
        "LayerCall",
        "consecutive autograd nodes that were made inside one module",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("layer", T.U32, "row of `layers`"),
            ("autograd", T.U16, "torch's number of the thread"),
            ("sequence_begin", T.U32, "sequence number of the first node"),
            ("sequence_end", T.U32, "one past that of the last node"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC when the first node was made"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC when the last node was made"),
        ),
    ),
    Table(
        "kernel_variants",
        "KernelVariant",
        "a specialization of a Triton kernel",
        columns(
            ("name", T.STR, "as compiled"),
            ("readable", T.STR, "name for people: `vadd_bs256_w8_s2`"),
            ("details", T.STR, "JSON: constexprs, signature, num_warps, num_stages, num_ctas, target, file, line, hash"),
        ),
    ),
    Table(
        "kernel_origins",
        "KernelOrigin",
        "the source ops of a kernel that a compiler generated",
        columns(
            ("kernel", T.STR, "name of the Triton kernel, C++ function or HLO instruction"),
            ("compiler", T.STR, "inductor or xla"),
            ("module", T.STR, "its compiled graph or HLO module"),
            ("file", T.STR, "generated source file that calls it, empty: unknown"),
            ("origins", T.STR, "JSON: see *Origins of compiled kernels* in docs/profile-format.md"),
        ),
    ),
    Table(
        "kept_files",
        "KeptFile",
        "a file with an intermediate representation, stored as `kept/FILE` in the profile (with --keep-ir)",
        columns(
            ("kernel", T.STR, "as in kernel_origins, or a kernel's compiled name; empty: the whole graph"),
            ("module", T.STR, "as in kernel_origins"),
            ("kind", T.STR, "fx, inductor, ttir, ttgir, ptx, hlo …"),
            ("file", T.STR, ""),
        ),
    ),
)

RECOMPILED = (
    Table(
        "recompilations",
        "Recompilation",
        "Dynamo compiled a function again because a guard of its compiled code failed",
        columns(
            ("function", T.STR, ""),
            ("file", T.STR, ""),
            ("line", T.U32, "line of its definition"),
            ("reason", T.STR, "in Dynamo's words: the guard that failed"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
)

SUMS = (
    Table(
        "gradient_sums",
        "GradientSum",
        "autograd's engine adds a gradient to another of the same tensor, which several ops have used",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("autograd", T.U16, "as in launches: the thread that made the nodes, with bit 15"),
            ("first", T.U32, "`sequence` of the node that gave the first gradient, as in launches"),
            ("last", T.U32, "`sequence` of the node that gave the added gradient"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, ""),
        ),
    ),
)

MODELS = (
    Table(
        "model_calls",
        "ModelCall",
        "a call of a torch module, outside of any other module's call",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("layer", T.U32, "row of `layers`"),
            ("sequences", T.U32, "number of sequences in its argument; 0: unknown"),
            ("tokens", T.U32, "tokens of all sequences: the size of a two-dimensional tensor of integers; 0: unknown"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
)

JITTED = (
    Table(
        "jit_functions",
        "JitFunction",
        "a function that the program gave to `jax.jit`",
        columns(
            ("function", T.U64, "address of the object; a later row with the same address describes another object"),
            ("name", T.STR, ""),
            ("file", T.STR, ""),
            ("line", T.U32, "line of its definition; 0: unknown"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC, before its first call"),
        ),
    ),
    Table(
        "jit_calls",
        "JitCall",
        "a call of a jitted function, outside of any other's call; it ends when JAX returns, perhaps before the work is done",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("function", T.U64, "as in `jit_functions`"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "jit_traces",
        "JitTrace",
        "JAX traced a jitted function again, for arguments of a new kind",
        columns(
            ("name", T.STR, ""),
            ("file", T.STR, ""),
            ("line", T.U32, "line of its definition; 0: unknown"),
            ("change", T.STR, "`shape`, `type`, `value`, `structure`, `function` (a new object each time), or `other`"),
            ("argument", T.STR, "the argument that changed; empty: none, or unknown"),
            ("before", T.STR, "the argument in the most similar earlier trace"),
            ("now", T.STR, "the argument in this trace"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC; XLA's compiler runs afterwards"),
        ),
    ),
)

"""Tables of a profile: facts about the program's work, recorded by the program, torch, Triton and compilers in it."""

from __future__ import annotations

from aiflame.profile.schema.records import Table, columns
from aiflame.profile.schema.records import Type as T

MEANING = (
    Table(
        "regions",
        "RegionRecord",
        "a region of time that the program marks, written when it begins",
        columns(
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
        columns(("region", T.U32, "row of `regions`"), ("thread", T.U32, "that ended it"), ("end_ns", T.U64, "CLOCK_MONOTONIC")),
    ),
    Table(
        "region_data",
        "RegionData",
        "a program's metadata of a region (ITT)",
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
        "a torch module that was called, identified by its address; an address that is used again is a new row",
        columns(
            ("address", T.U64, "of the object"),
            ("type", T.STR, "its class, as CPython names the type"),
            ("seen_ns", T.U64, "CLOCK_MONOTONIC"),
        ),
    ),
    Table(
        "layer_names",
        "LayerName",
        "where a module hangs in a model; a module that hangs in several places has several rows",
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
        "autograd nodes made one after another inside one module",
        columns(
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
        columns(
            ("name", T.STR, "as compiled"),
            ("readable", T.STR, "for reading: `vadd_bs256_w8_s2`"),
            ("details", T.STR, "JSON: constexprs, signature, num_warps, num_stages, num_ctas, target, file, line, hash"),
        ),
    ),
    Table(
        "kernel_origins",
        "KernelOrigin",
        "the source ops of a kernel that a compiler generated",
        columns(
            ("kernel", T.STR, "name of the kernel (Triton), of the function (C++), or of the HLO instruction"),
            ("compiler", T.STR, "inductor or xla"),
            ("module", T.STR, "compiled graph or HLO module that it belongs to"),
            ("file", T.STR, "generated source it lies in, empty when unknown"),
            ("origins", T.STR, "JSON: see docs/profile-format.md"),
        ),
    ),
    Table(
        "kept_files",
        "KeptFile",
        "intermediate representations, with --keep-ir: `kept/FILE` in the profile",
        columns(
            ("kernel", T.STR, "as in kernel_origins, or a kernel's compiled name; empty: of the whole graph"),
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
        "Dynamo compiled a function again, since a guard of its compiled code failed",
        columns(
            ("function", T.STR, ""),
            ("file", T.STR, ""),
            ("line", T.U32, "of its definition"),
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
        "a sum of gradients that autograd's engine makes between two nodes: of a tensor that several ops have used",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("autograd", T.U16, "torch's number of the thread that made the nodes, with the bit of a backward node, as in `launches`"),
            ("first", T.U32, "the node that gave the first gradient; the number of a node in that thread's sequence, as in `launches`"),
            ("last", T.U32, "the node that gave the one which is added"),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, ""),
        ),
    ),
)

MODELS = (
    Table(
        "model_calls",
        "ModelCall",
        "a call of a torch module that lies in no other module's call",
        columns(
            ("thread", T.U32, "row of `threads`"),
            ("layer", T.U32, "row of `layers`"),
            ("sequences", T.U32, "how many it was given tokens of; 0: not known"),
            ("tokens", T.U32, "of all sequences together: the size of a tensor of whole numbers with two dimensions; 0: not known"),
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
            ("function", T.U64, "address of the object; a later row with it describes another object"),
            ("name", T.STR, ""),
            ("file", T.STR, ""),
            ("line", T.U32, "of its definition; 0: not known"),
            ("time_ns", T.U64, "CLOCK_MONOTONIC: not called before"),
        ),
    ),
    Table(
        "jit_calls",
        "JitCall",
        "a call of such a function that lies in no other's call: until JAX returned, which may be before the work is done",
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
        "JAX traced such a function again, since it had not seen arguments like these",
        columns(
            ("name", T.STR, ""),
            ("file", T.STR, ""),
            ("line", T.U32, "of its definition; 0: not known"),
            ("change", T.STR, "`shape`, `type`, `value`, `structure`, `function` (a new object each time), or `other`"),
            ("argument", T.STR, "which changed; empty: none, or not known"),
            ("before", T.STR, "in the trace most like this one"),
            ("now", T.STR, ""),
            ("begin_ns", T.U64, "CLOCK_MONOTONIC"),
            ("end_ns", T.U64, "CLOCK_MONOTONIC: of the trace; XLA's compiler runs after it"),
        ),
    ),
)

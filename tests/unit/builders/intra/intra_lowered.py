"""Compiles the suite for one target, without a device: the scopes of each preset, and the assembly with all presets.

    intra_lowered.py cuda:90|cuda:100|hip:gfx942        one line of JSON for each kernel

A process of its own: Triton's native code aborts when it cannot do something.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "gpu" / "programs"))

import intra_suite as suite
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

from aiflame.intra import compile_hook, lowering
from aiflame.intra.catalog import chosen
from aiflame.intra.compile_hook import Recipe
from aiflame.intra.errors import Refused

PRESETS = ("auto", "loads", "mma", "pipeline", "barriers", "stores", "loop", "roles", "regions")


def main(target: GPUTarget) -> None:
    for case in suite.CASES:
        if target.backend == "cuda" or not case.hopper:
            print(json.dumps({"kernel": case.name, **lowered(case, target)}), flush=True)


def lowered(case: suite.Case, target: GPUTarget) -> dict[str, Any]:
    shared = target.backend == "hip"
    # Where compiling is quick, also without any recipe: a kernel that no recipe names is not instrumented.
    plain, _ = stages(case, target, None) if case.name == "softmax" else ("", {})
    module, _ = stages(case, target, None, until="ttgir")
    with tempfile.NamedTemporaryFile("w", suffix=".ttgir") as text:
        text.write(str(module))
        text.flush()
        presets = {name: _scopes(text.name, target, Recipe(tuple(chosen([name])))) for name in PRESETS}
    everything = Recipe(tuple(chosen(PRESETS)), shared=shared, segment_bytes=512 if shared else 4096)
    assembly, metadata = stages(case, target, everything)
    as_recorded = _in_shared_memory(case, target) if target.backend == "cuda" else {}
    return {
        "in_shared_memory": as_recorded,
        "presets": presets,
        "scopes": len(metadata[compile_hook.FIELD]["scopes"]),
        "ids": sorted(row["id"] for row in metadata[compile_hook.FIELD]["scopes"]),
        "left_out": metadata[compile_hook.FIELD]["left_out"],
        "clock_reads": [count_clocks(text) for text in (plain, assembly)],
        "stores": [len(re.findall(r"st\.global\.cg\.v2\.b32", text)) for text in (plain, assembly)],
        "waits_for_values": len(re.findall(r"@p pmevent", assembly)),
        "warps": metadata.get("num_warps", case.warps),
        "scratch": metadata["profile_scratch_size"],
    }


def _in_shared_memory(case: suite.Case, target: GPUTarget) -> dict[str, Any]:
    """Compiles as for users, where a block may use 8 KiB."""
    assembly, metadata = stages(case, target, Recipe(tuple(chosen(["auto"])), shared_bytes=8192))
    said = metadata[compile_hook.FIELD]
    return {
        "shared": said["shared"],
        "bytes": said["segment_bytes"] * len(said["warp_ids"]),
        "ids": [row["id"] for row in said["scopes"]],
        "records": sorted(records(assembly)),
        "stores": len(re.findall(r"st\.global\.cg\.v2\.b32", assembly)),
        "scratch": metadata["profile_scratch_size"],
    }


def count_clocks(assembly: str) -> int:
    return len(re.findall(r"%clock;|s_memtime", assembly))


def records(ptx: str) -> set[tuple[int, int]]:
    """The tags that are written beside clock values: a scope, and whether it ends (1) or begins (0)."""
    tags = set()
    for clock in re.findall(r"mov\.u32\s+(%r\d+), %clock_hi;", ptx):
        (part,) = re.findall(rf"and\.b32\s+(%r\d+), {clock}, 2047;", ptx)
        tag = sum(int(one) for one in re.findall(rf"or\.b32\s+%r\d+, {part}, (-?\d+);", ptx))  # none: scope 0 begins
        tags.add((tag >> 23 & 0xFF, tag >> 31 & 1))
    return tags


def _scopes(file: str, target: GPUTarget, recipe: Recipe) -> int:
    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    module = ir.parse_mlir_module(file, context)
    module.context = context
    try:
        said = compile_hook.instrument(module, recipe)
    except Refused as why:
        assert "nothing to time" in str(why), why
        return 0
    assert module.verify(), said
    return len(said["scopes"])


def stages(case: suite.Case, target: GPUTarget, recipe: Recipe | None, until: str = "") -> tuple[Any, dict[str, Any]]:
    """Triton's stages but for the last, which needs an assembler; None: without any hook of ours having a say."""
    backend = make_backend(target)
    compile_hook._hook(type(backend))
    if recipe is not None:
        compile_hook._recipes[recipe.mode] = recipe
    names = case.kernel.arg_names
    source = ASTSource(
        case.kernel,
        signature={name: case.types.get(name, "constexpr") for name in names},
        constexprs=case.constants,
        attrs={(at,): [["tt.divisibility", 16]] for at, name in enumerate(names) if case.types.get(name, "fp32") != "fp32"},
    )
    mode = recipe.mode if recipe is not None else ""
    options = backend.parse_options({"num_warps": case.warps, "num_stages": case.stages, "instrumentation_mode": mode})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    passes: dict[str, Any] = {}
    backend.add_stages(passes, options, source.language)
    module = source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    metadata = dict(vars(options))
    for name in list(passes)[:-1]:
        module = passes[name](module, metadata)
        if name == until:
            break
    return module, metadata


if __name__ == "__main__":
    backend, _, arch = sys.argv[1].partition(":")
    lowering.version()
    main(GPUTarget(backend, int(arch) if arch.isdecimal() else arch, 32 if backend == "cuda" else 64))

"""How often a kernel asks whether a loaded value is there, by the value's type: one line of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "gpu" / "programs"))

import intra_suite as suite
import triton
import triton.language as tl
from intra_lowered import stages
from triton.backends.compiler import GPUTarget

from aiflame.intra import lowering
from aiflame.intra.catalog import chosen
from aiflame.intra.compile_hook import Recipe

TYPES = ("fp64", "i64", "fp32", "i32", "fp16", "bf16", "i16", "i8", "*fp32")


@triton.jit
def add(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x + 1)


@triton.jit
def follow(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at).to(tl.pointer_type(tl.float32))
    tl.store(y_ptr + at, tl.load(x))


def main() -> None:
    lowering.version()
    counts = {}
    for one in TYPES:
        kernel, types = (
            (follow, {"x_ptr": "*i64", "y_ptr": "*fp32"}) if one.startswith("*") else (add, dict.fromkeys(("x_ptr", "y_ptr"), f"*{one}"))
        )
        case = suite.Case(one, kernel, types, {"BLOCK": 2048}, lambda torch: {}, (1,), ())
        assembly, _ = stages(case, GPUTarget("cuda", 90, 32), Recipe(tuple(chosen(["auto"]))))
        counts[one] = assembly.count("pmevent")
    print(json.dumps(counts))


if __name__ == "__main__":
    main()

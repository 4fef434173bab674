"""Compiles two kernels of the suite for AMD's GPUs, without one, and prints their assembly: one line of JSON for each kernel and GPU.

A process of its own: Triton's native code aborts when it cannot do something.
"""

from __future__ import annotations

import json

import intra_suite as suite
from intra_lowered import stages
from triton.backends.compiler import GPUTarget

from aiflame.intra import lowering
from aiflame.intra.catalog import chosen
from aiflame.intra.compile_hook import Recipe


def main() -> None:
    lowering.version()
    recipe = Recipe(tuple(chosen(["auto"])), shared=True, segment_bytes=512)
    for arch in ("gfx942", "gfx950"):
        for case in (one for one in suite.CASES if one.name in ("softmax", "rotary")):
            plain, marked = (str(stages(case, GPUTarget("hip", arch, 64), one)[0]) for one in (None, recipe))
            print(json.dumps({"arch": arch, "kernel": case.name, "plain": plain, "marked": marked}), flush=True)


if __name__ == "__main__":
    main()

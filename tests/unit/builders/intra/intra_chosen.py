"""The scopes that a pass chooses in each kernel of the suite, without a device: one line of JSON for each kernel.

    intra_chosen.py cuda:90|cuda:100|hip:gfx942 PASS

Kernels of which pipelining is taken away have the stages behind their name: `gemm-1`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "gpu" / "programs"))

import intra_suite as suite
from intra_lowered import stages
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget

from aiflame.intra import lowering
from aiflame.intra.catalog import chosen
from aiflame.intra.ops import read
from aiflame.intra.passes import Kernel

UNPIPELINED = ("gemm", "attention", "gemm_persistent")


def main(target: GPUTarget, name: str) -> None:
    cases = {case.name: case for case in suite.CASES if target.backend == "cuda" or not case.hopper}
    cases |= {f"{one}-1": replace(cases[one], stages=1) for one in UNPIPELINED if one in cases}
    for kernel, case in cases.items():
        module, _ = stages(case, target, None, until="ttgir")
        print(json.dumps({"kernel": kernel, "scopes": scopes(module, name)}), flush=True)


def scopes(module: object, name: str) -> list[tuple[str, str, str, bool, int]]:
    """name, kind, operation, whether it lies in a loop, of how many loads the values have to be there when it ends"""
    kernel = Kernel(read(module, ir.builder(module.context)))  # type: ignore[attr-defined]
    for one, run in chosen([name]):
        kernel.run(one, run)
    return [(scope.name, scope.kind, scope.first.name, scope.first.loop is not None, len(scope.needs)) for scope in kernel.scopes]


if __name__ == "__main__":
    backend, _, arch = sys.argv[1].partition(":")
    lowering.version()
    main(GPUTarget(backend, int(arch) if arch.isdecimal() else arch, 32 if backend == "cuda" else 64), sys.argv[2])

"""`python triton_kernels.py CACHE [LABEL]`: two specializations of one Triton kernel, launched 30 and 10 times, a graph with the second,
replayed 5 times, and an autotuned kernel. Prints the results, and the kernels' names in their binaries.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["TRITON_CACHE_DIR"] = sys.argv[1]

import torch
import triton
import triton.language as tl

N = 1 << 20


@triton.jit
def vadd(x, y, z, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.autotune([triton.Config({"BLOCK": 256 * warps}, num_warps=warps) for warps in (1, 2, 4, 8)], key=["n"])
@triton.jit
def double(x, z, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, tl.load(x + at, inside) * 2, inside)


def main() -> None:
    x, y = (torch.randn(N, device="cuda") for _ in range(2))
    z = torch.empty_like(x)

    def add(block: int, warps: int, times: int = 1) -> Any:
        for _ in range(times):
            kernel = vadd[(triton.cdiv(N, block),)](x, y, z, N, BLOCK=block, num_warps=warps, num_stages=2)
        return kernel

    small, large = add(128, 4, 30), add(256, 8, 10)
    equal = bool(torch.equal(z, x + y))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add(256, 8)
    z.zero_()
    for _ in range(5):
        graph.replay()
    equal &= bool(torch.equal(z, x + y))
    double[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, z, N)
    equal &= bool(torch.equal(z, x * 2))
    torch.cuda.synchronize()
    entries = [one.name for one in (small, large) if f".entry {one.name}(" in one.asm["ptx"]]
    best = double.best_config
    print(json.dumps({"equal": equal, "entries": entries, "best": [best.kwargs["BLOCK"], best.num_warps]}))


main()

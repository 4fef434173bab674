"""Launches kernels of the suite often enough that some launches are timed inside: as they are, tuned, in a graph, of Inductor's,
with very many CTAs.

    intra_program.py plain|stages|specialized|tuned|graph|compiled|million|millions [LAUNCHES]

Prints a digest of all that was written, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import intra_suite as suite
import torch
import triton
import triton.language as tl


def main() -> None:
    what, launches = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    torch.manual_seed(0)
    print(json.dumps({"digest": RUNS[what](launches)}))


def plain(launches: int) -> str:
    outputs = []
    for name in ("gemm", "softmax", "reduction"):
        case = next(case for case in suite.CASES if case.name == name)
        given = case.given(torch)
        for _ in range(launches):
            case.launch(given)
        outputs += [given[one] for one in case.written]
    return digest(*outputs)


def stages(launches: int) -> str:
    """One multiplication without a pipeline, and with one."""
    case = next(case for case in suite.CASES if case.name == "gemm")
    given = case.given(torch)
    for number in (1, 3):
        for _ in range(launches):
            case.launch(given, num_stages=number)
    return digest(*(given[one] for one in case.written))


def specialized(launches: int) -> str:
    """One role copies, two multiply."""
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    case = next(case for case in suite.CASES if case.name == "gemm_specialized")
    given = case.given(torch)
    for _ in range(launches):
        case.launch(given)
    return digest(*(given[one] for one in case.written))


def tuned(launches: int) -> str:
    tuner = triton.autotune([triton.Config({"BLOCK": 8192}, num_warps=warps) for warps in (4, 8)], key=["columns"])(suite.softmax)
    x = torch.randn(1024, 8192, device="cuda", dtype=torch.float16)
    y = torch.empty_like(x)
    for _ in range(launches):
        tuner[(1024,)](x, y, 8192)
    return digest(y)


def graph(launches: int) -> str:
    case = next(case for case in suite.CASES if case.name == "layer_norm")
    given = case.given(torch)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            case.launch(given)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(9):
            case.launch(given)
    for _ in range(launches):
        captured.replay()
    return digest(given["y_ptr"])


def compiled(launches: int) -> str:
    """On whole numbers: Inductor chooses by time how a sum is divided, and rounding must not show that."""

    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x * torch.nn.functional.relu(x * 2 + 1).sum(-1, keepdim=True)) @ w

    quick = torch.compile(step)
    x, w = (torch.randn(2048, 2048, device="cuda").round() for _ in range(2))
    for _ in range(launches):
        y = quick(x, w)
    return digest(y)


def million(launches: int) -> str:
    """Launches a million CTAs, each with one warp."""
    x = torch.randn(1 << 20, 64, device="cuda", dtype=torch.float16)
    y = torch.empty_like(x)
    for _ in range(launches):
        suite.softmax[(len(x),)](x, y, 64, BLOCK=64, num_warps=1)
    return digest(y)


@triton.jit
def counts(y_ptr, size):
    at = tl.program_id(0) % size
    tl.store(y_ptr + at, at)


def millions(launches: int) -> str:
    """Launches so many CTAs that their records would take more bytes than 32 bits can count."""
    y = torch.zeros(1000, device="cuda", dtype=torch.int32)
    for _ in range(launches):
        counts[(1 << 25,)](y, len(y), num_warps=1)
    return digest(y)


def digest(*tensors: torch.Tensor) -> str:
    torch.cuda.synchronize()
    whole = hashlib.sha256()
    for tensor in tensors:
        whole.update(tensor.cpu().numpy().tobytes())
    return whole.hexdigest()


RUNS: dict[str, Any] = {one.__name__: one for one in (plain, stages, specialized, tuned, graph, compiled, million, millions)}

if __name__ == "__main__":
    main()

"""Rows of kernels, their launches, their samples and graphs, and profiles that have them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from profiles import Row, sealed, stack
from small_program import CODES, MAIN, PROCESSES, PYMAIN, SYMBOLS, THREADS, WORK

from aiflame.attribute.tree import Tree
from aiflame.exchange import collapsed
from aiflame.profile.tables.store import Profile

UNDER = "train.py (4711);main thread;main"
GPU, OTHER = "NVIDIA H200 [0]", "NVIDIA H200 [1]"
REASONS = [
    {"name": "smsp__pcsamp_warps_issue_stalled_long_scoreboard"},
    {"name": "smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued"},
    {"name": "smsp__pcsamp_warps_issue_stalled_barrier"},
]
LONG, LONG_NOT_ISSUED, BARRIER = 1, 2, 3


def lines(of: Tree, metric: str) -> dict[str, int]:
    text = io.StringIO()
    collapsed.write(of, metric, text)
    return {path: int(value) for path, value in (line.rsplit(" ", 1) for line in text.getvalue().splitlines())}


def profile(path: Path, **tables: list[Row]) -> Profile:
    """Stack 1 is main, 2 main → run (Python), 3 main → run → work; launch n comes from stack n."""
    given: dict[str, list[Row]] = {
        "processes": PROCESSES, "threads": THREADS, "symbols": SYMBOLS, "codes": CODES, "stacks": stack(MAIN, PYMAIN, WORK),
        "launches": [{"thread": 1, "stack": number, "api": 2, "correlation": number} for number in (1, 2, 3)],
        "stall_reasons": REASONS,
    }  # fmt: skip
    return sealed(path / "p.aiflame", **{**given, **tables})


def kernel(launch: int, start: int, end: int, name: str = "gemm", **more: Any) -> Row:
    return {"name": name, "device": GPU, "api": 2, "correlation": launch, "start_ns": start, "end_ns": end, **more}


def window(begin: int, end: int, **more: Any) -> Row:
    return {"device": GPU, "begin_ns": begin, "end_ns": end, **more}


def sample(count: int, in_window: int = 1, offset: int = 0x10, reason: int = LONG, function: int = 1) -> Row:
    return {"window": in_window, "function": function, "offset": offset, "reason": reason, "count": count}


GEMM = [{"cubin": 7, "name": "gemm"}]


def graph(*nodes: tuple[int, int, int]) -> list[Row]:
    return [{"node": node, "original": original, "thread": 1, "stack": stack_id} for node, original, stack_id in nodes]


LINES = [
    {"cubin": 7, "function": "gemm", "offset": 0x10, "depth": 0, "name": "gemm", "file": "/src/gemm.cu", "line": 41},
    {"cubin": 7, "function": "gemm", "offset": 0x10, "depth": 1, "name": "dot", "file": "/src/dot.cuh", "line": 12},
    {"cubin": 7, "function": "gemm", "offset": 0x20, "depth": 0, "name": "gemm", "file": "/src/gemm.cu", "line": 41},
    {"cubin": 7, "function": "gemm", "offset": 0x30, "depth": 0, "name": "gemm", "file": "/src/gemm.cu", "line": 0},
]
SASS = [
    {"cubin": 7, "function": "gemm", "offset": 0x10, "sass": "@!P0 LDG.E.128 R4, [R2.64]"},
    {"cubin": 7, "function": "gemm", "offset": 0x20, "sass": "FFMA R1, R2, R3, R4"},
]
TABLES = ("launches", "kernels", "kernel_shapes", "copies", "graph_nodes", "stacks", "gpu_windows", "gpu_samples", "gpu_functions")

"""Rows of kernels, their launches, their samples, counters and graphs, and profiles that have them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from profiles import Row, sealed, stack
from small_program import CODES, MAIN, PROCESSES, PYMAIN, SYMBOLS, THREADS, WORK

from aiflame.attribute.tree import Tree
from aiflame.exchange.writers import collapsed
from aiflame.profile.tables.store import Profile

UNDER = "train.py (4711);main thread;main"
GPU, OTHER = "NVIDIA H200 [0]", "NVIDIA H200 [1]"
MS = 1_000_000
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

IDLE = ""
"""The name under which a rate of idle time is given."""
Rates = Mapping[str, float]
"""By name of a kernel, how much it adds a ns."""


def stretches(
    kernels: Iterable[Row], rates: Rates, end_ns: int, metric: str = "dram-read-bytes", length: int = MS, noise: float = 0.0, **more: Any
) -> list[Row]:
    """Counters of the first device from 0 to `end_ns`, every `length`. `noise`: the standard deviation of each value, as a part of it."""
    begin = np.arange(0, end_ns, length)
    value = np.zeros(len(begin))
    busy = np.zeros(len(begin), dtype=np.int64)
    for one in kernels:
        overlap = np.clip(np.minimum(one["end_ns"], begin + length) - np.maximum(one["start_ns"], begin), 0, None)
        value += overlap * rates.get(one["name"], 0.0)
        busy += overlap
    value += np.clip(length - busy, 0, None) * rates.get(IDLE, 0.0)
    value *= 1 + np.random.default_rng(7).normal(size=len(value)) * noise
    rows = zip(begin.tolist(), np.rint(np.maximum(value, 0)).astype(int).tolist(), strict=True)
    return [{"device": GPU, "metric": metric, "begin_ns": at, "end_ns": at + length, "value": one, **more} for at, one in rows]


def every_counter(kernels: list[Row], activity: Rates, end_ns: int, length: int = MS, **more: Any) -> list[Row]:
    """All that the views show, at 1.5 GHz. A kernel of activity 0.5 has 1000 bytes a ns read and 500 written, half of the tensor rate, work
    on every multiprocessor for half of the time, and 16 warps there."""
    scale = {"dram-read-bytes": 2000.0, "dram-write-bytes": 1000.0, "tensor-cycles": 1.5, "sm-active-cycles": 1.5, "warp-cycles": 24.0}
    rows = stretches([], {IDLE: 1.5}, end_ns, "sm-cycles", length, **more)
    for metric, most in scale.items():
        rows += stretches(kernels, {name: part * most for name, part in activity.items()}, end_ns, metric, length, **more)
    return rows

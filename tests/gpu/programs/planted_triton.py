"""Triton kernels that are compiled, or tuned, anew for each size; and near misses that are not."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import triton
import triton.language as tl

SIZE = 1 << 20


@triton.jit
def shift(x, y, by: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) + by)


@triton.jit(do_not_specialize=["by"])
def shift_any(x, y, by, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) + by)


@triton.autotune([triton.Config({"BLOCK": 256 * warps}, num_warps=warps) for warps in (1, 2, 4, 8)], key=["count"])
@triton.jit
def scale(x, y, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < count) * 2, at < count)


def specializing(near: bool) -> Callable[[], None]:
    x = torch.randn(SIZE, device="cuda")
    y = torch.empty_like(x)
    numbers = itertools.count(2)

    def step() -> None:
        if near:
            shift_any[(SIZE // 1024,)](x, y, next(numbers), 1024)
        else:
            shift[(SIZE // 1024,)](x, y, next(numbers), 1024)  # planted

    return step


def autotuning(near: bool) -> Callable[[], None]:
    x = torch.randn(SIZE, device="cuda")
    y = torch.empty_like(x)
    numbers = itertools.count(16, 0 if near else 16)

    def step() -> None:
        count = SIZE - next(numbers) % SIZE
        scale[lambda of: (triton.cdiv(count, of["BLOCK"]),)](x, y, count)  # planted

    return step

"""Small Triton kernels."""

from __future__ import annotations

import triton
import triton.language as tl
import triton.profiler.language as pl


@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x + 1, mask=at < n)


@triton.jit
def add_other(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) + 2, mask=at < n)


@triton.jit(noinline=True)
def far(x):
    return x * 3


@triton.jit
def calls_far(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) + far(n), mask=at < n)


@triton.jit
def has_scopes(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with pl.scope("mine"):
        x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x + 1, mask=at < n)


@triton.jit
def forgets_an_end(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pl.enter_scope("mine")
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def sums(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, n, BLOCK):
        total += tl.load(x_ptr + begin + tl.arange(0, BLOCK))
    tl.store(y_ptr + tl.arange(0, BLOCK), total)


@triton.jit
def exponentials(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _ in range(0, n, BLOCK):
        x = tl.load(x_ptr + at)
        y = tl.load(y_ptr + at)
        y = tl.exp(y) + x
        tl.store(y_ptr + at, y)
        at += BLOCK

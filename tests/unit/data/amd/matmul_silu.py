"""A matrix multiplication with a function that Triton inlines into it."""

import triton
import triton.language as tl


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def matmul_silu(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1)
    rows = row * BLOCK + tl.arange(0, BLOCK)
    columns = column * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, n, BLOCK):
        ks = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * n + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * n + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], silu(acc))

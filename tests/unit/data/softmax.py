"""A Triton kernel whose helper, and the library's functions that this calls, are inlined."""

import triton
import triton.language as tl


@triton.jit
def scaled(x):
    y = tl.exp(x - tl.max(x, 0))
    return y / tl.sum(y, 0)


@triton.jit
def softmax(out, inp, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(inp + row * n + at, mask=at < n, other=-float("inf"))
    tl.store(out + row * n + at, scaled(x), mask=at < n)

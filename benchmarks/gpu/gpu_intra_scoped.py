"""Kernels of tests/gpu/programs/intra_suite.py as their author would write them to see inside: with scopes of triton.profiler.language.

Without a profiler a scope is nothing. They hold the same work in the same order, so that results have to be equal to the bit.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu" / "programs"))

import intra_suite as suite
import triton
import triton.language as tl
import triton.profiler.language as pl


@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, m, n, k, stride_a, stride_b, stride_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_at = a_ptr + rows[:, None] * stride_a + inner[None, :]
    b_at = b_ptr + inner[:, None] * stride_b + columns[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    with pl.scope("loop"):
        for _ in range(0, k, BK):
            a = tl.load(a_at)
            b = tl.load(b_at)
            with pl.scope("dot"):
                sums = tl.dot(a, b, sums)
            a_at += BK
            b_at += BK * stride_b
    with pl.scope("store"):
        tl.store(c_ptr + rows[:, None] * stride_c + columns[None, :], sums.to(tl.float16))


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * length * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    keys = tl.arange(0, BN)
    inside = tl.arange(0, D)
    q = tl.load(q_ptr + head + rows[:, None] * D + inside[None, :])
    k_at = k_ptr + head + inside[:, None] + keys[None, :] * D
    v_at = v_ptr + head + keys[:, None] * D + inside[None, :]
    most = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    out = tl.zeros((BM, D), tl.float32)
    with pl.scope("loop"):
        for _ in range(0, length, BN):
            k = tl.load(k_at)
            with pl.scope("scores"):
                scores = tl.dot(q, k) * scale
            new_most = tl.maximum(most, tl.max(scores, 1))
            p = tl.exp2(scores - new_most[:, None])
            shrink = tl.exp2(most - new_most)
            total = total * shrink + tl.sum(p, 1)
            v = tl.load(v_at)
            with pl.scope("values"):
                out = tl.dot(p.to(tl.float16), v, out * shrink[:, None])
            most = new_most
            k_at += BN * D
            v_at += BN * D
    with pl.scope("store"):
        tl.store(o_ptr + head + rows[:, None] * D + inside[None, :], (out / total[:, None]).to(tl.float16))
        tl.store(lse_ptr + tl.program_id(1) * length + rows, most + tl.log2(total))


@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    with pl.scope("load"):
        x = tl.load(x_ptr + tl.program_id(0) * columns + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    with pl.scope("sum"):
        e = tl.exp(x - tl.max(x, 0))
        total = tl.sum(e, 0)
    with pl.scope("store"):
        tl.store(y_ptr + tl.program_id(0) * columns + at, (e / total).to(tl.float16), mask=at < columns)


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, columns, eps, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * columns
    y_ptr += tl.program_id(0) * columns
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    with pl.scope("moments"):
        for begin in range(0, columns, BLOCK):
            x = tl.load(x_ptr + begin + tl.arange(0, BLOCK)).to(tl.float32)
            sums += x
            squares += x * x
    mean = tl.sum(sums, 0) / columns
    scale = tl.rsqrt(tl.sum(squares, 0) / columns - mean * mean + eps)
    with pl.scope("scale"):
        for begin in range(0, columns, BLOCK):
            with pl.scope("block"):
                at = begin + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + at).to(tl.float32)
                w = tl.load(w_ptr + at).to(tl.float32)
                b = tl.load(b_ptr + at).to(tl.float32)
                tl.store(y_ptr + at, ((x - mean) * scale * w + b).to(tl.float16))


@triton.jit
def reduction(x_ptr, y_ptr, size, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * STEPS * BLOCK
    sums = tl.zeros((BLOCK,), tl.float32)
    with pl.scope("loop"):
        for step in range(STEPS):
            with pl.scope("step"):
                at = begin + step * BLOCK + tl.arange(0, BLOCK)
                sums += tl.load(x_ptr + at, mask=at < size, other=0.0)
    with pl.scope("store"):
        tl.store(y_ptr + tl.program_id(0), tl.sum(sums, 0))


KERNELS = {"gemm": gemm, "attention": attention, "softmax": softmax, "layer_norm": layer_norm, "reduction": reduction}
CASES = {case.name: dataclasses.replace(case, kernel=KERNELS[case.name]) for case in suite.CASES if case.name in KERNELS}

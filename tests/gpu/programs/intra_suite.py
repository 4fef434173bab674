"""Ten Triton kernels of the kinds that programs are made of, to be timed inside: for tests with and without a GPU, and the benchmark.

Each is written as tutorials have it. A case has a kernel's constants, its arguments on a device, and the names of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl


@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, m, n, k, stride_a, stride_b, stride_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1)
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_at = a_ptr + rows[:, None] * stride_a + inner[None, :]
    b_at = b_ptr + inner[:, None] * stride_b + columns[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        a = tl.load(a_at)
        b = tl.load(b_at)
        sums = tl.dot(a, b, sums)
        a_at += BK
        b_at += BK * stride_b
    tl.store(c_ptr + rows[:, None] * stride_c + columns[None, :], sums.to(tl.float16))


@triton.jit
def gemm_persistent(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr):
    a_tiles = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b_ptr, [k, n], [n, 1], [BK, BN])
    c_tiles = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [BM, BN])
    across = tl.cdiv(n, BN)
    for tile in range(tl.program_id(0), tl.cdiv(m, BM) * across, PROGRAMS):
        row, column = tile // across * BM, tile % across * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for at in range(0, k, BK):
            a = a_tiles.load([row, at])
            b = b_tiles.load([at, column])
            sums = tl.dot(a, b, sums)
        c_tiles.store([row, column], sums.to(tl.float16))


@triton.jit
def gemm_specialized(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a_tiles = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b_ptr, [k, n], [n, 1], [BK, BN])
    c_tiles = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for at in tl.range(0, k, BK, warp_specialize=True):
        a = a_tiles.load([row, at])
        b = b_tiles.load([at, column])
        sums = tl.dot(a, b, sums)
    c_tiles.store([row, column], sums.to(tl.float16))


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
    for _ in range(0, length, BN):
        k = tl.load(k_at)
        scores = tl.dot(q, k) * scale
        new_most = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp2(scores - new_most[:, None])
        shrink = tl.exp2(most - new_most)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_at)
        out = tl.dot(p.to(tl.float16), v, out * shrink[:, None])
        most = new_most
        k_at += BN * D
        v_at += BN * D
    tl.store(o_ptr + head + rows[:, None] * D + inside[None, :], (out / total[:, None]).to(tl.float16))
    tl.store(lse_ptr + tl.program_id(1) * length + rows, most + tl.log2(total))


@triton.jit
def attention_backward(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    head = tl.program_id(1).to(tl.int64) * length * D
    lines = tl.program_id(1).to(tl.int64) * length
    keys = tl.program_id(0) * BN + tl.arange(0, BN)
    inside = tl.arange(0, D)
    k = tl.load(k_ptr + head + keys[:, None] * D + inside[None, :])
    v = tl.load(v_ptr + head + keys[:, None] * D + inside[None, :])
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    for at in range(0, length, BM):
        rows = at + tl.arange(0, BM)
        q = tl.load(q_ptr + head + rows[:, None] * D + inside[None, :])
        do = tl.load(do_ptr + head + rows[:, None] * D + inside[None, :])
        lse = tl.load(lse_ptr + lines + rows)
        delta = tl.load(delta_ptr + lines + rows)
        p = tl.exp2(tl.dot(k, tl.trans(q)) * scale - lse[None, :])
        dv = tl.dot(p.to(tl.float16), do, dv)
        ds = p * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(ds.to(tl.float16), q, dk)
    tl.store(dk_ptr + head + keys[:, None] * D + inside[None, :], dk.to(tl.float16))
    tl.store(dv_ptr + head + keys[:, None] * D + inside[None, :], dv.to(tl.float16))


@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + tl.program_id(0) * columns + at, (e / tl.sum(e, 0)).to(tl.float16), mask=at < columns)


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, columns, eps, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * columns
    y_ptr += tl.program_id(0) * columns
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, columns, BLOCK):
        x = tl.load(x_ptr + begin + tl.arange(0, BLOCK)).to(tl.float32)
        sums += x
        squares += x * x
    mean = tl.sum(sums, 0) / columns
    scale = tl.rsqrt(tl.sum(squares, 0) / columns - mean * mean + eps)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at).to(tl.float32)
        w = tl.load(w_ptr + at).to(tl.float32)
        b = tl.load(b_ptr + at).to(tl.float32)
        tl.store(y_ptr + at, ((x - mean) * scale * w + b).to(tl.float16))


@triton.jit
def experts(x_ptr, w_ptr, y_ptr, order_ptr, expert_ptr, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A grouped GEMM: the rows of each block go to one expert, in the order that a router has given them."""
    expert = tl.load(expert_ptr + tl.program_id(0)).to(tl.int64)
    token = tl.load(order_ptr + tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    x_at = x_ptr + token[:, None] * k + inner[None, :]
    w_at = w_ptr + expert * k * n + inner[:, None] * n + columns[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        x = tl.load(x_at)
        w = tl.load(w_at)
        sums = tl.dot(x, w, sums)
        x_at += BK
        w_at += BK * n
    tl.store(y_ptr + token[:, None] * n + columns[None, :], sums.to(tl.float16))


@triton.jit
def reduction(x_ptr, y_ptr, size, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * STEPS * BLOCK
    sums = tl.zeros((BLOCK,), tl.float32)
    for step in range(STEPS):
        at = begin + step * BLOCK + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + at, mask=at < size, other=0.0)
    tl.store(y_ptr + tl.program_id(0), tl.sum(sums, 0))


@triton.jit
def rotary(x_ptr, cos_ptr, sin_ptr, y_ptr, half, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    cos = tl.load(cos_ptr + row * half + at, mask=at < half).to(tl.float32)
    sin = tl.load(sin_ptr + row * half + at, mask=at < half).to(tl.float32)
    first = tl.load(x_ptr + row * half * 2 + at, mask=at < half).to(tl.float32)
    second = tl.load(x_ptr + row * half * 2 + half + at, mask=at < half).to(tl.float32)
    tl.store(y_ptr + row * half * 2 + at, (first * cos - second * sin).to(tl.float16), mask=at < half)
    tl.store(y_ptr + row * half * 2 + half + at, (second * cos + first * sin).to(tl.float16), mask=at < half)


@triton.jit
def spins(out_ptr, cycles, ROUNDS: tl.constexpr):
    """Does nothing for `cycles` of the multiprocessor's clock, ROUNDS times over, and writes how many it were by its own count."""
    for spin in range(ROUNDS):
        took = tl.inline_asm_elementwise(
            """
            {
            .reg .u64 begin, now, gone;
            .reg .u64 wanted;
            .reg .pred more;
            cvt.u64.u32 wanted, $1;
            mov.u64 begin, %clock64;
            again:
            mov.u64 now, %clock64;
            sub.u64 gone, now, begin;
            setp.lt.u64 more, gone, wanted;
            @more bra again;
            cvt.u32.u64 $0, gone;
            }
            """,
            "=r,r",
            [cycles],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
        tl.store(out_ptr + tl.program_id(0) * ROUNDS + spin, took)


Given = dict[str, Any]


@dataclass(frozen=True)
class Case:
    name: str
    kernel: Any
    types: dict[str, str]
    """Types of the arguments, as Triton writes them."""
    constants: dict[str, int]
    given: Callable[[Any], Given]
    """Arguments on a device, from torch."""
    grid: tuple[int, ...]
    written: tuple[str, ...]
    warps: int = 4
    stages: int = 3
    hopper: bool = False
    """It asks for tensor descriptors, or for warps with roles."""

    def launch(self, given: Given, **options: Any) -> Any:
        chosen = {"num_warps": self.warps, "num_stages": self.stages, **options}
        return self.kernel[self.grid](**given, **self.constants, **chosen)


def _random(torch: Any, *shape: int) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def _gemm(size: int, strides: bool) -> Callable[[Any], Given]:
    def given(torch: Any) -> Given:
        arguments = {name: _random(torch, size, size) for name in ("a_ptr", "b_ptr")}
        arguments |= {"c_ptr": torch.empty_like(arguments["a_ptr"]), "m": size, "n": size, "k": size}
        return arguments | ({"stride_a": size, "stride_b": size, "stride_c": size} if strides else {})

    return given


def _attention(heads: int, length: int, d: int, *, backward: bool) -> Callable[[Any], Given]:
    def given(torch: Any) -> Given:
        q, k, v = (_random(torch, heads, length, d) for _ in range(3))
        more = {"length": length, "scale": 1.4426950408889634 / d**0.5}
        lse = torch.empty(heads, length, device="cuda", dtype=torch.float32)
        if not backward:
            return {"q_ptr": q, "k_ptr": k, "v_ptr": v, "o_ptr": torch.empty_like(q), "lse_ptr": lse, **more}
        lse = torch.logsumexp((q @ k.transpose(1, 2)).float() / d**0.5, 2) * 1.4426950408889634
        outputs = {"dk_ptr": torch.empty_like(k), "dv_ptr": torch.empty_like(v)}
        delta = torch.randn(heads, length, device="cuda", dtype=torch.float32)
        others = {"lse_ptr": lse, "delta_ptr": delta, **outputs, **more}
        return {"q_ptr": q, "k_ptr": k, "v_ptr": v, "do_ptr": _random(torch, heads, length, d), **others}

    return given


def _rows(rows: int, columns: int, *weights: str, **more: Any) -> Callable[[Any], Given]:
    def given(torch: Any) -> Given:
        x = _random(torch, rows, columns)
        return {"x_ptr": x, **{name: _random(torch, columns) for name in weights}, "y_ptr": torch.empty_like(x), "columns": columns, **more}

    return given


def _experts(tokens: int, count: int, n: int, k: int, block: int) -> Callable[[Any], Given]:
    def given(torch: Any) -> Given:
        return {
            "x_ptr": _random(torch, tokens, k),
            "w_ptr": _random(torch, count, k, n),
            "y_ptr": torch.empty(tokens, n, device="cuda", dtype=torch.float16),
            "order_ptr": torch.randperm(tokens, device="cuda").int(),
            "expert_ptr": torch.arange(tokens // block, device="cuda").remainder(count).int(),
            "n": n,
            "k": k,
        }

    return given


def _reduction(torch: Any) -> Given:
    size = 4096 * 16 * 2048
    return {"x_ptr": torch.randn(size, device="cuda"), "y_ptr": torch.empty(4096, device="cuda"), "size": size}


def _rotary(torch: Any) -> Given:
    x = _random(torch, 65536, 128)
    return {
        "x_ptr": x,
        "cos_ptr": _random(torch, 65536, 64),
        "sin_ptr": _random(torch, 65536, 64),
        "y_ptr": torch.empty_like(x),
        "half": 64,
    }


def _types(half: str, single: str = "", integers: str = "", whole: str = "", floats: str = "") -> dict[str, str]:
    kinds = {"*fp16": half, "*fp32": single, "*i32": integers, "i32": whole, "fp32": floats}
    return {name: kind for kind, names in kinds.items() for name in names.split()}


_BLOCKS = {"BM": 128, "BN": 128, "BK": 64}
CASES = (
    Case(
        "gemm",
        gemm,
        _types("a_ptr b_ptr c_ptr", whole="m n k stride_a stride_b stride_c"),
        _BLOCKS,
        _gemm(4096, True),
        (32, 32),
        ("c_ptr",),
        8,
    ),
    Case(
        "gemm_persistent",
        gemm_persistent,
        _types("a_ptr b_ptr c_ptr", whole="m n k"),
        {**_BLOCKS, "PROGRAMS": 132},
        _gemm(4096, False),
        (132,),
        ("c_ptr",),
        8,
        hopper=True,
    ),
    Case(
        "gemm_specialized",
        gemm_specialized,
        _types("a_ptr b_ptr c_ptr", whole="m n k"),
        _BLOCKS,
        _gemm(4096, False),
        (32, 32),
        ("c_ptr",),
        hopper=True,
    ),
    Case(
        "attention",
        attention,
        _types("q_ptr k_ptr v_ptr o_ptr", "lse_ptr", whole="length", floats="scale"),
        {"BM": 128, "BN": 64, "D": 64},
        _attention(64, 4096, 64, backward=False),
        (32, 64),
        ("o_ptr", "lse_ptr"),
    ),
    Case(
        "attention_backward",
        attention_backward,
        _types("q_ptr k_ptr v_ptr do_ptr dk_ptr dv_ptr", "lse_ptr delta_ptr", whole="length", floats="scale"),
        {"BM": 64, "BN": 64, "D": 64},
        _attention(32, 4096, 64, backward=True),
        (64, 32),
        ("dk_ptr", "dv_ptr"),
        stages=2,
    ),
    Case("softmax", softmax, _types("x_ptr y_ptr", whole="columns"), {"BLOCK": 8192}, _rows(16384, 8192), (16384,), ("y_ptr",), 8),
    Case(
        "layer_norm",
        layer_norm,
        _types("x_ptr w_ptr b_ptr y_ptr", whole="columns", floats="eps"),
        {"BLOCK": 1024},
        _rows(16384, 8192, "w_ptr", "b_ptr", eps=1e-5),
        (16384,),
        ("y_ptr",),
    ),
    Case(
        "experts",
        experts,
        _types("x_ptr w_ptr y_ptr", integers="order_ptr expert_ptr", whole="n k"),
        _BLOCKS,
        _experts(8192, 8, 4096, 2048, 128),
        (64, 32),
        ("y_ptr",),
        8,
    ),
    Case("reduction", reduction, _types("", "x_ptr y_ptr", whole="size"), {"STEPS": 16, "BLOCK": 2048}, _reduction, (4096,), ("y_ptr",)),
    Case("rotary", rotary, _types("x_ptr cos_ptr sin_ptr y_ptr", whole="half"), {"BLOCK": 64}, _rotary, (65536,), ("y_ptr",), 1),
)

"""Short kernels in a random order, each of which reads a known number of bytes: `python counted_mixed.py SECONDS` prints these as JSON."""

from __future__ import annotations

import json
import random
import sys
import time

import torch

SECONDS = float(sys.argv[1])
ELEMENTS, BUFFERS = 1 << 24, 6
BYTES = 4 * ELEMENTS
xs, ys, zs = ([torch.ones(ELEMENTS, device="cuda") for _ in range(BUFFERS)] for _ in range(3))
a = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
b = torch.empty_like(a)
small = torch.ones(1 << 18, device="cuda")
turn = 0


def following() -> int:
    """Buffers take turns, so that none is still in the second-level cache."""
    global turn
    turn = (turn + 1) % BUFFERS
    return turn


def add() -> None:
    at = following()
    torch.add(xs[at], ys[at], out=zs[at])


def mul() -> None:
    torch.mul(ys[following()], 2.0, out=zs[turn])


def total() -> None:
    torch.sum(xs[following()])


def matmul() -> None:
    torch.matmul(a, a, out=b)


def sine() -> None:
    torch.sin(small, out=small)


parts = (add, mul, total, matmul, sine)
for part in parts * 2:
    part()
torch.cuda.synchronize()
time.sleep(2)  # until counting has begun
chance = random.Random(1)
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    for _ in range(200):
        chance.choice(parts)()
    torch.cuda.synchronize()
print(json.dumps({"add": 2 * BYTES, "mul": BYTES, "sum": BYTES}))

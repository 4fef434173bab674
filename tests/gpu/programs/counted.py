"""Work of known bytes and operations: `python counted.py SECONDS` prints, for each part, when it ran and how often, as JSON."""

from __future__ import annotations

import json
import sys
import time

import torch

SECONDS = float(sys.argv[1])
SIZE, ELEMENTS = 4096, 1 << 28
a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
c = torch.empty_like(a)
x, y = (torch.ones(ELEMENTS, device="cuda") for _ in range(2))
z = torch.empty_like(x)
small = torch.zeros(32, device="cuda")


def matmul() -> None:
    torch.matmul(a, b, out=c)


def add() -> None:
    torch.add(x, y, out=z)


def copy() -> None:
    z.copy_(x)


def total() -> None:
    torch.sum(x)


def tiny() -> None:
    small.add_(1.0)


parts = {}
for part in (matmul, add, copy, total, tiny):
    for _ in range(5):
        part()
time.sleep(2)  # until counting has begun
for part in (matmul, add, copy, total, tiny):
    torch.cuda.synchronize()
    begin, end, turns = time.monotonic_ns(), time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        for _ in range(50):
            part()
        turns += 50
        torch.cuda.synchronize()
    parts[part.__name__] = {"begin_ns": begin, "end_ns": time.monotonic_ns(), "turns": turns}
    time.sleep(0.05)
print(json.dumps(parts))

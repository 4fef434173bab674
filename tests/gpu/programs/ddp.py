"""Two ranks train with DistributedDataParallel, one of them slowly: ddp.py FOLDER, started by torchrun.

Rank 1 sleeps in the backward pass of layers.2. Each rank writes FOLDER/RANK.json: the bytes of every all-reduce that it was in. Without a
GPU it is tried out on Gloo.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, WIDTH, DEPTH, BATCH = 8, 1024, 4, 64
SLEEPER, SLEEPY_LAYER, SLEEP = 1, 2, 0.02
FLOAT = 4


class Sleep(torch.autograd.Function):
    """Does nothing but sleep, on the way back."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(ctx.seconds)
        return gradient, None


class Block(torch.nn.Module):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.seconds = seconds

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return Sleep.apply(torch.relu(self.linear(value)), self.seconds)


class Model(torch.nn.Module):
    def __init__(self, sleeps: bool) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Block(SLEEP if sleeps and number == SLEEPY_LAYER else 0.0) for number in range(DEPTH))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            value = layer(value)
        return value


def main(folder: str) -> None:
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", rank) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    torch.manual_seed(rank)
    model = DistributedDataParallel(Model(rank == SLEEPER).to(device), bucket_cap_mb=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(BATCH, WIDTH, device=device)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        shown = loss.detach()
        dist.all_reduce(shown)
        float(shown)
    said: Any = model._get_ddp_logging_data()
    first, others = ([int(size) for size in said[name].split(", ")] for name in ("bucket_sizes", "rebuilt_bucket_sizes"))
    reduced = [*first, *(STEPS - 1) * others, *STEPS * [FLOAT]]
    Path(folder, f"{rank}.json").write_text(json.dumps({"all_reduces": reduced, "steps": STEPS, "buckets": len(others)}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])

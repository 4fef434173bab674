"""Recorded training: each sum of gradients belongs to the innermost layer in which the summed tensor was used."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from recording import PYTHON, Recorder
from torch_programs import needs_torch, program
from twin import names

from aiflame.attribute.meaning.backward import origins
from aiflame.attribute.meaning.layers import layers
from aiflame.attribute.meaning.ops import ops

pytestmark = needs_torch

STEPS = 20
TRAINING = f"""
import os

import torch
import torch.distributed
from torch import nn

torch.set_num_threads(1)


class Norm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)

    def forward(self, x):
        return torch.relu(self.gate(x)) * self.up(x)


class Swish(nn.Module):
    def forward(self, x):
        x = x * 2
        return x * torch.sigmoid(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mlp, self.act = Norm(), Gated(), Swish()

    def forward(self, x):
        x = x + self.mlp(self.norm(x))
        return x + self.act(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Linear(64, 64), Norm()
        self.layers = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def train(net):
    for _ in range({STEPS}):
        net(torch.ones(8, 32, 64)).square().mean().backward()


net = Net()
train(net)
os.environ |= {{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}}
torch.distributed.init_process_group("gloo", rank=0, world_size=1)
train(nn.parallel.DistributedDataParallel(net))
torch.distributed.destroy_process_group()
"""

BLOCK = ("act", "", "mlp", "", "")
"""The sums of a block in the order of the backward pass, by tensor: the one that `act` made and used twice; the one of `act` and the sum
around it; the one of `gate` and `up`; and the one that `norm` used, twice, and the sum around it."""
STEP = ["norm", *(".".join(filter(None, (block, place))) for block in ("layers.1", "layers.0") for place in BLOCK)]


def test_a_sum_belongs_to_the_layer_with_all_ops_that_used_the_tensor(record: Recorder, tmp_path: Path) -> None:
    """With a process group, too."""
    run = record(PYTHON, program(tmp_path, TRAINING))
    assert run.status == 0, run.stderr
    profile = run.profile().store
    middle = ((pl.col("begin_ns") + pl.col("end_ns")) // 2).alias("time_ns")
    sums = profile.table("gradient_sums").sort("begin_ns").select("process", "thread", middle, "autograd", sequence="last")
    of_layers = layers(profile)
    of_sums = origins(profile, sums.with_columns(stack=pl.lit(0), gpu=pl.lit(False)), of_layers, ops(profile))
    path = [".".join(each) for each in names(of_layers.forest)]
    assert [path[node] for node in of_sums.layer.tolist()] == STEP * 2 * STEPS

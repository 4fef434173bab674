"""Recorded training: CPU time lies in the layers that used it, forward and backward, without a marker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import sqrt

import numpy as np
import polars as pl
import pytest
from recording import PYTHON, recorder
from torch_programs import needs_torch, program

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.backward import ForwardOf, origins
from aiflame.attribute.meaning.events import sample_items
from aiflame.attribute.meaning.layers import StackLayers, layers
from aiflame.attribute.meaning.ops import StackOps, ops
from aiflame.attribute.stacks.samples import VALUE

pytestmark = needs_torch

BLOCKS = 6
TRAINING = """
import torch
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(0)


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, value):
        hidden = torch.nn.functional.gelu(self.up(self.norm(value)))
        return value + self.down(hidden).view(-1, 256).view(value.shape)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block(256) for _ in range(6))

    def forward(self, value):
        for layer in self.layers:
            value = CALL
        return value


net = Net()
model = WRAP
for step in range(40):
    model(torch.randn(384, 256, requires_grad=True)).square().mean().backward()
"""
WAYS = {
    "plain": ("layer(value)", "net"),
    "checkpointed": ("checkpoint(layer, value, use_reentrant=False)", "net"),
    "checkpointed reentrant": ("checkpoint(layer, value, use_reentrant=True)", "net"),
    "wrapped": ("layer(value)", "torch.nn.DataParallel(net)"),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """CPU samples of a training."""

    count: Ints
    origins: ForwardOf
    layers: StackLayers
    ops: StackOps

    def paths(self) -> list[str]:
        forest, paths = self.layers.forest, [""]
        names = forest.frames["name"].to_list()
        for node in range(1, len(forest.parent)):
            above = paths[int(forest.parent[node])]
            name = names[int(forest.frame[node])]
            paths.append(f"{above}/{name}" if above else name)
        return paths

    def samples(self, block: int, backward: bool) -> int:
        inside = [node for node, path in enumerate(self.paths()) if path.split("/")[0] == f"layers.{block}"]
        return int(self.count[np.isin(self.origins.layer, inside) & (self.origins.backward == backward)].sum())

    def ops_of(self, path: str, backward: bool) -> set[str]:
        node = self.paths().index(path)
        here = (self.origins.layer == node) & (self.origins.backward == backward)
        return {self.ops.names[row] for row in self.origins.op[here].tolist()}


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Seen]:
    @cache
    def run(way: str) -> Seen:
        tmp_path = tmp_path_factory.mktemp("training")
        call, wrap = WAYS[way]
        text = TRAINING.replace("CALL", call).replace("WRAP", wrap)
        recording = recorder(tmp_path)(PYTHON, program(tmp_path, text), env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
        assert recording.status == 0, recording.stderr
        profile = recording.profile().store
        of_layers, of_ops, items = layers(profile), ops(profile), sample_items(profile, 0)
        ticks = items[VALUE].to_numpy() // int(profile.table("cpu_samples").select(pl.col("period_ns").min()).item())
        return Seen(ticks, origins(profile, items, of_layers, of_ops), of_layers, of_ops)

    return run


@pytest.mark.parametrize("way", WAYS)
def test_each_of_equal_blocks_has_its_part_of_both_passes(train: Callable[[str], Seen], way: str) -> None:
    seen = train(way)
    for backward in (False, True):
        each = [seen.samples(block, backward) for block in range(BLOCKS)]
        total = sum(each)
        assert total > 100
        noise = 5 * sqrt(total * (1 / BLOCKS) * (1 - 1 / BLOCKS))
        assert all(abs(samples - total / BLOCKS) < noise for samples in each), each


def test_work_has_its_op_and_backward_work_the_line_of_its_forward_work(train: Callable[[str], Seen]) -> None:
    seen = train("plain")
    assert "aten::addmm" in seen.ops_of("layers.3/up", backward=False)
    assert "aten::addmm" in seen.ops_of("layers.3/up", backward=True)
    of_gelu = seen.origins.backward & (seen.origins.op == seen.ops.names.index("aten::gelu"))
    assert {seen.paths()[layer] for layer in seen.origins.layer[of_gelu]} <= {f"layers.{block}" for block in range(BLOCKS)}
    assert of_gelu.any()
    of_nodes = seen.origins.backward
    assert seen.count[of_nodes & (seen.origins.layer == 0)].sum() < 0.05 * seen.count[of_nodes].sum()
    assert seen.count[of_nodes & (seen.origins.stack > 0)].sum() > 0.8 * seen.count[of_nodes].sum()

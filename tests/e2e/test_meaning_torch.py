"""Recordings of programs with torch: layers, steps and the nodes of the backward pass, and that the programs run as ever."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from recording import PYTHON, Recorder, Run, recorder
from torch_programs import TRAINING, needs_torch, program, record_training

from aiflame.profile.schema.enums import FrameKind

pytestmark = needs_torch
BACKWARD = 1 << 15


@dataclass(frozen=True, slots=True)
class Training:
    run: Run
    report: dict[str, Any]

    def table(self, name: str) -> pl.DataFrame:
        return self.run.profile().table(name)

    def samples(self) -> pl.DataFrame:
        """CPU samples with `backward`, the thread's number, and `layer`: the innermost of the stack, 0 for none."""
        layers = innermost_layers(self.table("stacks"))
        return self.table("cpu_samples").select(
            "process",
            "thread",
            "time_ns",
            "sequence",
            backward=pl.col("autograd") >= BACKWARD,
            number=pl.col("autograd") % BACKWARD,
            layer=pl.col("stack").replace_strict(layers, default=0, return_dtype=pl.UInt32),
        )


def innermost_layers(stacks: pl.DataFrame) -> dict[int, int]:
    layer_of_stack: dict[int, int] = {}
    for row, parent, frame in stacks.select("id", "parent", "frame").iter_rows():
        layer_of_stack[row] = frame & 0xFFFFFFFF if frame >> 60 == FrameKind.LAYER else layer_of_stack.get(parent, 0)
    return layer_of_stack


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Training]:
    """Each training is recorded once."""

    @cache
    def run(*arguments: str) -> Training:
        recording_run = record_training(recorder(tmp_path_factory.mktemp("training")), *arguments)
        return Training(recording_run, json.loads(recording_run.stdout))

    return run


def layer_of_nodes(training: Training, samples: pl.DataFrame) -> pl.DataFrame:
    """Samples with `maker`, the layer whose call made the node of each."""
    calls = training.table("layer_calls").select("process", "sequence_begin", "sequence_end", number="autograd", maker="layer")
    joined = samples.sort("sequence").join_asof(
        calls.sort("sequence_begin"), left_on="sequence", right_on="sequence_begin", by=["process", "number"], check_sortedness=False
    )
    return joined.filter(pl.col("sequence") < pl.col("sequence_end"))


def test_a_training_of_a_transformer(train: Callable[..., Training]) -> None:
    training = train()
    names = training.table("layer_names").join(
        training.table("layer_names").filter(pl.col("type") == "__main__.Transformer").select("root"), on="root", how="semi"
    )
    report = {path: kind.rpartition(".")[2] for path, kind in names.select("path", "type").iter_rows()}
    assert report == training.report["modules"]
    assert names["path"].is_unique().all()

    regions = training.table("regions").filter(pl.col("domain") == "aiflame")
    ends = training.table("region_ends").select("end_ns", id="region")
    steps = training.report["steps_ns"]
    optimizer = regions.filter(pl.col("name") == "optimizer").join(ends, on="id").sort("begin_ns")
    assert len(optimizer) == len(steps)
    assert (optimizer["begin_ns"].to_numpy() > steps).all() and (optimizer["end_ns"].to_numpy()[:-1] < steps[1:]).all()
    data = regions.filter(pl.col("name") == "data").join(ends, on="id").sort("end_ns")
    assert len(data) == len(steps) + 1
    assert (data["end_ns"].to_numpy()[:-1] < steps).all()

    # For forward code, the counter of nodes gives the same layer as the stack.
    samples = training.samples()
    forward = layer_of_nodes(training, samples.filter(~pl.col("backward") & (pl.col("layer") > 0)))
    assert len(forward) > 50
    assert (forward["layer"] == forward["maker"]).mean() > 0.9
    # Backward code has no layer in its stack: its node leads there. Nodes of the loss and between modules belong to no layer.
    backward = samples.filter(pl.col("backward"))
    assert len(backward) > 100
    assert len(layer_of_nodes(training, backward)) / len(backward) > 0.7
    # Backward passes take twice as long as forward passes: none of the large layers is left out.
    large = names.filter(pl.col("path").str.contains(r"mlp\.[02]|qkv"))["layer"]
    assert len(large) == 9
    assert set(large) <= set(layer_of_nodes(training, backward)["maker"])


def test_results_and_output_are_the_same_as_ever(train: Callable[..., Training]) -> None:
    training = train()
    plain = subprocess.run([PYTHON, str(TRAINING)], capture_output=True, text=True, check=True, env={"OMP_NUM_THREADS": "1"})
    assert training.report["losses"] == json.loads(plain.stdout)["losses"]
    assert [line for line in training.run.stderr.splitlines() if not line.startswith("aiflame:")] == plain.stderr.splitlines()
    assert not len(training.table("notes")), training.table("notes")["text"].to_list()


@pytest.mark.timed(alone=True)
def test_workers_of_a_parallel_region_are_where_it_was_launched(train: Callable[..., Training]) -> None:
    training = train("--threads", "2", "--batch", "32")
    samples = training.samples()
    main = samples.group_by("thread").len().sort("len")["thread"][-1]
    workers = samples.filter((pl.col("thread") != main) & pl.col("backward"))
    assert len(workers) > 0  # a handful: mostly they wait
    # In backward passes of the program's own nodes, of which the loss makes the last few.
    assert set(workers["number"]) == {1}
    assert workers["sequence"].max() <= training.table("layer_calls")["sequence_end"].max() + 10


@pytest.mark.parametrize("way", ["reentrant", "not"])
def test_recomputation_in_the_backward_pass_belongs_to_its_layers(train: Callable[..., Training], way: str) -> None:
    training = train("--checkpoint", way)
    again = training.samples().filter((pl.col("layer") > 0) & (pl.col("number") > 0))
    names = set(training.table("layer_names").filter(pl.col("path").str.starts_with("layers."))["layer"])
    assert again.filter(pl.col("layer").is_in(list(names))).height > 50
    # Its nodes are new ones, made in the calls of the same modules.
    if way == "reentrant":
        backward = training.samples().filter(pl.col("backward"))
        nodes_made = layer_of_nodes(training, backward)
        assert set(nodes_made["maker"]) & names


NODE_AND_THREAD = """
import threading, time, torch
torch.set_num_threads(1)
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value * 2
    @staticmethod
    def backward(ctx, gradient):
        spin(1.0)
        return gradient
value = torch.ones(3, requires_grad=True)
for _ in range(20): value = value * 1.5
slow = Slow.apply(value)
spin(0.5)
(slow * 3).sum().backward()
print(slow.grad_fn._sequence_nr())

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512))
    def forward(self, value):
        return self.body(value)
model = Model()
@torch.no_grad()
def serve():
    for _ in range(300): model(torch.ones(256, 512))
thread = threading.Thread(target=serve)
thread.start(); thread.join()
"""
"""A node of the backward pass that takes long; then a model that no thread but one of its own runs."""


@pytest.fixture(scope="module")
def node_and_thread(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("node")
    run = recorder(folder)(PYTHON, program(folder, NODE_AND_THREAD))
    assert run.status == 0, run.stderr
    return run


def test_samples_know_the_node_that_runs_and_the_one_that_was_made_last(node_and_thread: Run) -> None:
    samples = node_and_thread.profile().table("cpu_samples").with_columns(ns=pl.col("weight").cast(pl.UInt64) * pl.col("period_ns"))
    number = int(node_and_thread.stdout)
    at = samples.filter(pl.col("sequence") == number).group_by("autograd").agg(pl.col("ns").sum())
    time = dict(at.iter_rows())
    assert 0.9e9 < time[BACKWARD | 1] < 1.1e9
    assert 0.4e9 < time[1] < 0.6e9


def test_a_model_that_only_another_thread_runs_has_names(node_and_thread: Run) -> None:
    names = node_and_thread.profile().table("layer_names").filter(pl.col("type") != "")
    assert {"", "body", "body.0", "body.1", "body.2"} <= set(names["path"])


MANNERS = """
import copy, io, pickle, sys, warnings
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.ones(4, 8)).sum().backward(); optimizer.step(); optimizer.zero_grad()
kept = io.BytesIO(); torch.save(model, kept); kept.seek(0)
again = torch.load(kept, weights_only=False)
copied = copy.deepcopy(model)
assert (again(torch.ones(8)) == model(torch.ones(8))).all() and (copied(torch.ones(8)) == model(torch.ones(8))).all()
scripted = torch.jit.script(model) if sys.version_info < (3, 14) else model
assert (scripted(torch.ones(8)) == model(torch.ones(8))).all()
weights = dict(model.named_parameters())
loss = lambda weights, value: torch.func.functional_call(model, weights, (value,)).sum()
torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, torch.ones(3, 8))
import torch.distributed.fsdp
torch.manual_seed(3)
print(sorted(vars(model)), torch.rand(2).tolist())
"""


def test_saving_copying_scripting_and_functional_calls(record: Recorder, tmp_path: Path) -> None:
    path = program(tmp_path, MANNERS)
    options = ("-W", "error::UserWarning")
    run = record(PYTHON, *options, path)
    plain = subprocess.run([PYTHON, *options, str(path)], capture_output=True, text=True, check=True)
    assert run.status == 0, run.stderr
    assert run.stdout == plain.stdout
    assert not len(run.profile().table("notes")), run.profile().table("notes")["text"].to_list()

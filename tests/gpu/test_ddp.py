"""DistributedDataParallel on NCCL, two GPUs: the calls of both ranks, the kernels that ran for them, and which rank waited for which."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl
import pytest
from gpu_runs import MILLISECOND, PROGRAMS, GpuRun
from recording import PYTHON, Run
from torch_programs import needs_torch

from aiflame.profile.schema.enums import CallBackend

pytestmark = needs_torch

TORCHRUN = [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
AIFLAME = [PYTHON, "-m", "aiflame.cli.main"]
RANKS = (0, 1)
SLEEPER, SLEPT_NS = 1, 20 * MILLISECOND
FIRST_STEPS = 2
"""In which NCCL connects, and DistributedDataParallel puts its buckets in another order."""
REDUCE = "ncclDevKernel_AllReduce"


@dataclass(frozen=True)
class Job:
    run: GpuRun
    reports: list[dict[str, Any]]
    """By each rank."""

    @cached_property
    def processes(self) -> dict[int, int]:
        """The process of each rank."""
        rows = self.run.profile.table("ranks")
        assert set(rows["size"]) == {len(RANKS)}
        return dict(rows.select("rank", "process").rows())

    def calls(self, backend: CallBackend, rank: int) -> pl.DataFrame:
        """With `call`, the name."""
        names = self.run.profile.table("call_names").filter(pl.col("backend") == int(backend))
        calls = self.run.profile.table("calls").filter(pl.col("process") == self.processes[rank])
        return calls.join(names.select("process", name="id", call="name"), on=["process", "name"])

    @cached_property
    def ranks(self) -> dict[str, Any]:
        """The JSON of `aiflame ranks`."""
        process = subprocess.run(
            [*AIFLAME, "ranks", str(self.run.run.path), "--json"], capture_output=True, text=True, timeout=120, check=False
        )
        assert process.returncode == 0, process.stderr
        answer: dict[str, Any] = json.loads(process.stdout)
        return answer


@pytest.fixture(scope="module", params=["one recorder", "a recorder for each rank"])
def job(two_devices: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("ddp")
    path = folder / "run.aiflame"
    record, program = [*AIFLAME, "record", "-o", str(path), "--"], [str(PROGRAMS / "ddp.py"), str(folder)]
    each = request.param == "a recorder for each rank"
    command = [*TORCHRUN, "--no-python", *record, PYTHON, *program] if each else [*record, *TORCHRUN, *program]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=folder, env=environment, check=False)
    assert process.returncode == 0, process.stderr
    run = GpuRun(Run(process.returncode, process.stdout, process.stderr, path))
    return Job(run, [json.loads((folder / f"{rank}.json").read_text()) for rank in RANKS])


def test_torch_and_nccl_tell_each_all_reduce_of_both_ranks_with_its_bytes(job: Job) -> None:
    assert sorted(job.processes) == list(RANKS)
    for rank in RANKS:
        asked = sorted(job.reports[rank]["all_reduces"])
        of_torch, of_nccl = job.calls(CallBackend.TORCH, rank), job.calls(CallBackend.NCCL, rank)
        assert sorted(of_torch.filter(pl.col("call") == "nccl:all_reduce")["bytes"]) == asked
        assert sorted(of_nccl.filter(pl.col("call").str.starts_with("ncclAllReduce"))["bytes"]) == asked
        assert of_torch["failed"].sum() == of_nccl["failed"].sum() == 0


def test_each_all_reduce_is_a_kernel_of_its_rank(job: Job) -> None:
    kernels = job.run.kernels().filter(pl.col("name").str.contains(REDUCE))
    counts = dict(kernels.group_by("process").len().rows())
    assert counts == {job.processes[rank]: len(job.reports[rank]["all_reduces"]) for rank in RANKS}


def test_kernels_of_nccl_are_communication(job: Job) -> None:
    tree = job.run.profile.tree("gpu-time", by="phase")
    names = tree.frames["name"].to_list()
    kernels = []
    for node in range(1, len(tree)):
        path, at = [], node
        while at > 0:
            path.append(names[tree.frame[at]])
            at = int(tree.parent[at])
        if any(name.startswith("ncclDevKernel") for name in path):
            kernels.append(path)
    assert kernels
    assert all("Communication" in path for path in kernels), kernels


def test_what_a_rank_did_adds_up(job: Job) -> None:
    rows = job.ranks["rows"]
    assert [row["rank"] for row in rows] == list(RANKS)
    for row in rows:
        assert row["rule"] == "devices"
        assert row["compute_ns"] + row["exposed_ns"] + row["copies_ns"] + row["idle_ns"] == row["whole_ns"]
        assert 0 < row["exposed_ns"] <= row["communication_ns"] < row["whole_ns"]
        assert row["compute_ns"] > 0


def test_ranks_meet_in_each_all_reduce(job: Job) -> None:
    assert job.ranks["met"] >= len(job.reports[0]["all_reduces"])


def test_the_rank_that_sleeps_is_named_with_phase_layer_and_cause(job: Job) -> None:
    first, *others = job.ranks["stragglers"]
    why = first["why"]
    assert (first["rank"], first["name"], why["phase"], why["cause"]) == (SLEEPER, "all-reduce", "Backward", "wait")
    assert "layers.2" in why["layer"]
    same = [first, *(one for one in others if one["rank"] == SLEEPER and "layers.2" in one["why"]["layer"])]
    steps = job.reports[SLEEPER]["steps"] - FIRST_STEPS
    assert sum(one["times"] for one in same) >= steps
    assert sum(one["lost_ns"] for one in same) >= steps * SLEPT_NS * 0.8
    assert f"Rank {SLEEPER} comes last" in job.ranks["findings"][0]["sentence"]


def test_the_other_rank_waits_in_its_kernels(job: Job) -> None:
    (waited,) = (row["waited_ns"] for row in job.ranks["rows"] if row["rank"] != SLEEPER)
    assert waited >= (job.reports[0]["steps"] - FIRST_STEPS) * SLEPT_NS * 0.8

"""Stalls of one run and counters of another, merged: both recorded on the fake driver.

There a kernel that runs for d ns reads 3d bytes of DRAM and writes d.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest
from cuda_scenes import around, needs_fakes
from live import recorded
from test_cuda_sampling import PROGRAM

import aiflame
from aiflame.attribute.merging.merge import merge, sampled_and_counted
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.trees.build import metrics, tree
from aiflame.profile.schema.control_schema import GpuCounters, GpuSampling
from aiflame.profile.tables.interface import OpenedProfile

pytestmark = needs_fakes


def run(path: Path, gpu_sampling: int, gpu_counters: int, names: str = "") -> OpenedProfile:
    command: list[str | Path] = [sys.executable, PROGRAM, "steady", "1"]
    env = {**around(), **({"AIFLAME_GPU_COUNTERS": names} if names else {})}
    outcome = recorded(command, path, gpu_sampling=gpu_sampling, gpu_counters=gpu_counters, env=env)
    assert outcome.status == 0, outcome.stderr
    return aiflame.open(path).store


def test_two_recordings_become_one(tmp_path: Path) -> None:
    stalls = run(tmp_path / "stalls.aiflame", GpuSampling.AUTO, GpuCounters.OFF)
    counters = run(tmp_path / "counters.aiflame", GpuSampling.OFF, GpuCounters.ON)
    another_run = merge(*sampled_and_counted(counters, stalls), tmp_path / "both.aiflame")
    merged = aiflame.open(tmp_path / "both.aiflame").store
    launches = merged.table("kernels").height
    assert sum(another_run.matched.values()) == launches + merged.table("copies").height
    assert another_run.matched["none"] == 0
    assert {"gpu-time", "gpu-stalls", "dram-bytes", "tensor"} <= set(metrics(merged))
    assert tree(merged, "gpu-stalls").total("gpu-stalls") == tree(stalls, "gpu-stalls").total("gpu-stalls")
    there = counters.table("kernels").select(pl.col("end_ns").cast(pl.Int64) - pl.col("start_ns").cast(pl.Int64)).to_series()
    of_kernels = without_idle(tree(merged, "dram-bytes")).total("dram-bytes")
    assert of_kernels / launches == pytest.approx(4 * there.mean(), rel=0.05), "bytes of a launch there, for each launch here"


def test_the_users_own_counters_are_divided_over_kernels(tmp_path: Path) -> None:
    """The fake executes 5 instructions where it reads 3 bytes."""
    name = "smsp__inst_executed.sum"
    counted = run(tmp_path / "own.aiflame", GpuSampling.OFF, GpuCounters.ON, f"{name},dram__bytes_read.sum")
    assert {name, "dram__bytes_read.sum"} <= set(metrics(counted))
    sums = {one: without_idle(tree(counted, one)).total(one) for one in (name, "dram__bytes_read.sum")}
    assert sums[name] * 3 == pytest.approx(sums["dram__bytes_read.sum"] * 5, rel=1e-3)
    took = counted.table("kernels").select((pl.col("end_ns").cast(pl.Int64) - pl.col("start_ns").cast(pl.Int64)).sum()).item()
    assert 0 < sums["dram__bytes_read.sum"] <= 3.05 * took

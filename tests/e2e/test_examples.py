"""The programs of examples/, recorded as their pages describe."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from recording import PYTHON, Recorder, Run, kernels, time_under

pytest_plugins = ["opencl_device"]

MATMUL = Path(__file__).parents[2] / "examples" / "matmul"
WAYS = ("basic", "blocked", "tiled")


def run_matmul(record: Recorder, *arguments: str) -> Run:
    run = record(PYTHON, MATMUL / "matmul.py", *arguments)
    assert run.status == 0, run.stderr
    return run


@pytest.mark.timed
def test_the_towers_of_matmul_shrink(opencl_device: str, record: Recorder) -> None:
    run = run_matmul(record, "--device", "opencl", "--rounds", "5")
    profile = run.profile()
    tree, launched = profile.tree("gpu-time"), kernels(profile)
    for way in WAYS:
        assert time_under(tree, way, "-", f"matmul_{way}", metric="gpu-time") == launched[f"matmul_{way}"]["took"]
    basic, blocked, tiled = (launched[f"matmul_{way}"] for way in WAYS)
    assert basic["quickest"] > blocked["quickest"] > tiled["quickest"] > 0


def test_matmul_runs_one_way_alone(opencl_device: str, record: Recorder) -> None:
    run = run_matmul(record, "--device", "opencl", "--rounds", "3", "tiled")
    assert re.fullmatch(r"tiled +[\d.]+ GFLOP/s\n", run.stdout)
    assert run.profile().table("kernels").height == 1 + 3


def test_matmul_lists_its_ways(record: Recorder) -> None:
    run = record(PYTHON, MATMUL / "matmul.py", "magic")
    assert run.status == 2
    assert "there is no way magic: choose from basic, blocked, tiled" in run.stderr

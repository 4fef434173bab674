"""Counters of AMD's GPUs by the device counting service, on the strict stand-in: sums over instances, by the formulas of AMD's metrics."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Process, processes, recorded

from aiflame.profile.schema.control_schema import Feature, GpuCounters, GpuSampling
from built import built

CODE = Path(__file__).parents[2] / "unit/data/amd/scale.gfx90a.hsaco"
SAMPLING = {"FAKE_ROCM": "stochastic", "ROCPROFILER_PC_SAMPLING_BETA_ENABLED": "on"}
UNITS, SIMDS, KERNELS = 4, 16, 10


def run(folder: Path, counters: GpuCounters, **env: str) -> Process:
    features = EVERYTHING & ~Feature.MEANING
    options = {"features": features, "gpu_counters": counters, "gpu_sampling": GpuSampling.AUTO}
    outcome = recorded([built("programs/rocm_counters"), CODE], folder / "p", env={**SAMPLING, **env}, **options)
    assert (outcome.status, outcome.stdout) == (0, "0 violations\n"), outcome.stderr
    (process,) = processes(folder / "p")
    return process


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Process:
    return run(tmp_path_factory.mktemp("counters"), GpuCounters.ON, COUNTED="1")


def test_totals_are_those_of_the_work_by_amds_formulas(counted: Process) -> None:
    """A kernel's amounts are in programs/fake_counters.cpp."""
    rows = counted.table("gpu_counters")
    assert set(rows["device"]) == {"AMD Instinct MI300X [0]"}
    assert dict(rows.group_by("metric").agg(pl.col("value").sum()).rows()) == {
        "dram-read-bytes": KERNELS * (200 * 128 + (1500 - 200 - 100) * 64 + 100 * 32),
        "dram-write-bytes": KERNELS * ((600 - 300) * 32 + 300 * 64),
        "sm-cycles": KERNELS * 10_000,
        "sm-active-cycles": KERNELS * 9_000 * 4 // UNITS,
        "tensor-cycles": KERNELS * 48_000 // SIMDS,
        "warp-cycles": KERNELS * 30_000 * 4 // UNITS,
        "l2-hits": KERNELS * 770,
    }, "the eleventh counter is one too many for this GPU"


def test_stretches_follow_each_other(counted: Process) -> None:
    rows = counted.table("gpu_counters").filter(metric="l2-hits").sort("begin_ns")
    assert (rows["end_ns"] >= rows["begin_ns"]).all()
    assert rows["begin_ns"].to_list()[1:] == rows["end_ns"].to_list()[:-1]


def test_counters_come_instead_of_stalls(counted: Process) -> None:
    assert counted.table("gpu_windows").is_empty() and len(counted.table("kernels")) == KERNELS + 1


def test_only_those_who_ask_have_them(tmp_path: Path) -> None:
    """Nobody has tried this on hardware."""
    assert run(tmp_path, GpuCounters.AUTO).table("gpu_counters").is_empty()

"""Two GPUs of AMD in one process, on the stand-in: the last launch of `scale` is on the second one."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Process, processes, recorded

from aiflame.profile.schema.control_schema import Feature, GpuCounters, GpuSampling
from built import built

CODE = Path(__file__).parents[2] / "unit/data/amd/scale.gfx90a.hsaco"
FIRST, SECOND = "AMD Instinct MI300X [0]", "AMD Instinct MI300X [1]"


@pytest.fixture(scope="module", params=["stochastic", "host_trap"])
def process(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Process:
    profile = tmp_path_factory.mktemp("two") / "p"
    env = {"FAKE_ROCM": f"two,{request.param}", "ROCPROFILER_PC_SAMPLING_BETA_ENABLED": "on"}
    command: list[str | Path] = [built("programs/rocm_client"), CODE, "0x1954,0x1930,0x1828"]
    outcome = recorded(command, profile, features=EVERYTHING & ~Feature.MEANING, gpu_sampling=GpuSampling.AUTO, env=env)
    assert (outcome.status, outcome.stdout) == (0, "0 violations\n"), outcome.stderr
    (only,) = processes(profile)
    return only


def test_each_kernel_ran_on_its_gpu(process: Process) -> None:
    shapes = process.table("kernel_shapes").select("name", "device", shape="id")
    kernels = process.table("kernels").join(shapes, on="shape").sort("start_ns")
    assert kernels.select("name", "device").rows() == [*[("scale", FIRST)] * 3, ("scale", SECOND), ("sum", FIRST)]
    assert process.table("copies")["device"].to_list() == [FIRST]
    assert process.table("gpu_devices").select("device", "address").sort("device").rows() == [
        (FIRST, "0000:C1:03.0"),
        (SECOND, "0000:C2:03.0"),
    ]


def test_each_gpu_has_its_own_samples(process: Process) -> None:
    windows = process.table("gpu_windows").select(window="id", device="device", launch="launched_by")
    samples = process.table("gpu_samples").join(windows, on="window")
    assert dict(samples.group_by("device").agg(pl.col("count").sum()).rows()) == {FIRST: 300, SECOND: 100}
    on_second = process.table("kernels").filter(pl.col("end_ns") - pl.col("start_ns") == 3_000_000)
    assert samples.filter(device=SECOND)["launch"].unique().to_list() == on_second["correlation"].to_list()


def test_each_gpu_has_its_own_counters(tmp_path: Path) -> None:
    """programs/fake_counters.cpp has the amounts of a kernel."""
    command: list[str | Path] = [built("programs/rocm_counters"), CODE]
    env = {"FAKE_ROCM": "two", "COUNTED": "1"}
    outcome = recorded(command, tmp_path / "p", features=EVERYTHING & ~Feature.MEANING, gpu_counters=GpuCounters.ON, env=env)
    assert (outcome.status, outcome.stdout) == (0, "0 violations\n"), outcome.stderr
    (once,) = processes(tmp_path / "p")
    hits = once.table("gpu_counters").filter(metric="l2-hits").group_by("device").agg(pl.col("value").sum())
    assert dict(hits.rows()) == {FIRST: 10 * 770, SECOND: 3 * 770}

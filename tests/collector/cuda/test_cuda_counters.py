"""Hardware counters, on the fake driver and the strict fake CUPTI.

There a kernel that runs for d ns reads 3d bytes of DRAM, writes d, keeps half of the tensor pipe busy, and the device runs at 1 GHz.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest
from cuda_scenes import around, needs_fakes
from live import Outcome, Process, processes, recorded
from test_cuda_sampling import PROGRAM

from aiflame.profile.schema.control_schema import GpuCounters, GpuSampling

pytestmark = needs_fakes

Scene = Callable[..., tuple[Outcome, Process]]
MS = 1_000_000


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Records a scene of fake_gpu_sampling.py with counters, and gives its first process."""

    def run(
        name: str,
        *arguments: str,
        gpu_sampling: int = GpuSampling.OFF,
        gpu_counters: int = GpuCounters.AUTO,
        env: Mapping[str, str] | None = None,
    ) -> tuple[Outcome, Process]:
        profile = tmp_path / name
        command: list[str | Path] = [sys.executable, PROGRAM, name, *arguments]
        outcome = recorded(command, profile, gpu_sampling=gpu_sampling, gpu_counters=gpu_counters, env={**around(), **(env or {})})
        assert outcome.status == 0, outcome.stderr
        return outcome, processes(profile)[0]

    return run


def counted(process: Process) -> pl.DataFrame:
    """A row for each sample, with a column for each counter."""
    return process.table("gpu_counters").pivot(on="metric", index=["device", "begin_ns", "end_ns"], values="value").sort("begin_ns")


def kernels_in(process: Process, begin: int, end: int) -> int:
    """Nanoseconds of kernels between the two."""
    inside = process.table("kernels").select(
        pl.min_horizontal("end_ns", pl.lit(end, pl.UInt64)).cast(pl.Int64)
        - pl.max_horizontal("start_ns", pl.lit(begin, pl.UInt64)).cast(pl.Int64)
    )
    return int(inside.to_series().clip(0).sum())


def test_each_sample_has_what_ran_in_it(scene: Scene) -> None:
    _, process = scene("steady", "1.5", "gpu_counters")
    samples = counted(process)
    assert samples.height > 500
    assert set(samples["device"]) == {"Fake GPU [0]"}
    lengths = samples["end_ns"] - samples["begin_ns"]
    assert (lengths.min(), lengths.max()) == (MS, MS)
    assert (samples["begin_ns"][1:] == samples["end_ns"][:-1]).all(), "no gap, no overlap"
    assert (samples["sm-cycles"] == MS).all()
    busy = samples["sm-active-cycles"]
    assert (samples["dram-read-bytes"] == 3 * busy).all()
    assert (samples["dram-write-bytes"] == busy).all()
    assert ((samples["tensor-cycles"].cast(pl.Int64) - busy.cast(pl.Int64) / 2).abs() <= 1).all()
    begin, end = int(samples["begin_ns"][0]), int(samples["end_ns"][-1])
    assert busy.sum() == pytest.approx(kernels_in(process, begin, end), rel=0.01), "and in the same clock as the kernels"
    late = samples.filter(pl.col("sm-active-cycles") > 0)[10]
    assert int(late["sm-active-cycles"][0]) == pytest.approx(
        kernels_in(process, int(late["begin_ns"][0]), int(late["end_ns"][0])), abs=20_000
    )
    assert process.table("gpu_samples").is_empty()
    assert process.table("notes").is_empty()


def test_only_as_many_counters_as_one_pass_takes(scene: Scene) -> None:
    """The fake takes ten, and knows neither NVLink nor a second counter of the tensor pipe's name."""
    _, process = scene("steady", "0.5", "gpu_counters")
    assert set(process.table("gpu_counters")["metric"]) == {
        *("dram-read-bytes", "dram-write-bytes", "sm-cycles", "sm-active-cycles", "tensor-cycles", "warp-cycles", "l2-bytes"),
        *("pcie-read-bytes", "pcie-write-bytes"),
    }


def test_the_users_own_counters(scene: Scene) -> None:
    names = "smsp__inst_executed.sum,dram__bytes_read.sum,no__such.sum"
    _, process = scene(
        "steady", "0.5", "gpu_counters", gpu_sampling=GpuSampling.AUTO, gpu_counters=GpuCounters.ON, env={"AIFLAME_GPU_COUNTERS": names}
    )
    samples = counted(process)
    assert (samples["smsp__inst_executed.sum"] * 3 == samples["dram__bytes_read.sum"] * 5).all()
    assert samples["smsp__inst_executed.sum"].sum() > 0
    assert process.table("gpu_samples").is_empty(), "they come instead of stalls"
    assert process.table("notes")["text"].to_list() == ["the GPU counter no__such.sum is left out: this GPU does not know it"]


def test_by_default_stalls_are_sampled_and_nothing_is_counted(scene: Scene) -> None:
    _, process = scene("steady", "0.5", "gpu_samples", gpu_sampling=GpuSampling.AUTO)
    assert not process.table("gpu_samples").is_empty()
    assert process.table("gpu_counters").is_empty()


def test_without_permission_a_note_says_how_to_get_it(scene: Scene) -> None:
    outcome, process = scene("steady", "0.5", env={"FAKE_CUPTI_DENIED": "1"})
    assert process.table("kernels").height == int(outcome.stdout)
    assert process.table("gpu_counters").is_empty()
    (note,) = process.table("notes")["text"]
    assert note.startswith("GPU counters are not recorded: the NVIDIA driver lets only root read performance counters. To let everybody: ")


def test_a_device_that_cannot_count_by_time_counts_by_cycles(scene: Scene) -> None:
    _, process = scene("steady", "0.5", "gpu_counters", env={"FAKE_CUPTI_NO_TIMER": "1"})
    samples = counted(process)
    assert set(samples["end_ns"] - samples["begin_ns"]) == {3 * MS // 2}


def test_after_an_overflow_it_counts_more_coarsely(scene: Scene) -> None:
    """The fake's buffer holds 60 samples, and the worker reads ten times a second: at four times the interval it is in time, if it
    gets the CPU."""
    _, process = scene("steady", "1.5", "gpu_counters", env={"FAKE_CUPTI_BUFFER_SAMPLES": "60"})
    samples = counted(process)
    assert samples.height > 0
    assert set(samples["end_ns"] - samples["begin_ns"]) <= {4 * MS, 16 * MS}
    assert process.table("notes").is_empty()


def test_a_device_that_is_always_too_fast_is_told_so(scene: Scene) -> None:
    outcome, process = scene("steady", "1.5", env={"FAKE_CUPTI_BUFFER_SAMPLES": "0"})
    assert process.table("kernels").height == int(outcome.stdout)
    assert process.table("notes")["text"].to_list() == [
        "GPU counters are not recorded from here on: the GPU counts faster than they can be read"
    ]


def test_of_two_processes_on_a_device_one_counts(scene: Scene, tmp_path: Path) -> None:
    outcome, process = scene("beside_another", env={"FAKE_CUDA_MACHINE": "1"})
    beside = processes(tmp_path / "beside_another")[1]
    assert process.table("kernels").height + beside.table("kernels").height == sum(map(int, outcome.stdout.split()))
    assert not process.table("gpu_counters").is_empty()
    assert beside.table("gpu_counters").is_empty()
    assert beside.table("notes")["text"].to_list() == [
        "GPU counters are recorded of one process a device: another one on the same GPU is being recorded"
    ]


def test_a_child_after_a_fork_counts_nothing(scene: Scene) -> None:
    _, process = scene("forked_while_sampled")
    assert not process.table("gpu_counters").is_empty()

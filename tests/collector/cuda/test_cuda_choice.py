"""Stalls end where the program's launches would pay for them, and the device's counters come instead: on the fake driver and CUPTI.

The fake ends a program that begins or ends sampling from the collector's thread while a thread of the program is inside a launch.
"""

from __future__ import annotations

import polars as pl
import pytest
from cuda_scenes import needs_fakes
from live import Process
from test_cuda_counters import Scene, scene

from aiflame.profile.schema.control_schema import GpuCounters, GpuSampling

__all__ = ["scene"]

pytestmark = needs_fakes

SECOND = 1_000_000_000
AUTO = {"gpu_sampling": GpuSampling.AUTO}


def last(process: Process, table: str, column: str) -> float:
    """Seconds from the first kernel to the last such moment; negative without any."""
    begin = process.table("kernels")["start_ns"].cast(pl.Int64).min()
    latest = process.table(table)[column].cast(pl.Int64).max()
    return (latest - begin) / SECOND if isinstance(latest, int) and isinstance(begin, int) else -1


@pytest.mark.parametrize("threads", ["1", "3"])
def test_many_launches_end_the_sampling_of_stalls(scene: Scene, threads: str) -> None:
    outcome, process = scene("launching", "4", threads, **AUTO)
    assert process.table("kernels").height == int(outcome.stdout)
    assert 0.4 < last(process, "gpu_windows", "end_ns") < 3
    assert last(process, "gpu_counters", "end_ns") > 3.5
    assert process.table("notes").is_empty()


def test_without_counters_nothing_comes_instead(scene: Scene) -> None:
    outcome, process = scene("launching", "3", "1", **AUTO, gpu_counters=GpuCounters.OFF)
    assert process.table("kernels").height == int(outcome.stdout)
    assert last(process, "gpu_windows", "end_ns") < 2.9
    assert process.table("gpu_counters").is_empty()


def test_a_period_that_the_user_has_set_stays(scene: Scene) -> None:
    _, process = scene("launching", "3", "1", gpu_sampling=10)
    assert last(process, "gpu_windows", "end_ns") > 2.7
    assert process.table("gpu_counters").is_empty()


def test_few_launches_stay_sampled(scene: Scene) -> None:
    """A third of the time busy, and 300 launches a second: they pay next to nothing."""
    outcome, process = scene("steady", "3", **AUTO)
    assert process.table("kernels").height == int(outcome.stdout)
    assert last(process, "gpu_windows", "end_ns") > 2.5
    assert process.table("gpu_counters").is_empty()


def test_beside_a_launch_that_takes_long_sampling_goes_on(scene: Scene) -> None:
    """It could end only where that launch locks up the driver."""
    outcome, process = scene("launching_beside_a_slow_launch", "3", "1", **AUTO)
    kernels = process.table("kernels").join(process.table("kernel_shapes").select("id", "name"), left_on="shape", right_on="id")
    small = kernels.filter(pl.col("name") == "small")
    assert small.height == int(outcome.stdout)
    assert last(process, "gpu_windows", "end_ns") > 2.5
    assert process.table("gpu_counters").is_empty()


def test_a_context_that_goes_meanwhile_is_not_sampled_again(scene: Scene) -> None:
    outcome, process = scene("gone_while_paused", "2.5", "2", **AUTO)
    assert process.table("kernels").height == sum(map(int, outcome.stdout.split()))
    assert process.table("notes").is_empty()


def test_a_fork_while_threads_are_held_leaves_the_child_alone(scene: Scene, tmp_path: object) -> None:
    """The fake takes a second to end sampling: threads are held for that long, and children are made in that time."""
    outcome, process = scene("forked_while_launching", "4", "1", **AUTO, env={"FAKE_CUPTI_CHANGE_MS": "1000"})
    launched, *statuses = map(int, outcome.stdout.split())
    assert process.table("kernels").height == launched
    assert len(statuses) > 3
    assert not any(statuses)

"""Stalls are sampled where the device is busy, and end where the program's launches would pay for them; then its counters come."""

from __future__ import annotations

import polars as pl
import pytest
from gpu_runs import GpuRun, Recorder

SECOND = 1_000_000_000


def spans(run: GpuRun) -> dict[str, tuple[float, float]]:
    """The first and the last second of each, from the first kernel on."""
    tables = {"kernels": "start_ns", "gpu_windows": "begin_ns", "gpu_counters": "begin_ns"}
    begin = run.profile.table("kernels")["start_ns"].min()
    seconds = {}
    for name, column in tables.items():
        times = (run.profile.table(name)[column].cast(pl.Int64) - begin) / SECOND
        if not times.is_empty():
            seconds[name] = (float(times.min()), float(times.max()))
    return seconds


@pytest.mark.parametrize("threads", [1, 2])
def test_where_the_device_waits_for_launches_its_counters_come_instead(record: Recorder, threads: int) -> None:
    run = record("launching.py", "launch", "6", str(threads))
    assert run.result.status == 0, run.run.stderr
    when = spans(run)
    print(when, run.result.stdout)
    assert when["gpu_windows"][1] < 3 < when["kernels"][1]
    assert when["gpu_windows"][1] < when["gpu_counters"][0] < 4
    assert when["gpu_counters"][1] > when["kernels"][1] - 0.5
    launched = run.profile.table("kernels").height
    assert launched >= int(run.result.stdout), "no record is lost when sampling ends"
    assert not [text for text in run.profile.table("notes")["text"] if "GPU" in text or "CUDA" in text]


def test_where_the_device_is_busy_stalls_are_sampled_to_the_end(record: Recorder) -> None:
    run = record("launching.py", "busy", "5", "1")
    assert run.result.status == 0, run.run.stderr
    when = spans(run)
    assert "gpu_counters" not in when
    assert when["gpu_windows"][1] > when["kernels"][1] - 1
    assert run.profile.table("kernels").height >= int(run.result.stdout)


def test_where_the_device_becomes_busy_stalls_are_sampled_again(record: Recorder) -> None:
    """At most once in half a minute."""
    run = record("launching.py", "both", "36", "1", timeout=180)
    assert run.result.status == 0, run.run.stderr
    when = spans(run)
    print(when)
    windows = run.profile.table("gpu_windows").filter(pl.col("samples") > 0).sort("begin_ns")
    gap = (windows["begin_ns"].cast(pl.Int64).diff().max() or 0) / SECOND
    assert 30 < gap < 45
    assert when["gpu_windows"][1] > when["kernels"][1] - 1
    assert when["gpu_counters"][1] < when["kernels"][1] - 20
    assert run.profile.table("kernels").height >= int(run.result.stdout)

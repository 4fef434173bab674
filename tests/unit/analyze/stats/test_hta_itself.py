"""HTA (HolisticTraceAnalysis, from PyPI) and our reports of its names, on the same traces: equal where the definitions are, and each
difference that docs/stats.md names.

To run these tests install it into an environment of its own, and name its folder of packages:
    AIFLAME_HTA=VENV/lib/python3.11/site-packages pytest tests/unit/analyze/stats/test_hta_itself.py
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kineto_events import event, launched, work, written

import aiflame

PACKAGES = os.environ.get("AIFLAME_HTA", "")
REAL = Path(os.environ.get("AIFLAME_TRACES", "/nowhere"), "kineto")
TRACES = (
    "hta-timeline_analysis-sampled_rank-0.json.gz",
    "hta-trace_filter-sampled_rank-1.json.gz",
    "hta-trace_file_list-inference_rank_1.json.gz",
)
"""With times in whole microseconds."""
WHOLE_US = [REAL / name for name in TRACES if (REAL / name).exists()]


@pytest.fixture(autouse=True, scope="module")
def hta() -> Iterator[None]:
    if PACKAGES:
        sys.path.append(PACKAGES)
    pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis is not installed (AIFLAME_HTA names a folder that has it)")
    yield
    if PACKAGES:
        sys.path.remove(PACKAGES)


def analysed(file: Path, *, whole: bool = True) -> Any:
    from hta.trace_analysis import TraceAnalysis

    return TraceAnalysis(trace_files={0: str(file)}, trace_dir="/", include_last_profiler_step=whole)


def breakdown(trace: Any) -> tuple[float, ...]:
    (row,) = trace.get_temporal_breakdown(visualize=False).to_dict("records")
    return tuple(float(row[f"{name}_time(us)"]) for name in ("kernel", "idle", "compute", "non_compute"))


def our_breakdown(profile: aiflame.Profile) -> tuple[float, ...]:
    (row,) = profile.stats("hta.temporal-breakdown").to_dicts()
    return tuple(row[name] / 1000 for name in ("kernel_time_ns", "idle_ns", "compute_ns", "non_compute_ns"))


@pytest.mark.parametrize("file", WHOLE_US, ids=lambda file: file.name)
def test_the_same_times(file: Path) -> None:
    trace, profile = analysed(file), aiflame.open(file)
    assert our_breakdown(profile) == breakdown(trace)
    types, kernels = trace.get_gpu_kernel_breakdown(visualize=False, num_kernels=100_000, include_memory_kernels=True)
    ours = {row["kind"]: row["total_ns"] / 1000 for row in profile.stats("hta.kernel-types").to_dicts()}
    assert ours == {row["kernel_type"].replace("OVERLAPPING", "overlapping").lower(): row["sum"] for row in types.to_dict("records")}
    rows = profile.stats("hta.kernel-breakdown").to_dicts()
    assert sorted(
        (row["total_ns"] / 1000, row["max_ns"] / 1000, row["min_ns"] / 1000) for row in rows if row["kind"] != "memory"
    ) == sorted((row["sum (us)"], row["max (us)"], row["min (us)"]) for row in kernels.to_dict("records") if row["kernel_type"] != "MEMORY")


@pytest.mark.parametrize("file", WHOLE_US, ids=lambda file: file.name)
def test_the_same_idle_time(file: Path) -> None:
    theirs = analysed(file).get_idle_time_breakdown(visualize=False)[0]
    rows = aiflame.open(file).stats("hta.idle-time-breakdown")
    ours = {(row["stream"], row["cause"]): row["idle_ns"] / 1000 for row in rows.to_dicts()}
    wanted = {(row["stream"], row["idle_category"]): row["idle_time"] for row in theirs.to_dict("records")}
    assert ours == {key: time for key, time in wanted.items() if time}


@pytest.mark.parametrize("file", WHOLE_US, ids=lambda file: file.name)
def test_the_same_overlap_and_launches(file: Path) -> None:
    trace, profile = analysed(file), aiflame.open(file)
    (theirs,) = trace.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"]
    assert [round(value, 2) for value in profile.stats("hta.comm-comp-overlap")["overlap_percent"]] == (
        [] if math.isnan(theirs) else [theirs]
    )
    launches = trace.get_cuda_kernel_launch_stats(visualize=False)[0]
    ours = profile.stats("hta.launches")
    columns = {"cpu_duration": "call_ns", "gpu_duration": "device_ns", "launch_delay": "delay_ns"}
    assert {name: sorted(launches[name] * 1000) for name in columns} == {name: sorted(ours[of].to_list()) for name, of in columns.items()}


@pytest.mark.parametrize("file", WHOLE_US[:2], ids=lambda file: file.name)
def test_the_same_queues(file: Path) -> None:
    theirs = analysed(file).get_queue_length_summary()["queue_length"]
    ours = aiflame.open(file).stats("hta.queue-length")
    figures = {"count": "changes", "mean": "mean", "std": "stddev", "min": "min", "25%": "p25", "50%": "p50", "75%": "p75", "max": "max"}
    assert {row["stream"]: [row[of] for of in figures.values()] for row in ours.to_dicts()} == {
        stream: pytest.approx([row[name] for name in figures]) for (_, stream), row in theirs.iterrows()
    }


def test_it_drops_the_last_step(tmp_path: Path) -> None:
    steps = [event("user_annotation", f"ProfilerStep#{number}", 1000 * number, 900) for number in (1, 2, 3)]
    kernels = [launched("gemm", 1000 * number + 10, 1000 * number + 100, 50 * number, number) for number in (1, 2, 3)]
    file = written(tmp_path, steps, *kernels)
    assert breakdown(analysed(file, whole=False))[2] == 50 + 100
    assert our_breakdown(aiflame.open(file))[2] == 50 + 100 + 150


@pytest.mark.parametrize("category", ["cuda_sync", "gpu_user_annotation"])
def test_it_counts_waits_of_streams_and_annotations_as_kernels(tmp_path: Path, category: str) -> None:
    """An event with a stream is a kernel to it."""
    other = work(category, "## wait ##", 400, 100, 9)
    file = written(tmp_path, launched("gemm", 10, 100, 50, 1), launched("gemm", 60, 600, 50, 2), [other])
    assert breakdown(analysed(file)) == (550, 350, 200, 0)
    assert our_breakdown(aiflame.open(file)) == (550, 450, 100, 0)


def test_it_adds_negative_gaps(tmp_path: Path) -> None:
    """Kernels of one stream that overlap (programmatic launches, graphs): the next one begins before the last has ended."""
    file = written(tmp_path, launched("a", 10, 100, 100, 1), launched("b", 20, 150, 100, 2), launched("c", 30, 260, 10, 3))
    theirs = analysed(file).get_idle_time_breakdown(visualize=False)[0].to_dict("records")
    assert {row["idle_category"]: row["idle_time"] for row in theirs} == {"kernel_wait": -50 + 10, "other": 0}
    (ours,) = aiflame.open(file).stats("hta.idle-time-breakdown").to_dicts()
    assert (ours["cause"], ours["idle_ns"]) == ("kernel_wait", 10_000)


def test_it_cuts_times_to_microseconds(tmp_path: Path) -> None:
    file = written(tmp_path, launched("a", 10, 100.25, 0.9, 1), launched("b", 20, 110.5, 1.5, 2))
    assert breakdown(analysed(file))[2] == 0 + 1
    assert our_breakdown(aiflame.open(file))[2] == pytest.approx(0.9 + 1.5)


def test_it_takes_the_bandwidth_that_the_file_names(tmp_path: Path) -> None:
    copy = work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 100, 10, 1, bytes=100_000)
    copy["args"]["memory bandwidth (GB/s)"] = 9.5
    file = written(tmp_path, [event("cuda_runtime", "cudaMemcpyAsync", 10, 5, correlation=1), copy], launched("a", 20, 120, 5, 2))
    theirs = analysed(file).get_memory_bw_summary()["memory_bw_gbps"]
    assert theirs["mean"].to_list() == [9.5]
    assert aiflame.open(file).stats("hta.memory-bandwidth")["mean_gb_s"].to_list() == [10.0]


def test_it_knows_the_launches_of_five_functions(tmp_path: Path) -> None:
    lost = [event("cuda_driver", "cuLaunchKernelEx", 40, 5, correlation=3), work("kernel", "triton_", 300, 10, 3)]
    file = written(tmp_path, launched("a", 10, 100, 10, 1), lost)
    assert len(analysed(file).get_cuda_kernel_launch_stats(visualize=False)[0]) == 1
    assert len(aiflame.open(file).stats("hta.launches")) == 2


def test_its_threshold_of_kernel_waits_is_in_microseconds(tmp_path: Path) -> None:
    """Its documentation says 30 nanoseconds."""
    file = written(tmp_path, launched("first", 10, 100, 10, 1), launched("second", 20, 139, 10, 2), launched("third", 30, 179, 10, 3))
    theirs = analysed(file).get_idle_time_breakdown(visualize=False)[0].to_dict("records")
    ours = aiflame.open(file).stats("hta.idle-time-breakdown").to_dicts()
    assert {row["idle_category"]: row["idle_time"] for row in theirs} == {"kernel_wait": 29, "other": 30}
    assert {row["cause"]: row["idle_ns"] / 1000 for row in ours} == {"kernel_wait": 29, "other": 30}


def test_it_knows_communication_by_the_begin_of_its_name(tmp_path: Path) -> None:
    file = written(tmp_path, launched("one_shot_all_reduce_kernel", 10, 100, 50, 1), launched("gemm", 20, 200, 50, 2))
    assert breakdown(analysed(file))[2] == 100
    assert our_breakdown(aiflame.open(file))[2] == 50


def test_it_has_one_row_for_several_devices(tmp_path: Path) -> None:
    other = launched("gemm", 1020, 1120, 50, 2)  # sums of smaller times overflow in HTA
    other[-1]["pid"] = other[-1]["args"]["device"] = 1
    file = written(tmp_path, launched("gemm", 1010, 1100, 50, 1), other)
    assert breakdown(analysed(file)) == (70, 0, 70, 0)
    rows = aiflame.open(file).stats("hta.temporal-breakdown")
    assert {row["device"][-3:]: row["kernel_time_ns"] for row in rows.to_dicts()} == {"[0]": 50_000, "[1]": 50_000}

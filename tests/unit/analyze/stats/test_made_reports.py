"""Reports of a made trace, whose figures are known by construction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from kineto_events import event, launched, work, written

import aiflame
from aiflame.errors import AiflameError

US = 1000
THREE = ("first", "second", "third")


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., aiflame.Profile]:
    return lambda *events: aiflame.open(written(tmp_path, *events))


def copied(call: float, begin: float, dur: float, correlation: int, size: int, name: str = "Memcpy HtoD (Pinned -> Device)") -> Any:
    category = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
    return [
        event("cuda_runtime", "cudaMemcpyAsync", call, 5, correlation=correlation),
        work(category, name, begin, dur, correlation, 7, bytes=size),
    ]


def mixed() -> list[list[dict[str, Any]]]:
    """From 100 to 300 µs: computation 100–150 and 180–200, communication 140–190 on a stream of its own, a copy 195–205, a fill 290–300."""
    return [
        launched("gemm", 10, 100, 50, 1),
        launched("ncclDevKernel_AllReduce", 20, 140, 50, 2, stream=20),
        launched("gemm", 30, 180, 20, 3),
        copied(40, 195, 10, 4, 50_000),
        copied(280, 290, 10, 5, 1_000, "Memset (Device)"),
    ]


def one(rows: pl.DataFrame) -> dict[str, Any]:
    (row,) = rows.to_dicts()
    return row


def test_temporal_breakdown(opened: Callable[..., aiflame.Profile]) -> None:
    row = one(opened(*mixed()).stats("hta.temporal-breakdown"))
    assert [row[name] // US for name in ("kernel_time_ns", "idle_ns", "compute_ns", "non_compute_ns")] == [200, 85, 70, 45]
    assert row["idle_percent"] == pytest.approx(42.5)


def test_devices_stand_in_the_order_of_their_names(opened: Callable[..., aiflame.Profile]) -> None:
    """The trace names the first device only, which ran first."""
    first, second = launched("gemm", 10, 100, 50, 1), launched("gemm", 20, 200, 50, 2)
    second[-1]["pid"] = second[-1]["args"]["device"] = 1
    assert opened(first, second).stats("hta.temporal-breakdown")["device"].to_list() == ["GPU [1]", "H100 [0]"]


def test_kinds_of_work_together(opened: Callable[..., aiflame.Profile]) -> None:
    rows = opened(*mixed()).stats("hta.kernel-types")
    assert {row["kind"]: row["total_ns"] // US for row in rows.to_dicts()} == {
        "computation": 40 + 5,
        "communication": 30,
        "memory": 5 + 10,
        "computation overlapping communication": 10 + 10,
        "computation overlapping memory": 5,
    }


def test_overlap(opened: Callable[..., aiflame.Profile]) -> None:
    profile = opened(*mixed())
    assert one(profile.stats("hta.comm-comp-overlap"))["overlap_percent"] == pytest.approx(40)
    row = one(profile.stats("nsys.nccl-gpu-overlap-trace"))
    assert (row["duration_ns"], row["overlap_ns"], row["overlap_percent"]) == (50 * US, 20 * US, pytest.approx(40))


def test_gpu_timeline_counts_fills_as_computation(opened: Callable[..., aiflame.Profile]) -> None:
    rows = opened(*mixed()).stats("tracelens.gpu-timeline")
    assert {row["time"]: row["total_ns"] // US for row in rows.to_dicts()} == {
        "computation": 80,
        "exposed communication": 30,
        "exposed copies": 5,
        "busy": 115,
        "idle": 85,
        "whole": 200,
        "all communication": 50,
        "all copies": 10,
    }


def test_why_a_stream_was_idle(opened: Callable[..., aiflame.Profile]) -> None:
    late = launched("late", 400, 410, 10, 6)  # launched after the fill had ended
    rows = opened(*mixed(), late).stats("hta.idle-time-breakdown").filter(stream=7)
    causes = {row["cause"]: (row["idle_ns"] // US, row["gaps"]) for row in rows.to_dicts()}
    assert causes == {"host_wait": (110 + 85, 2), "other": (30, 1)}


def test_queue_length(opened: Callable[..., aiflame.Profile]) -> None:
    """Three launches wait together; each leaves the queue when it begins."""
    kernels = [launched("k", 10 * number, 100 + 50 * number, 50, number) for number in (1, 2, 3)]
    profile = opened(*kernels)
    assert profile.stats("hta.queue-length-series")["queue_length"].to_list() == [1, 2, 3, 2, 1, 0]
    row = one(profile.stats("hta.queue-length"))
    assert (row["changes"], row["mean"], row["max"], row["full_ns"]) == (6, 1.5, 3.0, 0)
    assert row["mean_over_time"] == pytest.approx((10 * 1 + 10 * 2 + 120 * 3 + 50 * 2 + 50 * 1) / 240)


def test_memory_bandwidth(opened: Callable[..., aiflame.Profile]) -> None:
    profile = opened(copied(10, 100, 10, 1, 100_000), copied(20, 105, 10, 2, 200_000), copied(30, 200, 0, 3, 10))
    series = profile.stats("hta.memory-bandwidth-series")
    assert series["bandwidth_gb_s"].to_list() == pytest.approx([10, 30, 20, 0])
    row = one(profile.stats("hta.memory-bandwidth"))
    assert (row["copies"], row["moved_bytes"], row["changes"], row["mean_gb_s"]) == (3, 300_010, 3, pytest.approx(20))


def test_launch_statistics(opened: Callable[..., aiflame.Profile]) -> None:
    profile = opened(launched("short", 10, 20, 2, 1), launched("late", 30, 200, 50, 2), launched("long", 300, 310, 50, 3))
    rows = {row["measure"]: row for row in profile.stats("hta.launch-statistics").to_dicts()}
    assert {name: row["outliers"] for name, row in rows.items()} == {"runtime call": 0, "on the device": 1, "launch delay": 1}
    assert [row["max_ns"] // US for row in rows.values()] == [5, 50, 165]


def test_sequences_of_kernels(opened: Callable[..., aiflame.Profile]) -> None:
    """An op that launches three kernels twice, and two once."""
    events: list[list[dict[str, Any]]] = []
    for place, names in enumerate((THREE, THREE, THREE[:2])):
        at = 1000 * (place + 1)
        events.append([event("cpu_op", "aten::conv", at, 100)])
        for number, name in enumerate(names):
            events.append(launched(name, at + 10 + 20 * number, at + 200 + 20 * number, 10, 10 * place + number + 1))
    row = one(opened(*events).stats("hta.kernel-sequences"))
    assert (row["count"], row["op"], row["sequence"], row["device_ns"], row["cpu_ns"]) == (
        2,
        "aten::conv",
        " | ".join(THREE),
        60 * US,
        200 * US,
    )


def test_averages_of_ops_on_devices(opened: Callable[..., aiflame.Profile]) -> None:
    """`outer` calls `aten::gemm`, which launches 50 µs of work. The launch is a call of its own."""
    profile = opened([event("cpu_op", "outer", 0, 100)], launched("gemm", 10, 100, 50, 1))
    rows = {row["name"]: row for row in profile.stats("torch.key-averages").to_dicts()}
    columns = ("self_cpu_ns", "cpu_ns", "self_device_ns", "device_ns")
    assert {name: [row[of] // US for of in columns] for name, row in rows.items() if name != "aten::empty"} == {
        "outer": [92 - 1, 100, 0, 50],
        "aten::gemm": [3, 8, 50, 50],
        "cudaLaunchKernel": [5, 5, 0, 0],
    }


def test_a_call_that_only_calls_its_like_is_one_call(opened: Callable[..., aiflame.Profile]) -> None:
    profile = opened([event("cpu_op", "aten::sum", 10, 50), event("cpu_op", "aten::sum", 20, 30)])
    row = one(profile.stats("torch.key-averages").filter(name="aten::sum"))
    assert (row["calls"], row["cpu_ns"], row["self_cpu_ns"]) == (1, 50 * US, 50 * US)


def test_collectives(opened: Callable[..., aiflame.Profile]) -> None:
    names: dict[str, Any] = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 250_000, "Group size": 4}
    call = event("cpu_op", "record_param_comms", 5, 50, **names)
    row = one(opened([call], launched("ncclDevKernel_AllReduce", 10, 100, 100, 1)).stats("tracelens.coll-analysis"))
    assert (row["collective"], row["ranks"], row["bytes"], row["total_ns"]) == ("allreduce", 4, 1_000_000, 100 * US)
    assert (row["algorithm_gb_s"], row["bus_gb_s"]) == (pytest.approx(10), pytest.approx(15))


def test_ops_that_launched(opened: Callable[..., aiflame.Profile]) -> None:
    profile = opened(*mixed())
    rows = {row["op"]: row["total_ns"] // US for row in profile.stats("tracelens.ops-summary").to_dicts()}
    assert rows == {"aten::gemm": 70, "aten::ncclDevKernel_AllReduce": 50, "[no op]": 20}  # a copy and a fill
    rows = {row["category"]: (row["kernels"], row["ops"]) for row in profile.stats("tracelens.ops-summary-by-category").to_dicts()}
    assert rows == {"gemm": (2, 1), "collective": (1, 1), "copy": (2, 1)}
    assert profile.stats("tracelens.kernel-launchers")["kernel"].to_list() == [
        "gemm",
        "ncclDevKernel_AllReduce",
        "[copy host→device]",
        "[fill]",
    ]


def test_work_of_the_backward_pass_is_in_the_op_that_launched_it(opened: Callable[..., aiflame.Profile]) -> None:
    """`aten::mm` in the node of `aten::linear`: TraceLens and torch name the work after the call, `aiflame top` after `aten::linear`."""
    forward = [event("cpu_op", "aten::linear", 10, 20, **{"Sequence number": 5, "Fwd thread id": 0})]
    node = "autograd::engine::evaluate_function: LinearBackward0"
    backward = [event("cpu_op", node, 100, 40, tid=2, **{"Sequence number": 5, "Fwd thread id": 1})]
    profile = opened(
        forward, backward, [one | {"tid": 2} for one in launched("mm", 110, 200, 30, 1)[:2]], launched("mm", 110, 200, 30, 1)[2:]
    )
    assert profile.stats("tracelens.ops-summary")["op"].to_list() == ["aten::mm"]


def test_an_unknown_report_is_an_error(opened: Callable[..., aiflame.Profile]) -> None:
    with pytest.raises(AiflameError, match="there is no report 'nothing'"):
        opened(*mixed()).stats("nothing")

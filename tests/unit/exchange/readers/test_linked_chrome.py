"""Chrome JSON of Intel's unitrace and of Proton: an arrow leads from each launch to its kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aiflame
from aiflame.exchange.readers.door import imported
from aiflame.profile.schema.enums import CallBackend, CopyKind, GpuApi

EPOCH = 1_700_000_000_000_000
HOST, DEVICE, LANE = 4711, 4294967295, 4294967294


def launched(number: int, call: str, at: float, name: str, begin: float, took: float) -> list[dict[str, Any]]:
    """As unitrace's chromelogger.h writes a call, its kernel, and the arrow between them."""
    arrow = {"name": "dep", "cat": f"Flow_H2D_{number}_0", "id": number}
    return [
        {"ph": "X", "tid": HOST, "pid": HOST, "name": call, "cat": "cpu_op", "ts": EPOCH + at, "dur": 5.25},
        {"ph": "s", "tid": HOST, "pid": HOST, **arrow, "ts": EPOCH + at},
        {
            "ph": "X",
            "tid": LANE,
            "pid": DEVICE,
            "name": name,
            "cat": "gpu_op",
            "ts": EPOCH + begin,
            "dur": took,
            "args": {"id": str(number)},
        },
        {"ph": "t", "tid": LANE, "pid": DEVICE, **arrow, "ts": EPOCH + begin},
        {"ph": "s", "tid": LANE, "pid": DEVICE, "name": "dep", "cat": f"Flow_D2H_{number}_0", "id": number, "ts": EPOCH + begin},
    ]


UNITRACE = [
    {"ph": "M", "name": "process_name", "pid": HOST, "ts": EPOCH, "args": {"name": "HOST<node1>"}},
    {"ph": "M", "name": "process_name", "pid": DEVICE, "args": {"name": "DEVICE<node1>[Intel(R) Data Center GPU Max 1550] 0:3a:0:0 #2"}},
    {"ph": "X", "tid": HOST, "pid": HOST, "name": "forward", "cat": "cpu_op", "ts": EPOCH, "dur": 100.5},
    *launched(1, "zeCommandListAppendLaunchKernel", 10, "gemm_kernel<float>[SIMD32 {64; 2; 1} {256; 1; 1}]", 50, 30.125),
    *launched(2, "zeCommandListAppendMemoryCopy", 20, "zeCommandListAppendMemoryCopy(D2M)[4096]", 90, 8),
    *launched(3, "zeCommandListAppendMemoryFill", 30, "zeCommandListAppendMemoryFill[64]", 100, 1),
    {"ph": "X", "tid": LANE, "pid": DEVICE, "name": "lone[SIMD16 {1; 1; 1} {8; 1; 1}]", "cat": "gpu_op", "ts": EPOCH + 110, "dur": 2},
    {"ph": "X", "tid": HOST, "pid": HOST, "name": "zeEventHostSynchronize", "cat": "cpu_op", "ts": EPOCH + 40, "dur": 60},
]
PROTON = [
    {"ph": "M", "pid": 0, "tid": 1, "name": "thread_name", "args": {"name": "CPU Thread 99"}},
    {"ph": "M", "pid": 0, "tid": 500, "name": "thread_name", "args": {"name": "Graph: Stream 7"}},
    {"ph": "M", "pid": 0, "tid": 1007, "name": "thread_name", "args": {"name": "GPU Stream 7"}},
    {"name": "step", "cat": "scope", "ph": "X", "pid": 0, "ts": 0.0, "dur": 100.0, "tid": 1, "args": {"call_stack": ["step"]}},
    {"name": "add_kernel", "cat": "scope", "ph": "X", "pid": 0, "ts": 10.0, "dur": 5.0, "tid": 1},
    {"name": "in graph", "cat": "scope", "ph": "X", "pid": 0, "ts": 40.0, "dur": 5.0, "tid": 500},
    {"name": "launch->kernel", "cat": "flow", "ph": "s", "pid": 0, "tid": 1, "ts": 10.0, "id": 5, "bp": "e"},
    {"name": "launch->kernel", "cat": "flow", "ph": "f", "pid": 0, "tid": 1007, "ts": 40.5, "id": 5, "bp": "e"},
    {"name": "add_kernel", "cat": "kernel", "ph": "X", "pid": 0, "ts": 40.5, "dur": 12.0, "tid": 1007},
]


def opened(tmp_path: Path, events: list[dict[str, Any]]) -> aiflame.Profile:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": events}))
    return aiflame.open(file)


def stack(profile: aiflame.Profile, row: int) -> list[str]:
    names = dict(profile.table("named_frames").select("id", "name").rows())
    above = {number: (parent, frame) for number, parent, frame in profile.table("stacks").select("id", "parent", "frame").rows()}
    callers: list[str] = []
    while row:
        row, frame = above[row]
        callers.insert(0, names[frame & 0xFFFFFFFF])
    return callers


def test_unitrace_has_kernels_below_the_calls_that_launched_them(tmp_path: Path) -> None:
    profile = opened(tmp_path, UNITRACE)
    shape = profile.table("kernel_shapes").row(0, named=True)
    assert (shape["name"], shape["device"]) == ("gemm_kernel<float>", "Intel(R) Data Center GPU Max 1550 [2]")
    assert shape["api"] == GpuApi.LEVEL_ZERO
    assert [shape[name] for name in ("grid_x", "grid_y", "block_x")] == [64, 2, 256]
    assert profile.table("gpu_devices")["address"].to_list() == ["0:3a:0:0"]
    joined = profile.table("kernels").join(profile.table("launches"), on=["process", "correlation"])
    assert (joined["end_ns"] - joined["start_ns"]).to_list() == [30_125]
    assert stack(profile, joined["stack"][0]) == ["forward", "zeCommandListAppendLaunchKernel"]
    assert profile.table("processes")["pid"].to_list() == [HOST], "a device is no process"
    copies = profile.table("copies").sort("start_ns").select("kind", "bytes").rows()
    assert copies == [(CopyKind.DEVICE_TO_HOST, 4096), (CopyKind.FILL, 64)]
    assert "1 of 4 kernels and copies" in " ".join(profile.meta.degraded)


def test_calls_of_level_zero_are_calls_and_waits_wait(tmp_path: Path) -> None:
    profile = opened(tmp_path, UNITRACE)
    names = profile.table("call_names")
    assert set(names["backend"]) == {CallBackend.LEVEL_ZERO}
    assert "forward" not in names["name"].to_list()
    waiting = profile.table("cpu_samples").filter(pl.col("state") == 1)
    assert waiting["period_ns"].to_list() == [60_000]
    assert profile.meta.started.realtime_ns == EPOCH * 1000


def test_proton_has_kernels_below_its_scopes(tmp_path: Path) -> None:
    profile = opened(tmp_path, PROTON)
    joined = profile.table("kernels").join(profile.table("launches"), on=["process", "correlation"])
    assert joined.select("start_ns", "stream").rows() == [(1_000_040_500, 7)]
    assert stack(profile, joined["stack"][0]) == ["step", "add_kernel"]
    assert profile.meta.imported is not None
    assert profile.meta.imported.unused["scopes on devices"] == 1
    assert profile.table("threads")["name"].to_list() == ["CPU Thread 99"]


@pytest.mark.parametrize("without", range(len(UNITRACE)))
def test_a_trace_without_an_event_is_a_profile(without: int, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": UNITRACE[:without] + UNITRACE[without + 1 :]}))
    assert imported(file).has_file("meta.json")

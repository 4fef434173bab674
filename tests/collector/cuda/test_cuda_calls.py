"""Traced calls of CUDA, on the fake driver and the fake CUPTI: `--trace cuda`."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import polars as pl
import pytest
from cuda_scenes import FAKES, Scene, joined, leaf, needs_fakes
from live import EVERYTHING, Process

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import CallBackend, CallKind
from built import BUILT

pytestmark = needs_fakes

TRACED = EVERYTHING & ~Feature.TRACE_STACKS
UNTRACED = EVERYTHING & ~Feature.TRACE_CUDA
OUT_OF_MEMORY, NOT_READY = 2, 600
CALLED = {
    "cuDevicePrimaryCtxRetain": 1,
    "cuModuleLoadData": 1,
    "cudaMalloc": 2,
    "cudaMemcpyAsync": 5,
    "cudaLaunchKernel": 7,
    "cuLaunchKernel": 4,
    "cuMemsetD8Async": 1,
    "cudaGetDevice": 4,
    "cudaDeviceSynchronize": 1,
    "cudaStreamQuery": 1,
    "cudaGetLastError": 2,
    "cuNewerThanTheHeaders": 1,
    "cudaNewerThanTheHeaders": 1,
}
"""By the scene `calls`. The runtime's calls of the driver, and aiflame's, are no calls of the program."""


def traced(process: Process) -> pl.DataFrame:
    names = process.table("call_names").filter(pl.col("backend") == int(CallBackend.CUDA)).select(pl.col("id").alias("name"), called="name")
    return process.table("calls").join(names, on="name", how="inner").sort("begin_ns")


def of(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    return rows.filter(pl.col("called") == name)


def test_every_call_of_the_programs_is_a_row_and_none_that_it_leads_to(scene: Scene) -> None:
    rows = traced(scene("calls", features=TRACED).process)
    assert Counter(rows["called"]) == CALLED
    assert (rows["begin_ns"] <= rows["end_ns"]).all()
    assert (rows["end_ns"][:-1] <= rows["begin_ns"][1:]).all(), "one after another: none is inside of another"
    assert rows["thread"].n_unique() == 1
    assert set(rows["kind"]) == {int(CallKind.BLOCKING)}


@pytest.mark.parametrize("env", [{}, {"LOADED_FIRST": str(FAKES / "cupti12" / "libcupti.so.12")}], ids=["CUPTI 13", "CUPTI 12"])
def test_bytes_are_those_of_the_parameters(scene: Scene, env: dict[str, str]) -> None:
    rows = traced(scene("calls", features=TRACED, env=env).process)
    assert of(rows, "cudaMalloc")["bytes"].to_list() == [4096, 1 << 50]
    assert of(rows, "cudaMemcpyAsync")["bytes"].to_list() == [0, 100, 200, 300, 400]
    assert of(rows, "cuMemsetD8Async")["bytes"].to_list() == [300]
    assert of(rows, "cudaLaunchKernel")["bytes"].sum() == 0


def test_bytes_of_every_kind_of_parameters() -> None:
    printed = subprocess.run([str(BUILT / "cuda_call_bytes")], capture_output=True, text=True, check=True).stdout
    assert {name: int(size) for name, size in map(str.split, printed.splitlines())} == {
        "cuMemcpyDtoH_v2": 100,
        "cuMemcpyPeerAsync": 200,
        "cuMemcpyAtoA_v2": 300,
        "cuMemsetD32_v2": 4 * 100,
        "cuMemsetD2D16_v2": 2 * 10 * 4,
        "cuMemcpy2D_v2": 10 * 4,
        "cuMemcpy3DAsync_v2": 10 * 4 * 5,
        "cuMemcpy3DPeer": 10 * 4 * 6,
        "cuMemcpy2D_v2,failed": 0,
        "cudaMallocPitch_v3020": 10 * 4,
        "cudaMalloc3D_v3020": 10 * 4 * 7,
        "cudaMemcpy2DAsync_v3020": 10 * 4,
        "cudaMemset3D_v3020": 10 * 4 * 8,
        "cudaFree_v3020": 0,
    }


def test_failed_calls_differ_from_calls_that_report_another_failure(scene: Scene) -> None:
    rows = traced(scene("calls", features=TRACED).process)
    assert rows.filter(pl.col("failed") != 0).select("called", "result").rows() == [("cudaMalloc", OUT_OF_MEMORY)]
    assert of(rows, "cudaStreamQuery")["result"].to_list() == [NOT_READY]
    assert of(rows, "cudaGetLastError")["result"].to_list() == [OUT_OF_MEMORY, 0]


def test_launches_are_those_that_are_recorded_without_tracing(scene: Scene) -> None:
    """One through the runtime is one launch, with its kernel."""
    runs = [scene("calls", features=features).process for features in (UNTRACED, TRACED)]
    assert [Counter(joined(process, "kernels")["launched"]) for process in runs] == [{"launched_here": 7, "calls": 4}] * 2
    assert runs[0].table("launches").height == runs[1].table("launches").height


def test_a_launch_has_the_stack_of_its_launch_and_no_other(scene: Scene) -> None:
    process = scene("calls", features=TRACED).process
    rows = traced(process)
    launched = of(rows, "cudaLaunchKernel")
    assert set(launched["stack"]) <= set(process.table("launches")["stack"])
    assert {leaf(process, stack) for stack in launched["stack"]} == {"launched_here"}
    assert set(of(rows, "cudaGetDevice")["stack"]) == {0}


def test_every_call_has_a_stack_where_stacks_are_asked_for(scene: Scene) -> None:
    process = scene("calls", features=EVERYTHING).process
    rows = traced(process)
    assert Counter(rows["called"]) == CALLED
    assert {leaf(process, stack) for stack in of(rows, "cudaGetDevice")["stack"]} == {"calls"}
    assert {leaf(process, stack) for stack in of(rows, "cudaLaunchKernel")["stack"]} == {"launched_here"}


def test_calls_belong_to_their_threads(scene: Scene) -> None:
    rows = traced(scene("threads", features=TRACED).process)
    assert of(rows, "cuLaunchKernel").group_by("thread").len()["len"].to_list() == [50] * 4


def test_calls_are_traced_again_when_another_tool_has_left(scene: Scene) -> None:
    rows = traced(scene("shared", features=TRACED, env={"TOOL": str(FAKES / "tools" / "libtorch_tool.so")}).process)
    assert of(rows, "cuLaunchKernel").height == 30, "and not those meanwhile"


def test_cupti_reports_only_requested_calls(scene: Scene) -> None:
    recorded = scene("untraced", features=UNTRACED)
    assert json.loads(recorded.outcome.stdout) == 0
    assert traced(recorded.process).is_empty()

"""Traced calls of CUDA on a real driver: as many as the program says that it made, and none that they lead to."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import polars as pl
import pytest
from gpu_runs import GpuRun, Recorder

from aiflame.profile.schema.enums import CallBackend

OUT_OF_MEMORY = 2
BYTES, TOO_MUCH = 1 << 20, 1 << 45
DIRECT = 5
"""Launches by the driver's own function."""


@pytest.fixture
def run(record: Recorder) -> GpuRun:
    run = record("calls.py", options=("--trace", "cuda"))
    assert run.result.status == 0, run.run.stderr
    return run


def counts_of(run: GpuRun) -> dict[str, Any]:
    counts: dict[str, Any] = json.loads(run.result.stdout)
    return counts


def calls(run: GpuRun) -> pl.DataFrame:
    names = run.profile.table("call_names").filter(pl.col("backend") == int(CallBackend.CUDA))
    return run.profile.table("calls").join(names.select("process", called="name", name="id"), on=["process", "name"], how="inner")


def test_calls_of_the_runtime_are_those_of_the_program(run: GpuRun) -> None:
    rows = calls(run).filter(pl.col("called").str.starts_with("cuda"))
    assert Counter(rows["called"]) == counts_of(run)["called"]
    assert counts_of(run)["failed"] == 0
    assert rows["thread"].n_unique() == 1


def test_calls_of_the_driver_are_those_that_the_runtime_did_not_make(run: GpuRun) -> None:
    counted = Counter(calls(run)["called"])
    assert {name: counted[name] for name in ("cuLaunchKernel", "cuModuleGetFunction", "cuStreamSynchronize")} == {
        "cuLaunchKernel": DIRECT,
        "cuModuleGetFunction": DIRECT,
        "cuStreamSynchronize": 1,
    }


def test_a_call_that_failed_says_so(run: GpuRun) -> None:
    rows = calls(run).filter(pl.col("called").str.starts_with("cuda")).sort("begin_ns")
    assert counts_of(run)["refused"] == [OUT_OF_MEMORY, OUT_OF_MEMORY, 0]
    failed = rows.filter(pl.col("failed") != 0)
    assert failed.select("called", "result", "bytes").rows() == [("cudaMalloc", OUT_OF_MEMORY, TOO_MUCH)]
    assert rows.filter(pl.col("called") == "cudaGetLastError")["result"].to_list() == [OUT_OF_MEMORY, 0]


def test_calls_have_their_bytes(run: GpuRun) -> None:
    bytes_of = dict(calls(run).group_by("called").agg(pl.col("bytes").sum()).rows())
    called = counts_of(run)["called"]
    assert bytes_of["cudaMemcpyAsync"] == called["cudaMemcpyAsync"] * BYTES
    assert bytes_of["cudaMemsetAsync"] == called["cudaMemsetAsync"] * BYTES // 2
    assert bytes_of["cudaLaunchKernel"] == bytes_of["cudaGetDevice"] == 0


def test_each_kernel_has_one_launch(run: GpuRun) -> None:
    kernels = run.kernels()
    assert len(kernels) == counts_of(run)["called"]["cudaLaunchKernel"] + DIRECT
    launches = run.profile.table("launches").select("process", "correlation", "stack")
    joined = kernels.select("process", "correlation").join(launches, on=["process", "correlation"], how="inner")
    assert len(joined) == len(kernels)
    assert (joined["stack"] > 0).all()


def test_nothing_is_traced_by_default(record: Recorder) -> None:
    run = record("calls.py")
    assert run.result.status == 0, run.run.stderr
    assert calls(run).is_empty()
    assert len(run.kernels()) == counts_of(run)["called"]["cudaLaunchKernel"] + DIRECT

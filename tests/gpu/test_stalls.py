"""Kernels built to wait for one thing show that first; samples lead to lines of the kernel's source and to instructions."""

from __future__ import annotations

import polars as pl
import pytest
from gpu_runs import PROGRAMS, GpuRun, Recorder

REASON = {
    "wait_for_memory": "long_scoreboard",
    "wait_at_barrier": "barrier",
    "wait_for_result": "wait",
    "wait_for_pipe": "math_pipe_throttle",
}


@pytest.fixture
def stalls(record: Recorder) -> GpuRun:
    run = record("stalls.py", "0.7")
    assert run.result.status == 0, run.run.stderr
    return run


@pytest.mark.parametrize("kernel", REASON)
def test_a_kernel_that_waits_for_one_thing_shows_it_first(stalls: GpuRun, kernel: str) -> None:
    # A warp that was not selected was ready: another one issued.
    waits = stalls.samples().filter((pl.col("kernel") == kernel) & ~pl.col("reason").is_in(["selected", "not_selected"]))
    reasons = waits.group_by("reason").agg(pl.col("count").sum()).sort("count", descending=True)
    assert reasons["count"].sum() > 200
    assert reasons["reason"][0] == REASON[kernel]


def test_samples_lead_to_source_lines_and_instructions(stalls: GpuRun) -> None:
    samples = stalls.samples()
    key = ["cubin", "function", "offset"]
    places = samples.select("cubin", "offset", "count", function="kernel")
    lines = stalls.profile.table("gpu_lines").filter((pl.col("line") > 0) & pl.col("file").str.ends_with("kernels.cu"))
    instructions = stalls.profile.table("gpu_instructions").filter(pl.col("sass") != "")
    total = places["count"].sum()
    assert places.join(lines.select(key).unique(), on=key, how="semi")["count"].sum() >= 0.99 * total
    assert places.join(instructions.select(key).unique(), on=key, how="semi")["count"].sum() >= 0.99 * total


def test_samples_of_the_barrier_kernel_lie_at_the_barrier(stalls: GpuRun) -> None:
    """Or they lie at the instruction after it: the counter of a warp that waits at a barrier has gone on."""
    key = ["cubin", "function", "offset"]
    instructions = stalls.profile.table("gpu_instructions").sort(key)
    instructions = instructions.with_columns(before=pl.col("sass").shift(1, fill_value="").over("cubin", "function"))
    waits = stalls.samples().filter((pl.col("kernel") == "wait_at_barrier") & (pl.col("reason") == "barrier"))
    placed = waits.select("cubin", "offset", "count", function="kernel").join(instructions, on=key)
    at_barrier = placed.filter(pl.any_horizontal(pl.col("sass", "before").str.contains("BAR")))["count"].sum()
    assert at_barrier >= 0.9 * waits["count"].sum()


def test_each_sample_is_counted_under_one_reason(stalls: GpuRun) -> None:
    """And once more under that reason's twin, `..._not_issued`, where nothing was issued: samples() leaves those out."""
    windows = stalls.profile.table("gpu_windows")
    assert stalls.samples()["count"].sum() == windows["samples"].sum() - windows["dropped"].sum() - windows["foreign"].sum()


def test_the_source_is_kept(stalls: GpuRun) -> None:
    sources = stalls.profile.table("sources")
    kept = dict(zip(sources["path"].to_list(), sources["text"].to_list(), strict=True))
    path = PROGRAMS / "kernels.cu"
    assert kept[str(path)] == path.read_text()


def test_hardly_a_sample_is_unattributed(stalls: GpuRun) -> None:
    assert stalls.unattributed("gpu-stalls") <= 0.02


def test_without_sampling_there_is_time_and_no_sample(record: Recorder) -> None:
    run = record("endings.py", "usual", options=("--gpu-sampling", "off"))
    assert run.result.stdout == "done\n"
    assert len(run.kernels()) == 100
    assert run.profile.table("gpu_samples").is_empty()

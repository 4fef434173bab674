"""Records inside Triton kernels, on a real GPU: they come out, and the program behaves as without them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable

import polars as pl
import pytest
from gpu_runs import GpuRun, Recorder, Result

from aiflame.analyze.intra.kernels import intra
from aiflame.profile.schema.kinds import Kind

pytestmark = [
    pytest.mark.usefixtures("torch"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton"),
]
LAUNCHES = 20
TAKEN = {1, 2, 4, 8, 16}


def recorded(record: Recorder, what: str, spec: str, launches: int = LAUNCHES) -> GpuRun:
    return record("intra_program.py", what, launches, options=("--intra", spec), timeout=200)


def captured(run: GpuRun) -> list[tuple[str, set[int]]]:
    """Each kernel that was instrumented, with the numbers of its launches that were taken."""
    kernels, launches = (run.profile.table(f"intra_{name}") for name in ("kernels", "launches"))
    assert launches["bad_ctas"].sum() == 0
    numbers = {key: set(rows["number"]) for key, rows in launches.partition_by("process", "kernel", as_dict=True).items()}
    return [(row["name"], numbers.get((row["process"], row["kernel"]), set())) for row in kernels.iter_rows(named=True)]


def printed(result: Result) -> str:
    assert result.status == 0, result.stdout
    return str(json.loads(result.stdout.splitlines()[-1])["digest"])


@pytest.mark.parametrize("spec", ["auto", "loads,mma", "pipeline,regions"])
def test_launches_are_timed_inside_and_results_stay_equal(record: Recorder, alone: Callable[..., Result], spec: str) -> None:
    run = recorded(record, "plain", spec)
    assert printed(run.result) == printed(alone("intra_program.py", "plain", LAUNCHES))
    captures = captured(run)
    assert {name for name, _ in captures} >= {"gemm"}
    assert all(numbers == TAKEN for _, numbers in captures), captures


def test_an_autotuner_measures_kernels_as_they_are(record: Recorder, alone: Callable[..., Result]) -> None:
    """Launches of an autotuner's are neither taken nor counted: those that are taken are the program's own."""
    run = recorded(record, "tuned", "auto")
    assert printed(run.result) == printed(alone("intra_program.py", "tuned", LAUNCHES))
    (kernel,) = captured(run)
    assert kernel[1] == TAKEN


def test_a_captured_graph_has_the_kernel_as_it_is(record: Recorder, alone: Callable[..., Result]) -> None:
    run = recorded(record, "graph", "auto")
    assert printed(run.result) == printed(alone("intra_program.py", "graph", LAUNCHES))
    (kernel,) = captured(run)
    assert kernel[1] == {1, 2}, "launch 4 and 8 were captured"


def test_kernels_of_inductor(record: Recorder, alone: Callable[..., Result]) -> None:
    run = recorded(record, "compiled", "auto")
    assert printed(run.result) == printed(alone("intra_program.py", "compiled", LAUNCHES))
    assert any(name.startswith("triton_") for name, _ in captured(run)), run.run.stderr


def test_only_kernels_that_are_named_are_timed(record: Recorder) -> None:
    assert {name for name, _ in captured(recorded(record, "plain", "regions:^soft"))} == {"softmax"}


@pytest.mark.parametrize(("program", "kernel", "grid"), [("million", "softmax", 1 << 20), ("millions", "counts", 1 << 25)])
def test_of_millions_of_ctas_the_last_are_recorded(
    record: Recorder, alone: Callable[..., Result], program: str, kernel: str, grid: int
) -> None:
    """They go round in a quarter of the memory that there is for records."""
    run = record("intra_program.py", program, LAUNCHES, options=("--intra", f"auto:^{kernel}$", "--intra-memory", "32M"), timeout=200)
    assert printed(run.result) == printed(alone("intra_program.py", program, LAUNCHES))
    ((_, numbers),) = captured(run)
    assert numbers == TAKEN
    launches = run.profile.table("intra_launches")
    assert (launches["grid"] == grid).all()
    assert launches["ctas"].is_between(10_000, (8 << 20) // 128).all(), launches["ctas"].to_list()
    ctas = run.profile.table("intra_ctas").group_by("launch").agg(last=pl.col("cta").max(), first=pl.col("cta").min())
    assert (ctas["last"] == grid - 1).all()
    assert (ctas["first"] > grid - 2 * (8 << 20) // 128).all(), "none from long ago"
    scopes = run.profile.table("intra_scopes").height
    assert (launches["records"] == 2 * scopes * launches["ctas"]).all() and (launches["unpaired"] == 0).all()


def test_what_was_recorded_is_told(record: Recorder) -> None:
    """Launches are found among the device's records, scopes make up their CTAs, and the flame graph has them inside their kernel."""
    run = recorded(record, "plain", "auto")
    launches = run.profile.table("intra_launches")
    assert (launches["end_ns"] > launches["start_ns"]).all(), "each launch is a kernel that ran"
    kernel = next(one for one in intra(run.profile.store) if one.name == "gemm")
    assert kernel.in_scopes == pytest.approx(1, abs=0.03)
    assert kernel.changes.plain_launches == LAUNCHES - len(TAKEN)
    tree = run.tree("gpu-time")
    assert (tree.kinds() == Kind.GPU_SCOPE).any()
    assert tree.total("gpu-time") >= int((launches["end_ns"] - launches["start_ns"]).sum())


@pytest.mark.parametrize("spec", ["loads,mma:gemm", "auto:gemm"])
def test_without_a_pipeline_the_missing_overlap_is_named_and_its_bound_is_what_the_pipeline_takes(record: Recorder, spec: str) -> None:
    run = recorded(record, "stages", spec)
    slow, fast = sorted(intra(run.profile.store), key=lambda one: -one.changes.took_ns[0])
    assert slow.overlap is not None
    assert slow.findings[0].kind == "no-overlap"
    assert slow.overlap.bound * slow.changes.took_ns[0] == pytest.approx(fast.changes.took_ns[0], rel=0.15)


def test_who_of_the_roles_is_waited_for_is_told(record: Recorder, alone: Callable[..., Result]) -> None:
    if not _is_hopper():
        pytest.skip("roles of another GPU's are compiled otherwise")
    run = recorded(record, "specialized", "auto")
    assert printed(run.result) == printed(alone("intra_program.py", "specialized", LAUNCHES))
    kernel = next(one for one in intra(run.profile.store) if one.name == "gemm_specialized")
    assert {role.name for role in kernel.roles} == {"producer", "consumer", "consumer #2"}
    assert kernel.path is not None
    assert sum(part.share for part in kernel.path.parts) == pytest.approx(1)
    assert kernel.overlap is not None
    assert 0 < kernel.overlap.copies_ns <= kernel.overlap.window_ns


def _is_hopper() -> bool:
    import torch

    return bool(torch.cuda.get_device_capability()[0] == 9)

"""Records inside Triton kernels, on a real GPU: they come out, and the program does what it does without them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_runs import GpuRun, Recorder, Result

from aiflame.intra import captures

pytestmark = [
    pytest.mark.usefixtures("torch"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton"),
]
LAUNCHES = 20
TAKEN = {1, 2, 4, 8, 16}


def recorded(record: Recorder, what: str, spec: str, launches: int = LAUNCHES) -> GpuRun:
    return record("intra_program.py", what, launches, options=("--intra", spec), timeout=200)


def captured(run: GpuRun) -> list[captures.Captures]:
    return [captures.read(file) for file in captures.files(Path(run.profile.store.path))]


def printed(result: Result) -> str:
    assert result.status == 0, result.stdout
    return str(json.loads(result.stdout.splitlines()[-1])["digest"])


@pytest.mark.parametrize("spec", ["auto", "loads,mma", "pipeline,regions"])
def test_launches_are_timed_inside_and_results_stay_equal(record: Recorder, alone: Callable[..., Result], spec: str) -> None:
    run = recorded(record, "plain", spec)
    assert printed(run.result) == printed(alone("intra_program.py", "plain", LAUNCHES))
    (found,) = captured(run)
    assert {kernel.name for kernel in found.kernels.values()} >= {"gemm"}
    for key in found.kernels:
        assert {launch.number for launch in found.launches if launch.key == key} == TAKEN


def test_an_autotuner_measures_kernels_as_they_are(record: Recorder, alone: Callable[..., Result]) -> None:
    """Launches of an autotuner's are neither taken nor counted: those that are taken are the program's own."""
    run = recorded(record, "tuned", "auto")
    assert printed(run.result) == printed(alone("intra_program.py", "tuned", LAUNCHES))
    (found,) = captured(run)
    assert len(found.kernels) == 1
    assert {launch.number for launch in found.launches} == TAKEN


def test_a_captured_graph_has_the_kernel_as_it_is(record: Recorder, alone: Callable[..., Result]) -> None:
    run = recorded(record, "graph", "auto")
    assert printed(run.result) == printed(alone("intra_program.py", "graph", LAUNCHES))
    (found,) = captured(run)
    assert {launch.number for launch in found.launches} == {1, 2}, "launch 4 and 8 were captured"


def test_kernels_of_inductor(record: Recorder, alone: Callable[..., Result]) -> None:
    run = recorded(record, "compiled", "auto")
    assert printed(run.result) == printed(alone("intra_program.py", "compiled", LAUNCHES))
    names = {kernel.name for found in captured(run) for kernel in found.kernels.values()}
    assert any(name.startswith("triton_") for name in names), run.run.stderr


def test_only_kernels_that_are_named_are_timed(record: Recorder) -> None:
    (found,) = captured(recorded(record, "plain", "regions:^soft"))
    assert {kernel.name for kernel in found.kernels.values()} == {"softmax"}

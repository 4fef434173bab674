"""CUDA programs from `aiflame record` to the tree, on a fake driver and a fake CUPTI (see tests/collector/cuda/fake_cuda)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from recording import PROGRAMS, Recorder, Run, time_under, under

from aiflame.attribute.tree import Tree
from built import BUILT

FAKES = BUILT / "fake_cuda"
SOFTMAX = Path(__file__).parents[1] / "unit" / "data" / "softmax.cubin"

pytestmark = pytest.mark.skipif(not (FAKES / "driver").exists(), reason=f"no {FAKES}: `make test` builds it")


@pytest.fixture
def scene(record: Recorder) -> Callable[..., Run]:
    """Records a scene of fake_gpu.py."""

    def run(*scene: str, env: dict[str, str] | None = None) -> Run:
        paths = {"LD_LIBRARY_PATH": f"{FAKES / 'driver'}:{FAKES / 'cupti13'}"}
        recording = record(sys.executable, PROGRAMS / "fake_gpu.py", *scene, options=("--gpu-sampling", "64"), env=paths | (env or {}))
        assert recording.status == 0, recording.stderr
        return recording

    return run


def test_gpu_time_lies_under_the_python_function_that_launched(scene: Callable[..., Run]) -> None:
    tree = scene("split").profile().tree("gpu-time")
    assert time_under(tree, "much", "spin", metric="gpu-time") == 30 * 100_000
    assert time_under(tree, "little", "spin", metric="gpu-time") == 10 * 100_000
    assert time_under(tree, "spin", metric="gpu-time") == 40 * 100_000


def test_samples_are_divided_over_the_launches_of_their_kernel(scene: Callable[..., Run]) -> None:
    tree = scene("split").profile().tree("gpu-stalls")
    much, little = (time_under(tree, name, "spin", metric="gpu-stalls") for name in ("much", "little"))
    assert much == pytest.approx(3 * little, rel=0.03)
    assert time_under(tree, "long_scoreboard", metric="gpu-stalls") > time_under(tree, "selected", metric="gpu-stalls") > 0
    assert time_under(tree, "spin", metric="gpu-stalls") == much + little == int(tree.values["gpu-stalls"].sum())


def test_a_replayed_kernel_lies_over_both_stacks(scene: Callable[..., Run]) -> None:
    tree = scene("graphs").profile().tree("gpu-time")
    assert time_under(tree, "replayed_here", "[graph replay]", "captured_here", "first", metric="gpu-time") == 7 * 10_000
    assert below(tree, "[graph replay]") >= {"replayed_here"}
    assert "captured_here" not in below(tree, "[graph replay]")


def test_stalls_reach_the_source_line_in_the_kernel(scene: Callable[..., Run]) -> None:
    """A real cubin: the tree shows samples of its instructions at the lines that they were compiled from."""
    tree = scene("named", "softmax", env={"CUBIN": str(SOFTMAX)}).profile().tree("gpu-stalls")
    total = time_under(tree, "softmax", metric="gpu-stalls")
    assert total == int(tree.values["gpu-stalls"].sum()) > 0
    lines = {name for name in tree.frames["name"] if name.startswith("softmax.py:")}
    assert lines
    assert sum(time_under(tree, line, metric="gpu-stalls") for line in lines) >= 0.99 * total


def below(tree: Tree, name: str) -> set[str]:
    """Names of the frames on which a frame of that name stands."""
    names, callees = tree.frames["name"].to_list(), set()
    for node in range(1, len(tree)):
        if names[tree.frame[node]] == name and not under(tree, name)[tree.parent[node]]:
            while node:
                node = int(tree.parent[node])
                callees.add(names[tree.frame[node]])
    return callees

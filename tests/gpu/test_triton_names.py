"""Specializations of Triton kernels by their readable names: in the tree and, when asked for, in the binary."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from gpu_runs import GpuRun, Recorder

from aiflame.profile.schema.kinds import Kind

pytestmark = [
    pytest.mark.usefixtures("torch"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton"),
]
NAMES = ["vadd_bs128_w4_s2", "vadd_bs256_w8_s2"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triton")


def launches(run: GpuRun) -> dict[str, int]:
    tree = run.tree("gpu-time")
    kernels = tree.frames.with_row_index("row").filter(kind=int(Kind.GPU_KERNEL)).select("row", "name").rows()
    return {name: int(tree.values["launches"][tree.frame == row].sum()) for row, name in kernels}


def printed(run: GpuRun) -> dict[str, Any]:
    assert run.result.status == 0, run.run.stderr
    output: dict[str, Any] = json.loads(run.result.stdout.splitlines()[-1])
    return output


@pytest.mark.parametrize("label", ["compiled", "from the cache"])
def test_two_specializations_have_their_names(record: Recorder, cache: Path, label: str) -> None:
    run = record("triton_kernels.py", cache, label, timeout=200)
    assert printed(run)["equal"] and printed(run)["entries"] == ["vadd", "vadd"]
    counts = launches(run)
    assert [counts[name] for name in NAMES] == [30, 10 + 5]
    assert "vadd" not in counts


@pytest.mark.parametrize("label", ["compiled", "from the cache"])
def test_the_binary_has_the_names_when_asked_for(record: Recorder, cache: Path, label: str) -> None:
    """Also where the cache has the kernel under its own name."""
    record("triton_kernels.py", cache, "compiled", timeout=200)
    run = record("triton_kernels.py", cache, label, options=("--triton-names",), timeout=200)
    assert printed(run)["equal"] and printed(run)["entries"] == NAMES
    assert [launches(run)[name] for name in NAMES] == [30, 10 + 5]
    assert set(NAMES) <= set(run.profile.table("kernel_shapes")["name"])


def test_autotuning_tries_and_picks_as_it_does_alone(record: Recorder, cache: Path) -> None:
    run = record("triton_kernels.py", cache, "compiled", timeout=200)
    block, warps = printed(run)["best"]
    tried = {name for name in launches(run) if name.startswith("double_")}
    assert {name.rsplit("_s", 1)[0] for name in tried} == {f"double_bs{256 * warps}_w{warps}" for warps in (1, 2, 4, 8)}
    assert any(name.startswith(f"double_bs{block}_w{warps}_") for name in tried)

"""Every preset on every kernel of the suite, compiled for three devices without having one: marks are in, and each becomes a clock read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

PROGRAM = Path(__file__).parents[1] / "builders" / "intra" / "intra_lowered.py"
SOURCE = Path(__file__).parents[3] / "src"
KERNELS = (
    "gemm",
    "gemm_persistent",
    "gemm_specialized",
    "attention",
    "attention_backward",
    "softmax",
    "layer_norm",
    "experts",
    "reduction",
    "rotary",
)
DESCRIPTORS = {"gemm_persistent", "gemm_specialized"}
"""They are compiled for NVIDIA's devices alone."""
WITH_LOOPS = set(KERNELS) - {"softmax", "rotary"}
WITH_DOTS = WITH_LOOPS - {"layer_norm", "reduction"}
TARGETS = ("cuda:90", "cuda:100", "hip:gfx942")


@cache
def lowered(target: str) -> dict[str, dict[str, Any]]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.run(
        [sys.executable, str(PROGRAM), target], capture_output=True, text=True, timeout=500, env=environment, check=False
    )
    assert process.returncode == 0, process.stderr[-2000:]
    rows = [json.loads(line) for line in process.stdout.splitlines()]
    return {row["kernel"]: row for row in rows}


def of(target: str, kernel: str) -> dict[str, Any]:
    if target.startswith("hip") and kernel in DESCRIPTORS:
        pytest.skip("tensor descriptors")
    return lowered(target)[kernel]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_preset_finds_its_scopes(target: str, kernel: str) -> None:
    presets = of(target, kernel)["presets"]
    for preset in ("auto", "loads", "stores", "regions"):
        assert presets[preset] > 0, preset
    assert (presets["mma"] > 0) == (kernel in WITH_DOTS)
    assert (presets["loop"] > 0) == (kernel in WITH_LOOPS)
    assert (presets["roles"] > 0) == (kernel == "gemm_specialized")
    if target.startswith("cuda"):
        assert (presets["pipeline"] > 0) == (kernel in WITH_DOTS)
        assert presets["barriers"] > 0 or kernel not in DESCRIPTORS, "copies by descriptors signal a barrier at their end"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_scope_is_two_clock_reads(target: str, kernel: str) -> None:
    """All presets together. On AMD's devices the compiler itself reads the clock once or twice more."""
    row = of(target, kernel)
    plain, ours = row["clock_reads"]
    assert row["scopes"] == sum(row["presets"].values()) and row["left_out"] == 0
    assert row["ids"] == list(range(row["scopes"]))
    if target.startswith("cuda"):
        assert (plain, ours) == (0, 2 * row["scopes"])
    else:
        assert plain == 0 and 2 * row["scopes"] <= ours


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("kernel", KERNELS[:-1])
def test_each_record_is_one_store(target: str, kernel: str) -> None:
    """Where a block has several warps: records of one warp alone are not aligned to eight bytes, and take two."""
    row = of(target, kernel)
    assert row["stores"] == [0, 2 * row["scopes"]]
    assert row["scratch"] % 128 == 0


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("kernel", KERNELS)
def test_records_in_shared_memory_use_spare_memory_and_are_written_late(target: str, kernel: str) -> None:
    row = of(target, kernel)["in_shared_memory"]
    assert (row["shared"], row["stores"]) == (True, 0)
    assert row["bytes"] <= 8192 and row["bytes"] + 40 <= row["scratch"]


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_scope_begins_and_ends_with_a_clock_that_is_read_for_it(target: str, kernel: str) -> None:
    """The compiler may double a loop's body with the marks in it, not lose one."""
    row = of(target, kernel)["in_shared_memory"]
    assert len(row["ids"]) > 0
    assert row["records"] == [[scope, end] for scope in row["ids"] for end in (0, 1)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", ["layer_norm", "reduction", "softmax", "rotary"])
def test_loads_whose_values_stay_in_registers_are_waited_for(target: str, kernel: str) -> None:
    """NVIDIA's assembler moves arithmetic across clock reads, and nothing across an event of the performance monitor."""
    assert (of(target, kernel)["waits_for_values"] > 0) == target.startswith("cuda")


@pytest.mark.parametrize("kernel", KERNELS)
def test_auto_chooses_few(kernel: str) -> None:
    assert of("cuda:90", kernel)["presets"]["auto"] <= 12

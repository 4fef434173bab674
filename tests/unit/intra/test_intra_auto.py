"""The scopes that `auto` chooses in the suite's kernels, compiled for three devices: few records show what the warps wait for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("triton")

PROGRAM = Path(__file__).parents[1] / "builders" / "intra" / "intra_chosen.py"
SOURCE = Path(__file__).parents[3] / "src"
IN_LOOPS = {
    "gemm": ["wait copies a, b", "wait dot sums"],
    "gemm-1": ["load a, b", "dot sums"],
    "gemm_persistent": ["wait copies a, b", "wait dot sums"],
    "gemm_persistent-1": ["copy a", "copy b", "dot sums"],
    "gemm_specialized": ["wait for room a", "issue copies", "wait for room b", "wait copies", "wait copies"],
    "attention": ["wait copies k, v", "dot scores"],
    "attention-1": ["load k", "dot scores", "load v"],
    "attention_backward": ["wait copies q, do, lse, delta", "dot p", "dot ds"],
    "layer_norm": ["load x", "load x, w, b"],
    "experts": ["wait copies x, w", "wait dot sums"],
    "reduction": ["load sums"],
    "softmax": [],
    "rotary": [],
}
"""On an H100: of each kernel, and of those that are compiled with one stage."""


@cache
def chosen(target: str) -> dict[str, list[tuple[str, str, str, bool, int]]]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, str(PROGRAM), target, "auto"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    rows = [json.loads(line) for line in process.stdout.splitlines()]
    return {row["kernel"]: [tuple(scope) for scope in row["scopes"]] for row in rows}


@pytest.mark.parametrize("kernel", IN_LOOPS)
def test_in_loops_it_times_arrivals_and_multiplications(kernel: str) -> None:
    assert [name for name, _, _, in_loop, _ in chosen("cuda:90")[kernel] if in_loop] == IN_LOOPS[kernel]


def test_each_kernel_of_the_suite_was_looked_at() -> None:
    assert set(chosen("cuda:90")) == set(IN_LOOPS)


@pytest.mark.parametrize("target", ["cuda:90", "cuda:100", "hip:gfx942"])
def test_a_load_is_never_timed_by_its_issue_alone(target: str) -> None:
    """A kernel in roles is different: other warps wait for the loads that one warp issues."""
    for kernel, scopes in chosen(target).items():
        waited = any(kind == "wait" for _, kind, *_ in scopes)
        assert waited, kernel
        if kernel != "gemm_specialized":
            issued = {name.removeprefix("issue ") for name, kind, *_ in scopes if kind == "load"}
            assert issued <= {name.removeprefix("wait ") for name, kind, *_ in scopes if kind == "wait"}, kernel


def test_without_loops_loads_are_one_scope() -> None:
    """Code inlined from Triton's library is named by its purpose."""
    assert [name for name, *_ in chosen("cuda:90")["rotary"]] == ["kernel", "load cos, sin, first, second"]
    assert [name for name, *_ in chosen("cuda:90")["softmax"]] == ["kernel", "load x", "reduce e"]


def test_code_that_only_computes_indices_is_no_part() -> None:
    names = {name for name, *_ in chosen("cuda:90")["gemm-1"]}
    assert "prologue" not in names
    assert {"kernel", "loop at 25", "epilogue"} <= names
    assert "prologue" in {name for name, *_ in chosen("cuda:90")["gemm"]}, "there the first copies are made"


def test_roles_are_named_by_their_work() -> None:
    roles = [name for name, kind, *_ in chosen("cuda:90")["gemm_specialized"] if kind == "role"]
    assert roles == ["producer", "consumer", "consumer"]


def test_where_values_stay_in_registers_the_end_waits_for_them() -> None:
    """The assembler keeps memory accesses on their side of a mark, but not arithmetic."""
    needs = {kernel: [count for _, kind, _, _, count in scopes if kind == "wait"] for kernel, scopes in chosen("cuda:90").items()}
    assert needs["layer_norm"] == [1, 3]
    assert needs["rotary"] == [4]
    assert needs["gemm-1"] == [0, 0]


def test_each_register_that_a_load_fills_is_asked_for_whatever_its_type() -> None:
    """2048 values are 16 of each thread: one question for each 16 bytes."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, str(PROGRAM.with_name("intra_values.py"))]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    answer = json.loads(process.stdout)
    assert {name: answer[name] for name in ("i8", "fp16", "bf16", "i16", "fp32", "i32", "fp64", "i64")} == {
        "i8": 1, "fp16": 2, "bf16": 2, "i16": 2, "fp32": 4, "i32": 4, "fp64": 8, "i64": 8,
    }  # fmt: skip
    assert answer["*fp32"] >= 8, "a pointer that was loaded"

"""Scopes as frames inside their kernel: its real time divided as its recorded launches divided theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from device_work import LONG, REASONS, UNDER, kernel, lines, sample, window
from facts_trees import stacks_of_facts, stacks_of_tree
from intra_captures import Cta, Kernel, Record, scope, spans
from intra_kernels import BEGIN_NS, profile_of
from profiles import stack
from small_program import CODES, MAIN, PROCESSES, PYMAIN, SYMBOLS, THREADS, WORK

from aiflame.attribute.devices.scopes import SCOPED
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.tree import Tree
from aiflame.attribute.trees.build import tree
from aiflame.profile.tables.store import Profile

LOOP, DOT, COPY = range(3)
KERNEL = Kernel("gemm", [scope(LOOP, "loop"), scope(DOT, "dot", "mma"), scope(COPY, "copy in flight")], warps=1)


def _records(at: int) -> list[Record]:
    return spans((LOOP, at, at + 16_000), (DOT, at + 2000, at + 6000), (COPY, at + 4000, at + 20_000))


CAPTURED = KERNEL.frame() + KERNEL.launch(
    *(
        Cta(number, begin=BEGIN_NS + at, end=BEGIN_NS + at + 10_000, warps={0: _records(2 * at)})
        for number, at in enumerate((0, 20_000, 40_000))
    ),
    begin_ns=1,
)
"""The loop has 8 of a CTA's 10 µs (2 of them the dot's), and 2 lie in no scope; a copy goes on beside it."""


def profile(path: Path, *frames: bytes, **tables: Any) -> Profile:
    shared = {
        "processes": PROCESSES, "threads": THREADS, "symbols": SYMBOLS, "codes": CODES, "stacks": stack(MAIN, PYMAIN, WORK),
        "launches": [{"thread": 1, "stack": number, "api": 2, "correlation": number} for number in (1, 2, 3)],
        "stall_reasons": REASONS,
    }  # fmt: skip
    return profile_of(path / "p.aiflame", *frames, pid=PROCESSES[0]["pid"], **{**shared, **tables})


def under(of: Tree) -> dict[str, int]:
    """Times by path, without the frames down to the launch."""
    return {path.removeprefix(f"{UNDER};-;"): value for path, value in lines(of, "gpu-time").items()}


def test_a_kernels_real_time_is_divided_over_its_scopes(tmp_path: Path) -> None:
    call_tree = tree(profile(tmp_path, CAPTURED, kernels=[kernel(1, 1000, 2000)]), "gpu-time")
    assert under(call_tree) == {"gemm_[G]": 200, "gemm_[G];loop_[G]": 600, "gemm_[G];loop_[G];dot_[G]": 200}
    assert call_tree.metric("gpu-time").label.endswith(SCOPED)


def test_every_launch_of_the_kernel_is_divided_alike_and_no_sum_changes(tmp_path: Path) -> None:
    executions = [kernel(1, 1000, 2001), kernel(1, 3000, 3003), kernel(2, 5000, 5007), kernel(3, 6000, 6100, name="other")]
    with_scopes = tree(profile(tmp_path / "with", CAPTURED, kernels=executions), "gpu-time")
    without = tree(profile(tmp_path / "without", kernels=executions), "gpu-time")
    assert with_scopes.total("gpu-time") == without.total("gpu-time")
    assert {path.partition("gemm_[G]")[0] for path in lines(with_scopes, "gpu-time")} == {
        path.partition("gemm_[G]")[0] for path in lines(without, "gpu-time")
    }
    assert not any("other_[G];" in path for path in lines(with_scopes, "gpu-time"))


def test_a_profile_without_records_stays_as_it_was(tmp_path: Path) -> None:
    executions = [kernel(1, 1000, 2000)]
    plain = tree(profile(tmp_path / "plain", kernels=executions), "gpu-time")
    assert under(plain) == {"gemm_[G]": 1000}
    assert plain.metric("gpu-time").label == "GPU time, with idle time" or "inside" not in plain.metric("gpu-time").label


@pytest.mark.parametrize("by", ["op", "family", "layer"])
def test_scopes_stand_inside_the_kernel_in_every_grouping(tmp_path: Path, by: str) -> None:
    stacks = lines(tree(profile(tmp_path, CAPTURED, kernels=[kernel(1, 1000, 2000)]), "gpu-time", by=by), "gpu-time")
    assert sorted(stacks.values()) == [200, 200, 600]
    assert any(path.endswith("gemm_[G];loop_[G];dot_[G]") for path in stacks)


def test_samples_divide_what_recorded_nothing(tmp_path: Path) -> None:
    sampled: dict[str, Any] = {
        "gpu_windows": [window(0, 10_000, samples=20)],
        "gpu_functions": [{"cubin": 1, "name": "gemm"}, {"cubin": 1, "name": "other"}],
        "gpu_samples": [sample(10), sample(10, function=2, reason=LONG)],
    }
    executions = [kernel(1, 1000, 2000), kernel(2, 3000, 4000, name="other")]
    stacks = lines(tree(profile(tmp_path, CAPTURED, kernels=executions, **sampled), "gpu-time", detail="instruction"), "gpu-time")
    assert any(path.endswith("gemm_[G];loop_[G];dot_[G]") for path in stacks)
    assert not any("gemm_[G];long" in path for path in stacks)
    assert any("other_[G];long_scoreboard" in path for path in stacks)
    stalls = lines(tree(profile(tmp_path / "again", CAPTURED, kernels=executions, **sampled), "gpu-stalls"), "gpu-stalls")
    assert any("gemm_[G];long_scoreboard" in path for path in stalls)


@pytest.mark.parametrize("detail", ["function", "line", "instruction"])
@pytest.mark.parametrize("by", ["code", "layer"])
def test_the_reports_facts_divide_as_the_tree_does(tmp_path: Path, by: str, detail: str) -> None:
    sampled: dict[str, Any] = {
        "gpu_windows": [window(0, 10_000, samples=20)],
        "gpu_functions": [{"cubin": 1, "name": "gemm"}, {"cubin": 1, "name": "other"}],
        "gpu_samples": [sample(10), sample(10, function=2)],
    }
    executions = [kernel(1, 1000, 2001), kernel(2, 3000, 4000, name="other"), kernel(3, 5000, 5003)]
    opened = profile(tmp_path, CAPTURED, kernels=executions, **sampled)
    facts = device_sites(opened)
    for metric in ("gpu-time", "gpu-stalls"):
        assert stacks_of_facts(facts, metric, by, detail) == stacks_of_tree(opened, metric, by, detail)

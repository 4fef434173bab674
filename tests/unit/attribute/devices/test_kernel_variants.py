"""Specializations of Triton kernels in the tree: by the launch, over graphs, and numbered when their names are alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from device_work import GPU, graph, kernel, lines, profile
from profiles import Row, ran

from aiflame.analyze.kernel.choice import choose
from aiflame.analyze.kernel.choice import kernels as kernel_list
from aiflame.attribute.meaning.specializations import distinct_names
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.kinds import Kind


def variant(readable: str, suffixes: tuple[str, ...] = (), name: str = "vadd", **more: Any) -> Row:
    details = {"constexprs": {"BLOCK": 256}, "signature": {"x": "*fp32", "n": "i32"}, "num_warps": 8, "num_stages": 2, "num_ctas": 1}
    return {"name": name, "readable": readable, "details": json.dumps({**details, "suffixes": suffixes}), **more}


def launch(stack: int, variant: int = 0, **more: Any) -> Row:
    return {"thread": 1, "stack": stack, "api": 2, "correlation": stack, "variant": variant, **more}


def kernels(tmp_path: Path, **tables: list[Row]) -> dict[str, int]:
    stacks = lines(tree(profile(tmp_path, **tables), "gpu-time"), "gpu-time")
    return {path.rpartition(";")[2].removesuffix("_[G]"): value for path, value in stacks.items()}


def test_a_launch_shows_the_specialization_that_it_was_of(tmp_path: Path) -> None:
    specializations = [variant("vadd_bs128_w4_s2"), variant("vadd_bs256_w8_s2")]
    launches = [launch(1, 1), launch(2, 2), launch(3)]
    work = ran(kernel(1, 0, 5, "vadd"), kernel(2, 5, 7, "vadd"), kernel(3, 7, 8, "vadd"))
    by_name = kernels(tmp_path, kernel_variants=specializations, launches=launches, **work)
    assert by_name == {"vadd_bs128_w4_s2": 5, "vadd_bs256_w8_s2": 2, "vadd": 1}


def test_its_full_name_has_all_that_it_was_made_with(tmp_path: Path) -> None:
    recorded = profile(tmp_path, kernel_variants=[variant("vadd_bs256_w8_s2")], launches=[launch(1, 1)], **ran(kernel(1, 0, 5, "vadd")))
    frames = tree(recorded, "gpu-time").frames.filter(kind=int(Kind.GPU_KERNEL))
    full_name = "vadd[BLOCK=256, num_warps=8, num_stages=2](x: *fp32, n: i32)"
    assert frames.select("name", "full_name", "module").rows() == [("vadd_bs256_w8_s2", full_name, GPU)]


def test_an_address_that_became_another_kernels_names_nothing(tmp_path: Path) -> None:
    by_name = kernels(tmp_path, kernel_variants=[variant("vadd_bs128_w4_s2")], launches=[launch(1, 1)], **ran(kernel(1, 0, 5, "gemm")))
    assert by_name == {"gemm": 5}


def test_a_replayed_kernel_has_the_captured_specialization(tmp_path: Path) -> None:
    nodes = [{**row, "variant": 2} if row["node"] == 10 else row for row in graph((10, 0, 2), (20, 0, 3), (20, 10, 0))]
    specializations = [variant("vadd_bs128_w4_s2"), variant("vadd_bs256_w8_s2")]
    work = ran(kernel(1, 0, 5, "vadd", node=20))
    by_name = kernels(tmp_path, kernel_variants=specializations, launches=[launch(1)], graph_nodes=nodes, **work)
    assert by_name == {"vadd_bs256_w8_s2": 5}


def test_processes_have_their_own_specializations(tmp_path: Path) -> None:
    specializations = [variant("a_w4", process=0), variant("b_w8", process=1, id=1)]
    launches = [launch(1, 1), launch(1, 1, process=1)]
    by_name = kernels(
        tmp_path,
        processes=[{"pid": 4711, "command": "train.py", "exe": "x"}, {"pid": 4712, "command": "train.py", "exe": "x", "process": 1}],
        kernel_variants=specializations,
        launches=launches,
        **ran(kernel(1, 0, 5, "vadd"), kernel(1, 0, 7, "vadd", process=1)),
    )
    assert by_name == {"a_w4": 5, "b_w8": 7}


def test_equal_names_are_distinct_names_by_types_first() -> None:
    same = [("v_w4", ("fp32", "aaaaaa")), ("v_w4", ("fp16", "bbbbbb")), ("u_w4", ("fp32", "cccccc"))]
    assert distinct_names(same) == ["v_w4_fp32", "v_w4_fp16", "u_w4"]


def test_equal_names_of_equal_types_are_distinct_names_by_the_last_suffix() -> None:
    same = [("v_w4", ("fp32", "aaaaaa")), ("v_w4", ("fp32", "bbbbbb")), ("v_w4", ("fp16", "cccccc"))]
    assert distinct_names(same) == ["v_w4_aaaaaa", "v_w4_bbbbbb", "v_w4_fp16"]


def test_a_name_does_not_depend_on_the_order_or_on_how_often_it_was_loaded() -> None:
    one, other = ("v_w4", ("fp32", "aaaaaa")), ("v_w4", ("fp16", "bbbbbb"))
    assert distinct_names([one, other, one]) == ["v_w4_fp32", "v_w4_fp16", "v_w4_fp32"]
    assert distinct_names([other, one]) == ["v_w4_fp16", "v_w4_fp32"]
    assert distinct_names([one, one]) == ["v_w4", "v_w4"]


def test_a_name_that_the_program_has_chosen_stays(tmp_path: Path) -> None:
    assert distinct_names([("mine", ()), ("mine", ())]) == ["mine", "mine"]


def test_damaged_details_cost_only_the_full_name(tmp_path: Path) -> None:
    broken = {**variant("vadd_bs128_w4_s2"), "details": '{"constexprs": [1'}
    by_name = kernels(tmp_path, kernel_variants=[broken], launches=[launch(1, 1)], **ran(kernel(1, 0, 5, "vadd")))
    assert by_name == {"vadd_bs128_w4_s2": 5}


def test_a_kernel_is_found_by_the_name_of_a_specialization(tmp_path: Path) -> None:
    work = ran(kernel(1, 0, 5, "vadd"), kernel(2, 0, 50, "gemm"))
    recorded = profile(tmp_path, kernel_variants=[variant("vadd_bs128_w4_s2")], launches=[launch(1, 1), launch(2)], **work)
    assert [one.name for one in choose(kernel_list(recorded), "bs128")] == ["vadd"]


# Samples: a cubin has one specialization

REASONS = [{"name": "smsp__pcsamp_warps_issue_stalled_long_scoreboard"}]


def sampled(tmp_path: Path, binaries: dict[int, str], *, launched: int = 2) -> dict[str, int]:
    """Both specializations ran equally long in one window; cubin 7, of the first, has 90 samples, and cubin 8, of the second, 10."""
    specializations = [variant("vadd_bs128_w4_s2"), variant("vadd_bs256_w8_s2")]
    for row, binary in zip(specializations, ("one", "other"), strict=True):
        row["details"] = json.dumps({**json.loads(row["details"]), "binary": binary})
    recorded = profile(
        tmp_path,
        kernel_variants=specializations,
        kernel_binaries=[{"cubin": cubin, "binary": binary} for cubin, binary in binaries.items()],
        launches=[launch(1, 1), launch(2, launched)],
        gpu_functions=[{"cubin": 7, "name": "vadd"}, {"cubin": 8, "name": "vadd"}],
        gpu_windows=[{"device": GPU, "begin_ns": 0, "end_ns": 20}],
        gpu_samples=[
            {"window": 1, "function": function, "offset": 16, "reason": 1, "count": count} for function, count in ((1, 90), (2, 10))
        ],
        stall_reasons=REASONS,
        **ran(kernel(1, 0, 10, "vadd"), kernel(2, 10, 20, "vadd")),
    )
    stacks = lines(tree(recorded, "gpu-stalls", detail="function"), "gpu-stalls")
    return {path.rpartition(";")[2].removesuffix("_[G]"): value for path, value in stacks.items()}


def test_samples_lie_in_the_specialization_whose_code_they_were_taken_in(tmp_path: Path) -> None:
    assert sampled(tmp_path, {7: "one", 8: "other"}) == {"vadd_bs128_w4_s2": 90, "vadd_bs256_w8_s2": 10}


def test_samples_of_a_cubin_of_no_known_specialization_are_divided_over_all(tmp_path: Path) -> None:
    assert sampled(tmp_path, {7: "one"}) == {"vadd_bs128_w4_s2": 50, "vadd_bs256_w8_s2": 50}
    assert sampled(tmp_path / "b", {7: "one", 8: "strange"}) == {"vadd_bs128_w4_s2": 50, "vadd_bs256_w8_s2": 50}


def test_samples_of_a_specialization_whose_launches_are_not_known_stay_with_the_kernel(tmp_path: Path) -> None:
    assert sampled(tmp_path, {7: "one", 8: "other"}, launched=0) == {"vadd_bs128_w4_s2": 50, "vadd": 50}

"""Causes on the GPU: grids, occupancy, instructions that hold warps up, and precision; each with a near miss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stories import MAIN, Story
from story_findings import found

from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.advice import fix
from aiflame.analyze.findings.gpu.catalogue import OF_KERNELS, OF_KIND

FULL = {"grid_x": 132 * 8, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1, "registers": 32}
"""Fills an H200 once: 8 blocks of 256 threads on each of 132 multiprocessors."""
SGEMM, BF16, TF32, FP64 = (
    "ampere_sgemm_128x64_nn",
    "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
    "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_stage4_kernel",
    "sm80_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16_stage3_kernel",
)


def repeated(
    story: Story, name: str = "mine", times: int = 25, took: float = 100, layer: str = "", begin: float = 0, **shape: int
) -> float:
    """The kernel runs again and again, without a gap; when it ends."""
    now = begin
    for _ in range(times):
        more: dict[str, Any] = {**FULL, **shape}
        if layer:
            story.now = round(now * 1000) - 10
            story.forward("model", f"model/{layer}", name=name, start_ns=round(now * 1000), end_ns=round((now + took) * 1000), **more)
        else:
            story.work(now, now, now + took, MAIN, name=name, **more)
        now += took
    return now


def held(story: Story, name: str, code: list[tuple[str, dict[str, int]]]) -> None:
    """Samples at each of these instructions."""
    story.tables.setdefault("gpu_instructions", [])
    for number, (sass, reasons) in enumerate(code):
        story.tables["gpu_instructions"].append({"cubin": 7, "function": name, "offset": 16 * number, "sass": sass})
        before = len(story.tables["gpu_samples"])
        story.sampled(name, reasons)
        for row in story.tables["gpu_samples"][before:]:
            row["offset"] = 16 * number


def causes(story: Story, path: Path) -> dict[str, Finding]:
    return {kind: one for kind, one in found(story, path).items() if kind in OF_KERNELS}


LDG = ("LDG.E R4, desc[UR4][R2.64]", {"selected": 5})
ADD = "REDG.E.ADD.F32 desc[UR6][R8.64], R4"
USE = "FADD R6, R4, R5"


@pytest.mark.parametrize(
    ("kind", "code", "shape", "part"),
    [
        ("spills", [("LDL R4, [R1+0x8]", {}), (USE, {"long_scoreboard": 80}), LDG, (USE, {"wait": 35})], {"local_bytes": 256}, 67),
        ("atomics", [LDG, (ADD, {"lg_throttle": 15, "long_scoreboard": 60}), ("EXIT", {"drain": 20})], {}, 75),
        ("shared-memory", [("LDS R4, [R2]", {"mio_throttle": 40}), (USE, {"short_scoreboard": 40, "wait": 20})], {}, 80),
        ("scattered-access", [("LDG.E R4, desc[UR4][R2.64]", {"lg_throttle": 60}), (USE, {"long_scoreboard": 40})], {}, 60),
        ("memory-bound", [LDG, (USE, {"long_scoreboard": 95})], {}, 95),
        ("few-warps-shared", [LDG, (USE, {"long_scoreboard": 95})], {"static_shared": 100 << 10}, 95),
        ("few-warps-registers", [LDG, (USE, {"long_scoreboard": 95})], {"registers": 255, "block_x": 128, "grid_x": 132 * 2}, 95),
        ("few-warps-block", [LDG, (USE, {"long_scoreboard": 95})], {"block_x": 32, "grid_x": 132 * 32, "registers": 16}, 95),
    ],
)  # fmt: skip
def test_reasons_for_which_a_kernels_warps_wait(
    tmp_path: Path, kind: str, code: list[tuple[str, dict[str, int]]], shape: dict[str, Any], part: int
) -> None:
    story = Story()
    repeated(story, **({"static_shared": 0} | shape))
    held(story, "mine", code)
    finding = causes(story, tmp_path)[kind]
    assert f"mine takes 100% of the time (2.5 ms in all); {part}% of its " in finding.sentence
    assert fix(finding) == OF_KIND[kind].fix
    assert {"hot-stall", "hot-group"}.isdisjoint(found(story, tmp_path / "again"))
    assert finding.view.kernel == "mine" and finding.view.stall


@pytest.mark.parametrize(
    ("code", "shape", "times"),
    [
        ([("LDL R4, [R1+0x8]", {}), (USE, {"long_scoreboard": 15, "wait": 85})], {"local_bytes": 256}, 25),
        ([("LDL R4, [R1+0x8]", {}), (USE, {"long_scoreboard": 60, "wait": 39})], {"local_bytes": 256}, 25),
        ([("LDL R4, [R1+0x8]", {}), (USE, {"long_scoreboard": 60, "wait": 60})], {"local_bytes": 256}, 19),
        ([("REDG.E.ADD.F32 desc[UR6][R8.64], R9", {"lg_throttle": 20}), (USE, {"wait": 80})], {}, 25),
        ([("LDS R4, [R2]", {"mio_throttle": 30}), (USE, {"wait": 80})], {}, 25),
        ([("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", {}), ("LDS R4, [R2]", {"mio_throttle": 90, "wait": 20})], {}, 25),
        ([LDG, (USE, {"long_scoreboard": 50, "wait": 50})], {}, 25),
        ([LDG, (USE, {"long_scoreboard": 95})], {"static_shared": 100 << 10, "grid_x": 132}, 25),
        ([LDG, (USE, {"wait": 20, "math_pipe_throttle": 80})], {"static_shared": 100 << 10}, 25),
    ],
    ids=["few", "99 samples", "19 launches", "an atomic a block", "some", "tensor cores", "half", "a grid that fits", "arithmetic"],
)  # fmt: skip
def test_a_kernel_that_nearly_waits_for_one_thing(
    tmp_path: Path, code: list[tuple[str, dict[str, int]]], shape: dict[str, Any], times: int
) -> None:
    story = Story()
    repeated(story, times=times, **({"static_shared": 0} | shape))
    held(story, "mine", code)
    assert causes(story, tmp_path) == {}


def test_few_blocks_leave_multiprocessors_without_work(tmp_path: Path) -> None:
    story = Story()
    repeated(story, grid_x=4, grid_y=2)
    finding = causes(story, tmp_path)["few-blocks"]
    assert finding.sentence == (
        "mine takes 100% of the time (2.5 ms in all); its 8 blocks leave 124 of 132 multiprocessors without work"
        " (25 launches at train.py:12)"
    )
    assert "Launch more blocks" in fix(finding)


def test_few_blocks_of_kernels_that_run_at_once_are_enough(tmp_path: Path) -> None:
    story = Story()
    for number in range(4):
        repeated(story, f"mine{number}", grid_x=8)
    assert causes(story, tmp_path) == {}


@pytest.mark.parametrize("shape", [{"grid_x": 66}, {"took": 10, "grid_x": 8}, {"times": 19, "grid_x": 8}], ids=["half", "short", "few"])
def test_a_grid_that_is_small_for_other_reasons(tmp_path: Path, shape: dict[str, Any]) -> None:
    story = Story()
    repeated(story, **shape)
    assert causes(story, tmp_path) == {}


def test_a_device_that_is_not_known_has_no_limits(tmp_path: Path) -> None:
    story = Story()
    repeated(story, grid_x=8)
    for row in story.kernels:
        row["device"] = "NVIDIA H200 MIG 1g.18gb"
    assert causes(story, tmp_path) == {}


@pytest.mark.parametrize(
    ("blocks", "stall", "named"), [(294, "wait", True), (464, "wait", False), (2670, "wait", False), (294, "long_scoreboard", False)]
)  # fmt: skip
def test_a_last_wave_of_few_blocks(tmp_path: Path, blocks: int, stall: str, named: bool) -> None:
    story = Story()
    repeated(story, grid_x=blocks, block_x=1024)
    held(story, "mine", [LDG, (USE, {stall: 100})])
    findings = causes(story, tmp_path)
    assert ("last-wave" in findings) == named
    if named:
        assert "of its 294 blocks 264 run at once, and the last 30 alone" in findings["last-wave"].sentence


@pytest.mark.parametrize(
    ("name", "kind"), [(SGEMM, "no-tensor-cores"), (TF32, ""), (BF16, ""), (FP64, "double-precision"), ("gemv2T_kernel_val", "")]
)
def test_products_of_matrices_that_tensor_cores_could_do(tmp_path: Path, name: str, kind: str) -> None:
    story = Story()
    repeated(story, name)
    named = {one for one in causes(story, tmp_path) if one in ("no-tensor-cores", "double-precision")}
    assert named == ({kind} if kind else set())


def test_kernels_that_multiply_without_tensor_cores_are_named_with_their_launches(tmp_path: Path) -> None:
    story = Story()
    repeated(story, SGEMM, layer="layers.0.mlp")
    finding = causes(story, tmp_path)["no-tensor-cores"]
    assert finding.sentence.startswith("The GPU multiplies matrices in float32 without tensor cores: ")
    assert "(25 launches, most in layers.0.mlp at train.py:1), for 100% of the time (2.5 ms in all)" in finding.sentence


def test_code_that_uses_tensor_cores_is_believed_more_than_its_name(tmp_path: Path) -> None:
    story = Story()
    repeated(story, SGEMM)
    held(story, SGEMM, [("HMMA.1688.F32.TF32 R4, R8, R9, R4", {"wait": 100})])
    assert "no-tensor-cores" not in causes(story, tmp_path)


@pytest.mark.parametrize("samples", [100, 99])
def test_arithmetic_in_double_precision_is_seen_in_the_code(tmp_path: Path, samples: int) -> None:
    story = Story()
    repeated(story)
    held(story, "mine", [("DFMA R4, R6, R8, R4", {"math_pipe_throttle": samples})])
    assert ("double-precision" in causes(story, tmp_path)) == (samples == 100)


@pytest.mark.parametrize("wrapper", ["", "inner.", "inner.0."])
@pytest.mark.parametrize("odd", [SGEMM, BF16])
def test_a_layer_in_more_precision_than_its_sisters(tmp_path: Path, odd: str, wrapper: str) -> None:
    story, now = Story(), 0.0
    for layer in range(6):
        name, took = (odd, 300) if layer == 3 else (BF16, 100)
        for part in ("first", "second"):
            path = f"layers.{layer}.{wrapper if layer == 3 else ''}{part}"
            now = repeated(story, name, layer=path, begin=now, times=12, took=took)
    findings = found(story, tmp_path)
    assert ("slow-layer" in findings) == (odd == BF16)
    assert ("layer-precision" in findings) == (odd == SGEMM)
    if odd == SGEMM:
        assert findings["layer-precision"].sentence == (
            "layers.3 multiplies matrices in float32, its sisters in bfloat16: it takes 3.0 times as long, 25% of the time (4.8 ms in all)"
        )
        assert findings["layer-precision"].view.search == r"^layers\.3$"
        assert "no-tensor-cores" not in findings


@pytest.mark.parametrize(
    ("issued", "loads", "blocks", "named"),
    [(150, 16, 1056, True), (400, 16, 1056, False), (90, 16, 1056, False), (150, 1, 132, False)],
    ids=["slow", "as fast as memory", "96 samples of loads", "too few on their way"],
)
def test_loads_that_bring_little_for_their_number_are_scattered(tmp_path: Path, issued: int, loads: int, blocks: int, named: bool) -> None:
    """64 warps, of which each has up to 16 loads on their way: 128 KiB on each multiprocessor."""
    story = Story()
    repeated(story, grid_x=blocks)
    code = [(f"LDG.E R{10 + number}, [R2.64+{number}]", {"selected": issued // loads + 1}) for number in range(loads)]
    held(story, "mine", [*code, ("FADD R6, R10, R6", {"long_scoreboard": 150 * 64 * 32 * 4 * 4 // 14 if loads > 1 else 9000})])
    findings = causes(story, tmp_path)
    assert ("scattered-access" in findings) == named
    if named:
        assert "of its rate with loads enough on their way" in findings["scattered-access"].sentence


def test_a_value_that_atomic_operations_wait_for_is_no_contention(tmp_path: Path) -> None:
    story = Story()
    repeated(story)
    held(story, "mine", [LDG, (ADD, {"long_scoreboard": 90, "lg_throttle": 8})])
    assert "atomics" not in causes(story, tmp_path)

"""The modelled work of torch's ops: against torch's own counters, and against numbers reckoned by hand."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from kineto_trace import US, KinetoTrace

import aiflame
from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.limits.groups import limits_of, rates, utilization
from aiflame.analyze.limits.page import limits_page
from aiflame.attribute.analysis import Analysis
from aiflame.cli.commands import run
from aiflame.exchange.readers.op_work import call_of, op_work

SHAPES = Path(__file__).parents[3] / "data" / "traces" / "kineto" / "torch2.13_shapes.json.gz"
BF16, F32 = "c10::BFloat16", "float"


def torch_trace() -> dict[str, Any]:
    """A program of products, convolutions and attention, with the counts of torch's FlopCounterMode and of its formulas for attention."""
    document: dict[str, Any] = json.loads(gzip.decompress(SHAPES.read_bytes()))
    return document


def modelled(document: dict[str, Any]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for event in document["traceEvents"]:
        args = event.get("args", {})
        if "Input Dims" in args:
            work = op_work(event["name"], call_of(args["Input Dims"], args["Input type"], args["Concrete Inputs"]))
            counts[event["name"]] += work.flops if work is not None else 0
    return counts


def test_operations_are_those_of_torchs_counter() -> None:
    document = torch_trace()
    ours, theirs = modelled(document), document["flop_counter"]
    for name in ("mm", "addmm", "bmm", "baddbmm", "convolution"):
        assert ours[f"aten::{name}"] == theirs[f"aten.{name}"] > 0
    # torch counts the gradient of the weights of a convolution in groups as if it had one group: 2 * (2*3*5) * (2*6*8*8) too many of two.
    assert ours["aten::convolution_backward"] == theirs["aten.convolution_backward"] - 46080
    # torch counts all of a causal attention, half of which no kernel computes.
    forward, backward = "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_flash_attention_for_cpu_backward"
    for name, key in ((forward, "attention"), (backward, "attention_backward")):
        plain, causal = theirs[key]
        assert ours[name] == plain + causal // 2
    # torch.profiler's with_flops counts fewer kinds of ops.
    for name in ("mm", "addmm", "bmm", "baddbmm"):
        assert ours[f"aten::{name}"] == document["key_averages"][f"aten::{name}"]


def test_composite_ops_have_the_work_of_the_op_that_they_call() -> None:
    ours = modelled(torch_trace())
    assert ours["aten::_convolution"] == ours["aten::convolution"]
    assert ours["aten::scaled_dot_product_attention"] == ours["aten::_scaled_dot_product_flash_attention_for_cpu"]


FLASH = [[2, 4, 128, 64]] * 3
FORWARD = 2 * 2 * 4 * 128 * 128 * (64 + 64)
CASES = [
    ("mm", [[64, 32], [32, 16]], BF16, None, 2 * 64 * 32 * 16, 2 * (64 * 32 + 32 * 16 + 64 * 16)),
    ("addmm", [[16], [64, 32], [32, 16]], F32, None, 2 * 64 * 32 * 16, 4 * (16 + 64 * 32 + 32 * 16 + 64 * 16)),
    ("linear", [[2, 8, 32], [16, 32], []], F32, None, 2 * 16 * 32 * 16, 4 * (16 * 32 + 16 * 32 + 16 * 16)),
    ("matmul", [[5, 1, 8, 4], [3, 4, 6]], F32, None, 2 * 15 * 8 * 4 * 6, 4 * (5 * 8 * 4 + 3 * 4 * 6 + 15 * 8 * 6)),
    ("_scaled_dot_product_flash_attention", FLASH, BF16, ["", "", "", "0.", "False"], FORWARD, 2 * 4 * 2 * 4 * 128 * 64),
    ("_scaled_dot_product_flash_attention", FLASH, BF16, ["", "", "", "0.", "True"], FORWARD // 2, 2 * 4 * 2 * 4 * 128 * 64),
    ("_scaled_dot_product_efficient_attention", FLASH, BF16, ["", "", "", "", "", "0.", "True"], FORWARD // 2, 2 * 4 * 2 * 4 * 128 * 64),
    ("_scaled_dot_product_cudnn_attention", FLASH, BF16, ["", "", "", "", "", "0.", "False"], FORWARD, 2 * 4 * 2 * 4 * 128 * 64),
    ("_flash_attention_forward", [[2, 128, 4, 64]] * 3, BF16, [""] * 9, FORWARD, 2 * 4 * 2 * 4 * 128 * 64),
    ("_flash_attention_backward", [[2, 128, 4, 64]] * 6, BF16, [""] * 11 + ["True"], FORWARD * 5 // 4, 2 * 8 * 2 * 4 * 128 * 64),
    ("embedding", [[1000, 64], [4, 8]], F32, None, 0, 4 * (2 * 32 * 64 + 32)),
    ("add", [[64, 1, 8], [3, 8]], BF16, None, 0, 2 * (64 * 8 + 3 * 8 + 64 * 3 * 8)),
    ("mul_", [[64, 8], []], F32, None, 0, 4 * (64 * 8 + 64 * 8)),
    ("sum", [[64, 8]], F32, None, 0, 4 * 64 * 8),
    ("copy_", [[64, 8], [64, 8]], BF16, None, 0, 2 * 2 * 64 * 8),
    ("_softmax", [[64, 8], []], BF16, None, 0, 2 * 2 * 64 * 8),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "shapes", "kind", "values", "flops", "size"), CASES, ids=[f"{case[0]}-{at}" for at, case in enumerate(CASES)]
)
def test_operations_and_bytes_by_hand(name: str, shapes: list[Any], kind: str, values: list[str] | None, flops: int, size: int) -> None:
    work = op_work(f"aten::{name}", call_of(shapes, [kind if shape else "Scalar" for shape in shapes], values or [""] * len(shapes)))
    assert work is not None
    assert (work.flops, work.bytes) == (flops, size)


@pytest.mark.parametrize(
    ("name", "dims", "types", "values"),
    [
        ("aten::mm", [[4, 5], [6, 7]], [F32, F32], []),
        ("aten::mm", [[4], [5]], [F32, F32], []),
        ("aten::mm", [[-4, 5], [5, 7]], [F32, F32], []),
        ("aten::mm", [["4", 5], [5, 7]], [F32, F32], []),
        ("aten::mm", [[1 << 61, 1 << 61], [1 << 61, 8]], [F32, F32], []),
        ("aten::mm", [[4, 5]], [F32], []),
        ("aten::mm", [[4, 5], [5, 6]], ["strange", 7], []),
        ("aten::mm", 5, [F32], []),
        ("aten::convolution", [[1, 2, 8], [3, 2, 3], []], [F32, F32, ""], ["", "", "", "[0]", "[1]", "[1]", "False", "[0]", "1"]),
        ("aten::convolution_backward", [[1, 2, 8], [3, 2, 3], [1, 2, 3]], [F32, F32, F32], ["x"] * 11),
        ("aten::_flash_attention_forward", [[500, 4, 64]] * 3, [BF16] * 3, []),
        ("aten::view", [[4, 5]], [F32], []),
        ("mine::mm", [[4, 5], [5, 6]], [F32, F32], []),
    ],
)
def test_what_has_no_model_has_no_work(name: str, dims: Any, types: list[Any], values: list[Any]) -> None:
    assert op_work(name, call_of(dims if isinstance(dims, list) else [], types, values)) is None


@pytest.fixture
def trace(tmp_path: Path) -> KinetoTrace:
    """On an H100: a product in bf16 at half of its rate, whose kernel has a helper; one in fp32; a sum at a quarter of the bandwidth; a
    kernel of nobody's."""
    out = KinetoTrace()
    out.call("aten::matmul", 0, 200 * US, Input_Dims=[[8192, 8192], [8192, 8192]], Input_type=[BF16, BF16], Concrete_Inputs=["", ""])
    out.op("aten::mm", 10 * US, 190 * US, [[8192, 8192], [8192, 8192]], BF16)
    flops = 2 * 8192**3
    took = round(flops / 989.5e12 * 1e9 * 2)
    out.launch("nvjet_tst_128x256", 20 * US, took * 3 // 4)
    out.launch("splitKreduce", 40 * US, took // 4)
    out.op("aten::mm", 300 * US, 390 * US, [[4096, 4096], [4096, 4096]], F32)
    out.launch("ampere_sgemm_128x128", 310 * US, round(2 * 4096**3 / 66.9e12 * 1e9))
    out.op("aten::sum", 400 * US, 490 * US, [[1 << 28]], F32)
    out.launch("reduce_kernel", 410 * US, round((1 << 30) / 3.35e12 * 1e9 * 4))
    out.launch("lonely", 500 * US, 100 * US)
    return out


def test_kernels_get_the_operations_of_the_op_that_launched_them(tmp_path: Path, trace: KinetoTrace) -> None:
    profile = Analysis(aiflame.open(trace.write(tmp_path / "trace.json.gz")).store)
    analysis = profile_analysis(profile)
    flops, intensity = rates()
    rows = limits_of(analysis, ["name"]).with_columns(flop_rate=flops, intensity=intensity)
    by_name = {row["name"]: row for row in rows.to_dicts()}
    product, helper = by_name["nvjet_tst_128x256"], by_name["splitKreduce"]
    assert product["flops"] + helper["flops"] == pytest.approx(2 * 8192**3, abs=2)  # once, though matmul calls mm
    assert product["flops"] == pytest.approx(3 * helper["flops"], rel=1e-5)
    for row in (product, helper):
        assert row["flop_rate"] == pytest.approx(989.5e12 / 2, rel=1e-4)
        assert row["limit_percent"] == pytest.approx(50, abs=0.1)
        assert row["intensity"] == pytest.approx(2 * 8192**3 / (2 * 3 * 8192**2), rel=1e-5)
    assert by_name["ampere_sgemm_128x128"]["limit_percent"] == pytest.approx(100, abs=0.1)
    assert by_name["ampere_sgemm_128x128"]["bound_by"] == "tensor"
    assert by_name["reduce_kernel"]["limit_percent"] == pytest.approx(25, abs=0.1)
    assert by_name["reduce_kernel"]["flop_rate"] is None
    assert by_name["lonely"]["limit_percent"] is None
    used = utilization(analysis)
    assert used is not None
    assert used.modelled
    assert "modelled from the shapes of ops" in used.text


def test_float32_that_is_quicker_than_the_device_without_tensor_cores_was_multiplied_as_tf32(tmp_path: Path) -> None:
    out = KinetoTrace()
    for number, (kernel, rate) in enumerate((("gemm_by_name_tf32", 40e12), ("gemm_by_rate", 247.35e12), ("gemm_without", 33.45e12))):
        begin = number * 1000 * US
        out.op("aten::mm", begin, begin + 90 * US, [[4096, 4096], [4096, 4096]])
        out.launch(kernel, begin + 10 * US, round(2 * 4096**3 / rate * 1e9))
    profile = Analysis(aiflame.open(out.write(tmp_path / "trace.json.gz")).store)
    percent = dict(limits_of(profile_analysis(profile), ["name"]).select("name", "limit_percent").rows())
    assert percent["gemm_by_name_tf32"] == pytest.approx(100 * 40 / 494.7, abs=0.1)
    assert percent["gemm_by_rate"] == pytest.approx(50, abs=0.1)
    assert percent["gemm_without"] == pytest.approx(50, abs=0.1)


def test_the_terminal_and_the_page_show_rates(
    tmp_path: Path, trace: KinetoTrace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    file = trace.write(tmp_path / "trace.json.gz")
    assert run(["top", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "495 TFLOP/s" in printed
    assert "modelled from the shapes of ops" in printed
    profile = aiflame.open(file)
    page = limits_page(profile_analysis(Analysis(profile.store)), profile.store.meta.imported)
    assert page.why == ""
    product = page.rows["kernels"].filter(pl.col("short") == "nvjet_tst_128x256").to_dicts()[0]
    assert product["flop_rate"] == pytest.approx(989.5e12 / 2, rel=1e-4)
    assert product["tensor"] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("device", ["", "Unknown 9000"])
def test_of_an_unknown_device_only_that_is_said(tmp_path: Path, trace: KinetoTrace, device: str) -> None:
    trace.device = device
    profile = aiflame.open(trace.write(tmp_path / "trace.json.gz"))
    page = limits_page(profile_analysis(Analysis(profile.store)), profile.store.meta.imported)
    assert "docs/limits.md lists the devices" in page.why
    assert page.rows == {}


def test_without_shapes_the_page_says_which_option_of_torch_writes_them(tmp_path: Path) -> None:
    out = KinetoTrace()
    out.call("aten::mm", 0, 50 * US)
    out.launch("gemm", 10 * US, 100 * US)
    profile = aiflame.open(out.write(tmp_path / "trace.json.gz"))
    page = limits_page(profile_analysis(Analysis(profile.store)), profile.store.meta.imported)
    assert "record_shapes=True" in page.why
    assert "--gpu-counters" not in page.why

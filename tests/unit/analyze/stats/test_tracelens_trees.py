"""The roofline of ops, the tree of modules and the instructions of XLA, in traces whose figures are known by construction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from kineto_events import event, launched, written

import aiflame
from aiflame.attribute.limits.peaks import peaks

US = 1000


def product(ts: float, begin: float, dur: float, correlation: int, rows: int, inner: int, columns: int) -> list[dict[str, Any]]:
    """`aten::mm` of bfloat16, and its kernel."""
    args: dict[str, Any] = {
        "Input Dims": [[rows, inner], [inner, columns]],
        "Input type": ["c10::BFloat16"] * 2,
        "Concrete Inputs": ["", ""],
    }
    return [event("cpu_op", "aten::mm", ts, 8, **args), *launched("gemm", ts + 1, begin, dur, correlation)[1:]]


def test_roofline_of_products(tmp_path: Path) -> None:
    """Two products of 2·4096³ operations in 200 µs each; a copy of a vector, which reads and writes 64 MiB in 100 µs."""
    size, vector = 4096, 1 << 24
    args: dict[str, Any] = {"Input Dims": [[vector], [vector]], "Input type": ["float"] * 2, "Concrete Inputs": ["", ""]}
    copied = [event("cpu_op", "aten::copy_", 300, 8, **args), *launched("copy", 301, 1000, 100, 3)[1:]]
    products = [product(100, 150, 200, 1, size, size, size), product(200, 400, 200, 2, size, size, size)]
    rows = {row["op"]: row for row in aiflame.open(written(tmp_path, *products, copied)).stats("tracelens.roofline").to_dicts()}
    assert list(rows) == ["aten::mm", "aten::copy_"]
    device = peaks("H100")
    assert device is not None
    flops, moved = 2 * size**3, 3 * 2 * size**2
    one = rows["aten::mm"]
    assert (one["kernels"], one["total_ns"], one["flops"], one["moved_bytes"]) == (2, 400 * US, 2 * flops, 2 * moved)
    assert one["flops_per_byte"] == pytest.approx(flops / moved)
    assert one["arithmetic_tflop_s"] == pytest.approx(flops / 200e-6 / 1e12)
    assert one["memory_tb_s"] == pytest.approx(moved / 200e-6 / 1e12)
    assert one["roofline_percent"] == pytest.approx(100 * flops / device.bf16 / 200e-6, abs=0.01) and one["bound"] == "arithmetic"
    one = rows["aten::copy_"]
    assert (one["flops"], one["flops_per_byte"], one["arithmetic_tflop_s"], one["bound"]) == (None, None, None, "memory")
    assert one["roofline_percent"] == pytest.approx(100 * 8 * vector / device.memory / 100e-6, abs=0.01)


def module(name: str, ts: float, dur: float) -> dict[str, Any]:
    return event("python_function", f"nn.Module: {name}", ts, dur)


def test_the_tree_of_modules(tmp_path: Path) -> None:
    """`Net` calls two blocks, of which the second is heavier on the device; each calls a `Linear` that launches its work."""
    calls = [module("Net_0", 10, 200)]
    for number, (begin, took) in enumerate(((20, 30), (100, 70))):
        calls += [module(f"Block_{number}", begin, 60), module(f"Linear_{number}", begin + 10, 40)]
        calls += launched("gemm", begin + 20, 300 + 100 * number, took, number + 1)
    rows = aiflame.open(written(tmp_path, calls)).stats("tracelens.module-tree")
    assert rows["module"].to_list() == ["Net", "  Block.1", "    Linear", "  Block.0", "    Linear"]
    assert rows["path"].to_list() == ["Net", "Block.1", "Block.1.Linear", "Block.0", "Block.0.Linear"]
    columns = ("cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns", "launches")
    assert [[row[name] // (1 if name == "launches" else US) for name in columns] for row in rows.to_dicts()] == [
        [200, 80, 100, 0, 2],
        [60, 20, 70, 0, 1],
        [40, 40, 70, 70, 1],
        [60, 20, 30, 0, 1],
        [40, 40, 30, 30, 1],
    ]
    assert rows["device_percent"].to_list() == pytest.approx([100, 70, 70, 30, 30])


def test_without_devices_the_tree_has_times_of_cpus_alone(tmp_path: Path) -> None:
    (row,) = aiflame.open(written(tmp_path, [module("Net_0", 10, 200)])).stats("tracelens.module-tree").to_dicts()
    assert (row["cpu_ns"], row["cpu_percent"], row["device_ns"], row["device_percent"], row["launches"]) == (
        200 * US,
        100,
        None,
        None,
        None,
    )


@pytest.mark.parametrize("report", ["tracelens.roofline", "tracelens.module-tree", "tracelens.xla-summary"])
def test_nothing_is_known_of_a_plain_trace(tmp_path: Path, report: str) -> None:
    assert aiflame.open(written(tmp_path)).stats(report).is_empty()


def test_instructions_of_xla(tmp_path: Path) -> None:
    calls = [event("cpu_op", "jax::dot_general", 10, 100)]
    for number, name in enumerate(("gemm_fusion_dot_6", "gemm_fusion_dot", "loop_add_fusion.3", "wrapped_add"), 1):
        calls += launched(name, 10 + 20 * number, 100 * number + 100, 10 * number, number)[1:]
    rows = aiflame.open(written(tmp_path, calls)).stats("tracelens.xla-summary")
    assert dict(rows.select("instruction", pl.col("total_ns") // US).iter_rows()) == {
        "wrapped_add": 40,
        "gemm_fusion_dot": 30,
        "loop_add_fusion": 30,
    }
    row = rows.row(1, named=True)
    assert (row["kernels"], row["avg_ns"], row["ops"], row["category"]) == (2, 15 * US, "jax::dot_general", "gemm")

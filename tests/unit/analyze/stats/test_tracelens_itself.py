"""TraceLens (AMD's, from its repository) and our reports of its names, on the same traces: equal where the definitions are, and each
difference that docs/stats.md names.

To run these tests, install TraceLens into an environment of its own, and name its folder of packages:
    pip install git+https://github.com/AMD-AGI/TraceLens@171dd74721ca1ec45709e5805b68ae1f65e27811
    AIFLAME_TRACELENS=VENV/lib/python3.11/site-packages pytest tests/unit/analyze/stats/test_tracelens_itself.py
`AIFLAME_TRACES` names a folder with more traces; its `kineto/` is read. The package of this name on PyPI is another program.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from kineto_events import event, launched, work
from kineto_events import written as written_without_arrows

import aiflame
from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.limits.peaks import peaks

PACKAGES = os.environ.get("AIFLAME_TRACELENS", "")
OWN = Path(__file__).parents[3] / "data" / "traces" / "kineto"
MORE = Path(os.environ.get("AIFLAME_TRACES", "/nowhere"), "kineto")
H200 = OWN / "torch2.11_h200.json.gz"
FILES = [
    H200,
    OWN / "torch2.11_h200_copies.json.gz",
    OWN / "torch2.11_h200_graph.json.gz",
    *(file for file in sorted(MORE.glob("tracelens-*.json.gz")) if "capture" not in file.name),
]
"""All with work on a device. (A trace of a capture is all but empty of it.)"""
FEW = [*FILES[:3], *(MORE / f"tracelens-{name}.json.gz" for name in ("h100-gaunernst_bert-small-uncased__1016001", "b200-eager_trace"))]
TIMES = {
    "computation_time": "computation",
    "exposed_comm_time": "exposed communication",
    "exposed_memcpy_time": "exposed copies",
    "busy_time": "busy",
    "idle_time": "idle",
    "total_time": "whole",
    "total_comm_time": "all communication",
    "total_memcpy_time": "all copies",
}
PRODUCTS = ["aten::mm", "aten::addmm"]
DUR = 100.0


@pytest.fixture(autouse=True, scope="module")
def tracelens() -> Iterator[None]:
    if PACKAGES:
        sys.path.append(PACKAGES)
    pytest.importorskip("TraceLens.TreePerf", reason="TraceLens is not installed (AIFLAME_TRACELENS names a folder that has it)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    if PACKAGES:
        sys.path.remove(PACKAGES)


def written(folder: Path, *events: list[dict[str, Any]]) -> Path:
    """With the arrows from calls to their work, by which TraceLens joins them."""
    arrows = []
    for one in (one for of in events for one in of):
        number = one["args"].get("correlation")
        if number is not None:
            phase = "s" if one["cat"] in ("cuda_runtime", "cuda_driver") else "f"
            at = {name: one[name] for name in ("pid", "tid", "ts")}
            arrows.append({"ph": phase, "cat": "ac2g", "name": "ac2g", "id": number, **at})
    return written_without_arrows(folder, *events, arrows)


def analysed(file: Path, *, python: bool = False, arch: dict[str, Any] | None = None, unlinked: bool = True) -> Any:
    from TraceLens.TreePerf import TreePerfAnalyzer

    return TreePerfAnalyzer.from_file(str(file), add_python_func=python, include_unlinked_kernels=unlinked, arch=arch)


def near(theirs: Any) -> Any:
    """TraceLens adds microseconds as floating-point numbers of 53 bits, of which the time of day takes 51."""
    return pytest.approx(theirs, rel=2e-5, abs=0.1)


def their_timeline(trace: Any) -> dict[str, float]:
    return {TIMES[row["type"]]: row["time ms"] * 1000 for row in trace.get_df_gpu_timeline().to_dict("records")}


def our_timeline(profile: aiflame.Profile) -> dict[str, float]:
    return {row["time"]: row["total_ns"] / 1000 for row in profile.stats("tracelens.gpu-timeline").to_dicts()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_same_timeline(file: Path) -> None:
    theirs, ours = their_timeline(analysed(file)), our_timeline(aiflame.open(file))
    if "multimem" in str(aiflame.open(file).stats("nsys.cuda-gpu-kern-sum")["name"].to_list()):
        # All-reduces over multicast memory are computation to TraceLens.
        assert ours["all communication"] > theirs["all communication"]
        names = ("busy", "idle", "whole", "all copies")
        theirs, ours = ({name: times[name] for name in names} for times in (theirs, ours))
    assert ours == near(theirs)


@pytest.mark.parametrize("file", [file for file in FEW if file.exists()], ids=lambda file: file.name)
def test_the_same_ops(file: Path) -> None:
    """Without communication, which TraceLens leaves out."""
    trace, profile = analysed(file), aiflame.open(file)
    launchers = trace.get_df_kernel_launchers(include_kernel_details=True)
    theirs, kernels = Counter[str](), Counter[str]()
    for row in launchers.to_dict("records"):
        name = "[no op]" if row["name"].startswith(("cuda", "cuLaunch", "hip")) else row["name"]
        theirs[name] += sum(kernel["dur"] for kernel in row["kernel_details"])
        kernels[name] += row["direct_kernel_count"]
    rows = {row["op"]: row for row in profile.stats("tracelens.ops-summary").to_dicts() if row["op"] != "record_param_comms"}
    assert {name: row["total_ns"] / 1000 for name, row in rows.items()} == near(dict(theirs))
    assert {name: row["kernels"] for name, row in rows.items()} == kernels


def shapes_of(arguments: str) -> tuple[str, ...]:
    return tuple(re.findall(r"f32\[[\d, ]+\]", arguments))


def test_the_same_unique_arguments() -> None:
    """Of products, the number of calls and the time by shapes."""
    trace = analysed(H200)
    theirs = trace.get_df_kernel_launchers_unique_args(trace.get_df_kernel_launchers(include_kernel_details=True, include_args=True))
    wanted = {
        (row["name"], tuple(f"f32{list(shape)}" for shape in row["Input Dims"] if shape)): [
            row["operation_count"],
            row["total_direct_kernel_time_sum"],
        ]
        for row in theirs.to_dict("records")
        if row["name"] in PRODUCTS
    }
    rows = aiflame.open(H200).stats("tracelens.ops-unique-args").filter(pl.col("op").is_in(PRODUCTS)).to_dicts()
    ours = {(row["op"], shapes_of(row["arguments"])): [row["calls"], row["self_device_ns"] / 1000] for row in rows}
    assert ours.keys() == wanted.keys() and len(ours) == len(rows)
    assert all(ours[key] == near(wanted[key]) for key in wanted)


def unified(trace: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = trace.build_df_unified_perf_table(include_kernel_details=False).to_dict("records")
    return rows


def test_the_same_operations() -> None:
    """Of products, by shapes; `addmm` has there an operation more for each element of its result."""
    theirs: dict[tuple[str, tuple[str, ...]], int] = {}
    for row in unified(analysed(H200)):
        if row["name"] in PRODUCTS:
            result = row["Input Dims"][1][0] * row["Input Dims"][2][1] if row["name"] == "aten::addmm" else 0
            key = (row["name"], tuple(f"f32{list(shape)}" for shape in row["Input Dims"] if shape))
            theirs[key] = theirs.get(key, 0) + round(row["GFLOPS"] * 1e9) - result
    rows = aiflame.open(H200).stats("tracelens.ops-unique-args").filter(pl.col("op").is_in(PRODUCTS)).to_dicts()
    assert {(row["op"], shapes_of(row["arguments"])): row["flops"] for row in rows} == theirs and len(theirs) >= 8


BF16, F32 = "c10::BFloat16", "float"


def call(folder: Path, name: str, kind: str, dims: list[list[int]], values: Sequence[str] = (), tensors: int = 0) -> Path:
    """One call of an op, with a kernel of DUR µs. `tensors`: so many arguments are tensors; the others are none."""
    count = tensors or len(dims)
    more = max(len(values) - len(dims), 0)
    args: dict[str, Any] = {
        "Input Dims": [*dims, *[[]] * more],
        "Input type": [*[kind] * count, *["Scalar"] * (len(dims) + more - count)],
        "Concrete Inputs": [*values, *[""] * (len(dims) - len(values))],
        "Input Strides": [*[[1] * len(shape) for shape in dims], *[[]] * more],
    }
    return written(folder, [event("cpu_op", name, 100, 8, **args), *launched("gemm", 101, 150, DUR, 1)[1:]])


def rooflines(file: Path, name: str, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Theirs and ours of one op, against the same peaks."""
    device = peaks("H100")
    assert device is not None
    rate = {BF16: ("matrix_bf16", device.bf16), F32: ("matrix_fp32", device.fp32)}[kind]
    arch = {"name": "H100", "mem_bw_gbps": device.memory / 1e9, "max_achievable_tflops": {rate[0]: rate[1] / 1e12}}
    (theirs,) = [row for row in unified(analysed(file, arch=arch)) if row["name"] == name]
    (ours,) = [row for row in aiflame.open(file).stats("tracelens.roofline").to_dicts() if row["op"] == name]
    return theirs, ours


@pytest.mark.parametrize(
    ("name", "kind", "dims", "values"),
    [
        ("aten::mm", BF16, [[4096, 1024], [1024, 2048]], ()),
        ("aten::mm", F32, [[300, 7], [7, 50]], ()),
        ("aten::bmm", BF16, [[8, 512, 256], [8, 256, 128]], ()),
        ("aten::_scaled_dot_product_flash_attention", BF16, [[2, 8, 1024, 64]] * 3, ("", "", "", "0.", "False", "False", "")),
        ("aten::_scaled_dot_product_flash_attention", BF16, [[2, 8, 1024, 64]] * 3, ("", "", "", "0.", "True", "False", "")),
        (
            "aten::convolution",
            BF16,
            [[16, 64, 56, 56], [128, 32, 3, 3]],
            ("", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2", ""),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "::" in value else "",
)
def test_the_same_roofline(tmp_path: Path, name: str, kind: str, dims: list[list[int]], values: tuple[str, ...]) -> None:
    theirs, ours = rooflines(call(tmp_path, name, kind, dims, values), name, kind)
    assert (ours["flops"], ours["moved_bytes"]) == (round(theirs["GFLOPS"] * 1e9), round(theirs["Data Moved (MB)"] * (1 << 20)))
    rates = (ours["flops_per_byte"], ours["arithmetic_tflop_s"], ours["memory_tb_s"])
    assert rates == near((theirs["FLOPS/Byte"], theirs["TFLOPS/s"], theirs["TB/s"]))
    assert ours["total_ns"] / 1000 == theirs["Kernel Time (µs)"] == DUR
    assert ours["roofline_percent"] == near(theirs["Pct Roofline"])
    assert ours["bound"] == {"COMPUTE_BOUND": "arithmetic", "MEMORY_BOUND": "memory"}[theirs["Roofline Bound"]]


def test_it_counts_the_addition_of_a_bias(tmp_path: Path) -> None:
    """Torch's own count has products only. Bytes are the same."""
    dims = [[2048], [1024, 512], [512, 2048]]
    theirs, ours = rooflines(call(tmp_path, "aten::addmm", BF16, dims), "aten::addmm", BF16)
    assert ours["flops"] == 2 * 1024 * 512 * 2048 == round(theirs["GFLOPS"] * 1e9) - 1024 * 2048
    assert ours["moved_bytes"] == round(theirs["Data Moved (MB)"] * (1 << 20))


def test_it_takes_a_full_addend_for_a_row(tmp_path: Path) -> None:
    dims = [[1024, 2048], [1024, 512], [512, 2048]]
    theirs, ours = rooflines(call(tmp_path, "aten::addmm", BF16, dims), "aten::addmm", BF16)
    assert ours["moved_bytes"] - round(theirs["Data Moved (MB)"] * (1 << 20)) == 2 * (1024 - 1) * 2048


def test_it_takes_elements_of_attention_for_two_bytes(tmp_path: Path) -> None:
    name, dims = "aten::_scaled_dot_product_efficient_attention", [[2, 8, 1024, 64]] * 3
    values = ("", "", "", "", "False", "0.", "False", "")
    theirs, ours = rooflines(call(tmp_path, name, F32, dims, values), name, F32)
    assert ours["flops"] == round(theirs["GFLOPS"] * 1e9)
    assert ours["moved_bytes"] == 4 * 4 * 2 * 8 * 1024 * 64 == 2 * round(theirs["Data Moved (MB)"] * (1 << 20))


def test_it_counts_operations_of_elementwise_ops(tmp_path: Path) -> None:
    """One for each element of the result; to us only products are operations. Bytes are the same."""
    theirs, ours = rooflines(call(tmp_path, "aten::add", BF16, [[4096, 1024], [4096, 1024]]), "aten::add", BF16)
    assert (ours["flops"], round(theirs["GFLOPS"] * 1e9)) == (None, 4096 * 1024)
    assert ours["moved_bytes"] == round(theirs["Data Moved (MB)"] * (1 << 20))


def their_modules(file: Path) -> dict[str, float]:
    trace = analysed(file, python=True)
    tree, times = trace.tree, Counter[str]()
    modules = [one for one in tree.events if tree._is_nn_module_event(one)]
    for one in modules:
        if tree.get_nn_module_parent(one) is None:
            trace.build_nn_module_latency_tree(one)
    for one in modules:
        times[one["name"]] += one["GPU Time"]
    return dict(times)


def test_the_same_modules() -> None:
    """Its times are those of the forward pass."""
    theirs = their_modules(H200)
    analysis = profile_analysis(Analysis.of(aiflame.open(H200).store))
    times = Counter[str]()
    for layer, took in analysis.sites.filter(pl.col("layer") != "", phase="Forward").select("layer", "took").iter_rows():
        parts = layer.split(".")
        for depth in range(len(parts)):
            times[".".join(parts[: depth + 1])] += took / 1000
    outer = {name: time for name, time in times.items() if name != "Block"}  # a list of modules is none of its rows
    assert sorted(outer.values()) == near(sorted(time for name, time in theirs.items() if "Model" not in name))


def test_our_modules_have_the_backward_pass_too() -> None:
    (ours,) = aiflame.open(H200).stats("tracelens.module-tree").filter(path="Model").to_dicts()
    assert ours["device_ns"] / 1000 > 2 * their_modules(H200)["nn.Module: Model_0"]


def module(name: str, ts: float, dur: float) -> dict[str, Any]:
    return event("python_function", f"nn.Module: {name}", ts, dur)


def test_it_knows_no_module_without_work_on_a_device(tmp_path: Path) -> None:
    calls = [module("Net_0", 5, 200), module("Idle_0", 150, 20)]
    file = written(tmp_path, calls, launched("gemm", 20, 300, 50, 1))
    with pytest.raises(ValueError, match="No GPU events found"):
        their_modules(file)
    rows = aiflame.open(file).stats("tracelens.module-tree")
    assert dict(rows.select("path", "device_ns").iter_rows()) == {"Net": 50_000, "Idle": None}


def test_it_joins_by_arrows(tmp_path: Path) -> None:
    """We join by correlation ids. (In traces of ROCm some calls, of hipMemset, have no arrow's begin.)"""
    file = written_without_arrows(tmp_path, launched("gemm", 10, 100, 50, 1))
    assert analysed(file).get_df_kernel_launchers().empty
    assert aiflame.open(file).stats("tracelens.ops-summary")["op"].to_list() == ["aten::gemm"]


def test_it_leaves_communication_out_of_ops(tmp_path: Path) -> None:
    file = written(tmp_path, launched("gemm", 10, 100, 50, 1), launched("ncclDevKernel_AllReduce", 30, 200, 50, 2))
    theirs = analysed(file).get_df_kernel_launchers(include_kernel_details=True)
    assert theirs["name"].to_list() == ["aten::gemm"]
    assert aiflame.open(file).stats("tracelens.ops-summary")["op"].to_list() == ["aten::gemm", "aten::ncclDevKernel_AllReduce"]


def test_it_names_work_outside_of_ops_by_its_call(tmp_path: Path) -> None:
    alone = [event("cuda_runtime", "cudaMemcpyAsync", 60, 5, correlation=2), work("gpu_memcpy", "Memcpy HtoD", 200, 20, 2, bytes=1000)]
    file = written(tmp_path, launched("gemm", 10, 100, 50, 1), alone)
    theirs = analysed(file).get_df_kernel_launchers(include_kernel_details=True)
    assert dict(zip(theirs["name"], theirs["total_direct_kernel_time"], strict=True)) == {"aten::gemm": 50, "cudaMemcpyAsync": 20}
    ours = aiflame.open(file).stats("tracelens.ops-summary")
    assert dict(ours.select("op", "total_ns").iter_rows()) == {"aten::gemm": 50_000, "[no op]": 20_000}


def test_it_counts_time_of_kernels_side_by_side_once(tmp_path: Path) -> None:
    """An op that launches into two streams: 50 µs twice, of which 30 together."""
    both = [
        event("cpu_op", "aten::both", 5, 50),
        *launched("a", 10, 100, 50, 1)[1:],
        *launched("b", 30, 120, 50, 2, stream=8)[1:],
    ]
    file = written(tmp_path, both)
    assert analysed(file).get_df_kernel_launchers(include_kernel_details=True)["total_direct_kernel_time"].to_list() == [70]
    assert aiflame.open(file).stats("tracelens.ops-summary")["total_ns"].to_list() == [100_000]


def test_it_adds_up_the_devices(tmp_path: Path) -> None:
    other = launched("gemm", 1020, 1120, 50, 2)
    other[-1]["pid"] = other[-1]["args"]["device"] = 1
    file = written(tmp_path, launched("gemm", 1010, 1100, 50, 1), other)
    assert their_timeline(analysed(file))["busy"] == 70
    rows = aiflame.open(file).stats("tracelens.gpu-timeline").filter(time="busy")
    assert {row["device"][-3:]: row["total_ns"] for row in rows.to_dicts()} == {"[0]": 50_000, "[1]": 50_000}


def test_by_default_it_leaves_out_work_without_a_launch(tmp_path: Path) -> None:
    """We count it, as TraceLens does with include_unlinked_kernels=True."""
    file = written(tmp_path, launched("gemm", 10, 100, 50, 1), [work("kernel", "lost", 200, 30, 99)])
    assert [their_timeline(analysed(file, unlinked=unlinked))["busy"] for unlinked in (False, True)] == [50, 80]
    assert our_timeline(aiflame.open(file))["busy"] == 80

"""Memory, operations and shapes in torch's own `key_averages()` beside ours; and made traces whose sums are known."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kineto_events import event, launched, written

import aiflame

US = 1000
BYTES = ("self_cpu_memory", "cpu_memory", "self_device_memory", "device_memory")
REAL = Path(__file__).parents[3] / "data" / "traces" / "kineto" / "torch2.13_modules.json.gz"


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A small training under torch.profiler on a CPU, with shapes, memory and operations."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    flat = torch.nn.Flatten()
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2), torch.nn.ReLU(), flat, torch.nn.Linear(128, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"record_shapes": True, "with_flops": True, "profile_memory": True}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as profiler:
        for _ in range(2):
            with torch.profiler.record_function("forward"):
                loss = model(torch.randn(2, 4, 8, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        kept = [torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 5)), torch.mm(torch.randn(3, 4), torch.randn(4, 5))]
        kept += [torch.randn(4) * torch.randn(3, 4), torch.randn(3, 4) + 1, torch.randn(3, 4).mul_(2)]
    file = tmp_path_factory.mktemp("torch") / "trace.json"
    profiler.export_chrome_trace(str(file))
    return profiler, file


def own_name(name: str) -> str:
    return "optimizer" if name.startswith("Optimizer.step#") else name


def test_memory_and_operations_are_those_of_torch(profiled: tuple[Any, Path]) -> None:
    profiler, file = profiled
    ours = {row["name"]: row for row in aiflame.open(file).stats("torch.key-averages").to_dicts()}
    theirs = {own_name(row.key): row for row in profiler.key_averages()}
    assert {"[memory]", "forward", "aten::empty"} <= set(theirs) <= set(ours)
    for name, row in theirs.items():
        assert (name, ours[name]["calls"]) == (name, row.count)
        assert (name, ours[name]["self_cpu_memory_bytes"]) == (name, row.self_cpu_memory_usage)
        assert (name, ours[name]["cpu_memory_bytes"]) == (name, row.cpu_memory_usage)
    counted = {name: row.flops for name, row in theirs.items() if row.flops}
    assert set(counted) == {f"aten::{name}" for name in ("conv2d", "addmm", "mm", "bmm", "mul", "add")}
    assert {name: ours[name]["flops"] for name in counted} == counted
    assert ours["aten::linear"]["flops"] == ours["aten::addmm"]["flops"]  # torch does not count it
    assert all(row["device_memory_bytes"] is None for row in ours.values())


def test_shapes_of_inputs_are_those_of_torch(profiled: tuple[Any, Path]) -> None:
    profiler, file = profiled
    rows = aiflame.open(file).stats("torch.key-averages-by-shape").to_dicts()
    ours = {(row["name"], row["shapes"]): row for row in rows}
    theirs = {(row.key, json.dumps(row.input_shapes)): row for row in profiler.key_averages(group_by_input_shape=True) if row.input_shapes}
    assert len(theirs) > 40 and ("aten::mm", "[[3, 4], [4, 5]]") in theirs
    for key, row in theirs.items():
        mine = ours[key]
        assert (key, mine["calls"], mine["cpu_memory_bytes"]) == (key, row.count, row.cpu_memory_usage)
        assert mine["cpu_ns"] / 1000 == pytest.approx(row.cpu_time_total, abs=0.01)
        assert mine["self_cpu_ns"] / 1000 == pytest.approx(row.self_cpu_time_total, abs=0.01)
        assert (mine["flops"] or 0) == row.flops or not row.flops


def test_unique_arguments_name_types_and_values(profiled: tuple[Any, Path]) -> None:
    rows = aiflame.open(profiled[1]).stats("tracelens.ops-unique-args").to_dicts()
    calls = {(row["op"], row["arguments"]): row["calls"] for row in rows}
    assert calls["aten::addmm", "f32[4], f32[2, 128], f32[128, 4], 1, 1"] == 2
    assert calls["aten::bmm", "f32[2, 3, 4], f32[2, 4, 5]"] == 1


def allocated(ts: float, size: int, device: int = 1) -> dict[str, Any]:
    args = {"Bytes": size, "Device Type": device, "Device Id": 0}
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 4711, "tid": 1, "ts": ts, "args": args}


def test_memory_belongs_to_the_calls_that_run(tmp_path: Path) -> None:
    """`outer` from 10 to 110 allocates 100 bytes itself, 1000 through the op that it calls, which frees 10; 7 are outside of both."""
    calls = [event("cpu_op", "outer", 10, 100), event("cpu_op", "inner", 20, 50), event("user_annotation", "mine", 5, 200)]
    moments = [allocated(20.5, 1000), allocated(69.5, -10), allocated(100, 100), allocated(150, 5), allocated(300, 7), allocated(30, 64, 0)]
    rows = {row["name"]: row for row in aiflame.open(written(tmp_path, calls, moments)).stats("torch.key-averages").to_dicts()}
    sums = {name: [row[f"{of}_bytes"] for of in BYTES] for name, row in rows.items() if name != "aten::empty"}
    assert sums == {
        "outer": [0, 64, 100, 1090],
        "inner": [64, 64, 990, 990],
        "mine": [0, 64, 5, 1095],
        "[memory]": [0, 0, 7, 7],
    }
    assert rows["[memory]"]["calls"] == 1


@pytest.mark.parametrize(("fraction", "first", "second"), [(0, 0, 8), (0.5, 8, 8)])
def test_a_moment_at_which_one_call_ends_and_the_next_begins(tmp_path: Path, fraction: float, first: int, second: int) -> None:
    """In a trace with whole microseconds it belongs to the latter; in others to both, as torch has it."""
    calls = [event("cpu_op", "first", 10, 10), event("cpu_op", "second", 20, 10), event("cpu_op", "third", 50 + fraction, 1)]
    rows = aiflame.open(written(tmp_path, calls, [allocated(20, 8)])).stats("torch.key-averages")
    sums = dict(rows.select("name", "device_memory_bytes").iter_rows())
    assert (sums["first"], sums["second"], sums["third"]) == (first, second, 0)


def shaped(name: str, ts: float, dur: float, *dims: list[int]) -> dict[str, Any]:
    args: dict[str, Any] = {"Input Dims": list(dims), "Input type": ["c10::BFloat16"] * len(dims), "Concrete Inputs": [""] * len(dims)}
    return event("cpu_op", name, ts, dur, **args)


def test_work_of_devices_by_arguments(tmp_path: Path) -> None:
    """`aten::outer` has 10 µs of kernels of its own, and 100 through `aten::mm`, which is called with other shapes, too."""
    first = [shaped("aten::outer", 2, 90, [8]), shaped("aten::mm", 10, 40, [4, 8], [8, 2]), *launched("mm", 20, 100, 100, 1)[1:]]
    second = [*launched("fill", 60, 200, 10, 2)[1:], shaped("aten::mm", 100, 40, [6, 8], [8, 2]), *launched("mm", 110, 300, 50, 3)[1:]]
    profile = aiflame.open(written(tmp_path, first, second))
    rows = profile.stats("tracelens.ops-unique-args").to_dicts()
    assert [(row["op"], row["arguments"], row["self_device_ns"] // US, row["flops"], row["share_percent"]) for row in rows] == [
        ("aten::mm", "bf16[4, 8], bf16[8, 2]", 100, 2 * 4 * 8 * 2, 62.5),
        ("aten::mm", "bf16[6, 8], bf16[8, 2]", 50, 2 * 6 * 8 * 2, 31.25),
        ("aten::outer", "bf16[8]", 10, None, 6.25),
    ]
    by_shape = {(row["name"], row["shapes"]): row for row in profile.stats("torch.key-averages-by-shape").to_dicts()}
    outer = by_shape["aten::outer", "[[8]]"]
    assert [outer[name] // US for name in ("self_device_ns", "device_ns", "cpu_ns", "self_cpu_ns")] == [10, 110, 90, 45]


def test_a_call_of_its_like_counts_with_the_outer_shapes(tmp_path: Path) -> None:
    calls = [shaped("aten::sum", 10, 50, [3, 4]), shaped("aten::sum", 20, 30, [3, 4, 5])]
    (row,) = aiflame.open(written(tmp_path, calls)).stats("torch.key-averages-by-shape").filter(name="aten::sum").to_dicts()
    assert (row["calls"], row["cpu_ns"], row["self_cpu_ns"], row["shapes"]) == (1, 50 * US, 50 * US, "[[3, 4]]")


def test_nothing_of_it_without_shapes_and_memory(tmp_path: Path) -> None:
    profile = aiflame.open(written(tmp_path, [event("cpu_op", "aten::sum", 10, 50)]))
    assert profile.table("op_sums").is_empty()
    assert profile.stats("torch.key-averages-by-shape").is_empty() and profile.stats("tracelens.ops-unique-args").is_empty()
    row = profile.stats("torch.key-averages").row(0, named=True)
    assert all(row[name] is None for name in ("flops", "cpu_memory_bytes", "device_memory_bytes"))


@pytest.mark.parametrize("shapes", ["no list", [[1, "x"]], {"a": 1}, [[[2, 3], [4]], 5], [[1 << 70]], [[-3]]], ids=str)
def test_damaged_shapes(tmp_path: Path, shapes: object) -> None:
    args: dict[str, Any] = {"Input Dims": shapes, "Input type": 7, "Concrete Inputs": None}
    one = event("cpu_op", "aten::mm", 10, 50, **args)
    profile = aiflame.open(written(tmp_path, [one]))
    assert profile.stats("tracelens.ops-unique-args").height <= 1
    assert profile.stats("torch.key-averages").filter(name="aten::mm")["flops"].to_list() == [None]


def test_sums_of_a_real_trace() -> None:
    """Every allocation counts once: in the call that runs then and calls nothing, or outside of all."""
    with gzip.open(REAL, "rt") as text:
        events = json.load(text)["traceEvents"]
    moments = [one for one in events if one["name"] == "[memory]"]
    rows = aiflame.open(REAL).table("op_sums")
    assert rows["self_cpu_bytes"].sum() == sum(one["args"]["Bytes"] for one in moments) and len(moments) > 50
    shaped_calls = Counter(one["name"] for one in events if "Input Dims" in one.get("args", {}))
    assert rows.filter(name="aten::addmm")["calls"].sum() == shaped_calls["aten::addmm"] > 0

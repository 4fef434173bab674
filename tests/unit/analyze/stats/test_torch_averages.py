"""torch's own `key_averages()` beside ours, on the same profile; and counts of ops in real traces."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aiflame
from aiflame.attribute.stacks.own_metrics import metric_rows
from aiflame.attribute.trees.build import metrics
from aiflame.profile.schema.kinds import CALL_COUNTS

FOLDER = Path(__file__).parents[3] / "data" / "traces" / "kineto"
MORE = Path(os.environ.get("AIFLAME_TRACES", "/nowhere"), "kineto")
FILES = sorted([*FOLDER.glob("*.json.gz"), *MORE.glob("tracelens*.json.gz"), *MORE.glob("kineto-tb*.json.gz")])
CALLED = ("cpu_op", "Operator", "cuda_runtime", "cuda_driver", "Runtime")
NAMED = ("ProfilerStep#", "Optimizer.step#", "Optimizer.zero_grad#", "enumerate(DataLoader)#")


def profiled(folder: Path, *, stacks: bool = False) -> tuple[Any, Path]:
    """A small model's training under torch.profiler on a CPU."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=stacks) as profiler:
        for _ in range(3):
            with torch.profiler.record_function("forward"):
                loss = model(torch.randn(8, 16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            with torch.profiler.record_function("update"):
                optimizer.step()
    file = folder / "trace.json"
    profiler.export_chrome_trace(str(file))
    return profiler, file


def test_torch_says_the_same(tmp_path: Path) -> None:
    profiler, file = profiled(tmp_path)
    rows = {row["name"]: row for row in aiflame.open(file).stats("torch.key-averages").to_dicts()}
    theirs = {row.key: row for row in profiler.key_averages()}
    plain = {name: row for name, row in theirs.items() if not name.startswith("Optimizer.")}
    assert set(plain) <= set(rows) and "aten::addmm" in plain and "forward" in plain
    assert {name: rows[name]["calls"] for name in plain} == {name: row.count for name, row in plain.items()}
    assert {name: rows[name]["cpu_ns"] / 1000 for name in plain} == pytest.approx(
        {name: row.cpu_time_total for name, row in plain.items()}, abs=0.01, rel=1e-6
    )
    assert {name: rows[name]["self_cpu_ns"] / 1000 for name in plain} == pytest.approx(
        {name: row.self_cpu_time_total for name, row in plain.items()}, abs=0.01, rel=1e-6
    )
    assert all(row["device_ns"] is None and row["launches"] is None for row in rows.values())


def test_optimizers_have_the_name_that_recordings_give_them(tmp_path: Path) -> None:
    _, file = profiled(tmp_path)
    rows = {row["name"]: row["calls"] for row in aiflame.open(file).stats("torch.key-averages").to_dicts()}
    assert rows["optimizer"] == 3 and not any(name.startswith("Optimizer.step") for name in rows)


def test_counts_of_calls_are_no_metric(tmp_path: Path) -> None:
    _, file = profiled(tmp_path)
    profile = aiflame.open(file)
    assert profile.table("value_kinds")["name"].to_list() == [CALL_COUNTS]
    assert metrics(profile.store) == ["wall-time"] and CALL_COUNTS not in metric_rows(profile.store)


def test_stacks_name_the_code_around_an_op(tmp_path: Path) -> None:
    _, file = profiled(tmp_path, stacks=True)
    rows = aiflame.open(file).stats("torch.key-averages-by-stack").filter(pl.col("name") == "aten::addmm")
    assert rows["calls"].sum() == 6
    assert all("linear.py" in stack for stack in rows["stack"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_call_of_an_op_counts(file: Path) -> None:
    with gzip.open(file, "rt") as text:
        events = json.load(text)["traceEvents"]
    ops = [one for one in events if one.get("ph") == "X" and one.get("cat") in CALLED and not one["name"].startswith(NAMED)]
    calls = dict(aiflame.open(file).stats("torch.key-averages").select("name", "calls").iter_rows())
    every, twice = Counter(one["name"] for one in ops), alone_in_their_like(ops)
    for name in {one["name"] for one in ops if one["cat"] in ("cpu_op", "Operator")}:
        if any(one["dur"] == 0 for one in ops if one["name"] == name):  # whole microseconds do not say which call made which
            assert every[name] - twice[name] <= calls[name] <= every[name]
        else:
            assert (name, calls.get(name)) == (name, every[name] - twice[name])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_op_keeps_its_time(file: Path) -> None:
    """Also where it ends after the call in which it began."""
    with gzip.open(file, "rt") as text:
        events = json.load(text)["traceEvents"]
    ops = [one for one in events if one.get("ph") == "X" and one.get("cat") in CALLED and not one["name"].startswith(NAMED)]
    took: Counter[str] = Counter()
    for one in ops:
        took[one["name"]] += one["dur"]
    alone = alone_in_their_like(ops)
    times = dict(aiflame.open(file).stats("torch.key-averages").select("name", "cpu_ns").iter_rows())
    for name in {one["name"] for one in ops if one["cat"] in ("cpu_op", "Operator")} - set(alone):
        assert (name, times[name] / 1000) == (name, pytest.approx(took[name], rel=1e-6, abs=0.05))


def alone_in_their_like(ops: list[dict[str, Any]]) -> Counter[str]:
    """Calls that a call of the same name made, and nothing else: torch counts the two as one."""
    threads: dict[object, list[dict[str, Any]]] = {}
    for one in ops:
        threads.setdefault((one["pid"], one["tid"]), []).append(one)
    inner: Counter[int] = Counter()
    owners: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for rows in threads.values():
        stack: list[dict[str, Any]] = []
        for one in sorted(rows, key=lambda one: (one["ts"], -one["dur"])):
            while stack and one["ts"] >= stack[-1]["ts"] + stack[-1]["dur"]:
                stack.pop()
            if stack:
                owners.append((stack[-1], one))
                inner[id(stack[-1])] += 1
            stack.append(one)
    return Counter(one["name"] for owner, one in owners if owner["name"] == one["name"] and inner[id(owner)] == 1)


BUFFER = "Activity Buffer Request"
ON_H200 = {
    "torch2.11_h200": {BUFFER, "aten::layer_norm", "aten::native_layer_norm", "forward_part"},
    "torch2.11_h200_copies": {BUFFER, "aten::to", "aten::_to_copy", "aten::copy_"},
}
"""Rows with work that torch counts twice: it was launched while the profiler asked for a buffer, and torch gives it to that, too."""


@pytest.mark.parametrize("name", ON_H200)
def test_torch_says_the_same_of_a_gpu(name: str) -> None:
    file = FOLDER / f"{name}.json.gz"
    theirs = {
        row["key"]: row for row in json.loads(gzip.decompress(file.read_bytes()))["key_averages"] if row["device_type"].endswith("CPU")
    }
    rows = {row["name"]: row for row in aiflame.open(file).stats("torch.key-averages").to_dicts()}
    names = {key for key in theirs if not key.startswith("Optimizer.step")} - {"[memory]"}
    assert names <= set(rows) and len(names) > 10
    for ours, their in (("cpu_ns", "cpu_time_total"), ("self_cpu_ns", "self_cpu_time_total"), ("self_device_ns", "self_device_time_total")):
        own = {key: rows[key][ours] / 1000 for key in names - {BUFFER}}
        assert own == pytest.approx({key: theirs[key].get(their, 0) for key in own}, abs=0.02, rel=1e-5), ours
    assert {key: rows[key]["calls"] for key in names} == {key: theirs[key]["count"] for key in names}
    differing = {
        key for key in names if rows[key]["device_ns"] / 1000 != pytest.approx(theirs[key].get("device_time_total", 0), abs=0.02, rel=1e-5)
    }
    assert differing == ON_H200[name]
    twice = theirs[BUFFER]["device_time_total"]
    assert {round(theirs[key]["device_time_total"] - rows[key]["device_ns"] / 1000, 1) for key in differing} == {round(twice, 1)}

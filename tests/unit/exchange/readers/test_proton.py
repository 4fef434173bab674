"""Proton's trees of scopes as profiles."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from proton_trees import MADE, kernel, node, packed

import aiflame
from aiflame.errors import AiflameError
from aiflame.exchange.readers.door import imported
from aiflame.profile.schema.enums import GpuApi

REAL = sorted(
    file for file in Path(os.environ.get("AIFLAME_TRACES", "/nowhere"), "proton").glob("*") if file.suffix in (".hatchet", ".json")
)
OF_KERNELS = ("time (ns)", "count", "device_id", "device_type")


def written(path: Path, content: object) -> Path:
    path.write_text("\n" + json.dumps(content, indent=2))
    return path


def test_launches_and_time_of_each_context_are_the_files(tmp_path: Path) -> None:
    profile = aiflame.open(written(tmp_path / "a.hatchet", MADE))
    rows = profile.table("kernels").join(profile.table("kernel_shapes"), left_on=["process", "shape"], right_on=["process", "id"])
    took = (pl.col("end_ns") - pl.col("start_ns")).cast(pl.Int64)
    sums = rows.group_by("name", "device").agg(took.sum(), launches=pl.len()).sort("name", "device").rows()
    assert sums == [("matmul", "HIP gfx942 [0]", 1_000, 3), ("relu", "HIP [1]", 7, 2), ("relu", "HIP gfx942 [0]", 5, 1)]
    assert rows.filter(pl.col("name") == "matmul").select(took)["end_ns"].sort().to_list() == [333, 333, 334]
    assert set(profile.table("launches")["api"]) == {GpuApi.HIP}
    for _, one in rows.sort("device", "start_ns").group_by("device"):
        assert (one["start_ns"][1:] >= one["end_ns"][:-1]).all(), "a device does one thing at a time"


def test_the_tree_of_gpu_time_is_that_of_the_file(tmp_path: Path) -> None:
    tree = aiflame.open(written(tmp_path / "a.hatchet", MADE)).tree("gpu-time")
    names = tree.frames["name"].to_list()
    assert {"ROOT", "train", "scope", "matmul [M=16]", "matmul", "relu"} <= set(names)


def test_other_metrics_are_values_of_stacks(tmp_path: Path) -> None:
    profile = aiflame.open(written(tmp_path / "a.hatchet", MADE))
    kinds = profile.table("value_kinds").rename({"name": "metric"})
    rows = profile.table("stack_values").join(kinds, left_on=["process", "kind"], right_on=["process", "id"])
    assert sorted(rows.select("metric", "unit", "value").rows()) == [
        ("bytes", "bytes", 100),
        ("cpu_time", "ns", 12_345),
        ("flops16", "flops", 64),
    ]


@pytest.mark.parametrize(
    "content",
    [
        [node("ROOT"), {}],
        [node("ROOT", kernel("k", 5, 10**12))],
        [node("ROOT", kernel("k", -5, -2), node("x", **{"time (ns)": "5", "count": True, "bytes": [1], "flops": 1e308}))],
        [node("ROOT", kernel("k", 10**400, 1))],
        [kernel("k", 5, 1), {"HIP": 5}, None, 7],
        [{"frame": None, "metrics": None, "children": [None, 5, {"children": {}}]}],
    ],
)
def test_odd_trees_are_profiles(content: object, tmp_path: Path) -> None:
    assert imported(written(tmp_path / "a.hatchet", content)).has_file("meta.json")


def test_a_tree_without_end_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.hatchet"
    file.write_text('[{"frame": {"name": "a"}, "metrics": {}, "children": ' + '[{"children":' * 100_000)
    with pytest.raises(AiflameError, match="no whole JSON document"):
        imported(file)


def test_a_deep_tree_is_read(tmp_path: Path) -> None:
    tree = kernel("leaf", 5, 1)
    for depth in range(300):
        tree = node(f"f{depth}", tree)
    assert aiflame.open(written(tmp_path / "a.hatchet", [tree])).table("kernels").height == 1


@pytest.mark.parametrize("name", ["short", "long" * 20, "longer" * 20_000])
def test_msgpack_is_read_as_json(name: str, tmp_path: Path) -> None:
    content = [
        node("ROOT", *MADE[0]["children"], node(name, kernel("k", 1 << 40, 300, bytes=-5, x=-200, y=2.5, list=[1, -70_000]))),
        MADE[1],
    ]
    first = aiflame.open(written(tmp_path / "a.hatchet", content))
    (tmp_path / "b.hatchet_msgpack").write_bytes(packed(content))
    second = aiflame.open(tmp_path / "b.hatchet_msgpack")
    for table in ("kernels", "kernel_shapes", "stacks", "named_frames", "codes", "launches", "stack_values", "value_kinds"):
        assert first.table(table).equals(second.table(table)), table
    assert second.table("kernels").height == 306


def test_deep_and_endless_msgpack_does_no_harm(tmp_path: Path) -> None:
    begin = b"\x92\x83\xa5frame\x82\xa4name\xa1a\xa4type\xa1b\xa7metrics\x80\xa8children"
    for name, tail in (("deep", b"\x91" * 1_000_000), ("large", b"\xdd\xff\xff\xff\xff"), ("type", b"\xc1")):
        file = tmp_path / name
        file.write_bytes(begin + tail)
        with pytest.raises(AiflameError, match="is damaged"):
            imported(file)


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.name)
def test_a_real_tree_has_its_own_sums(file: Path) -> None:
    waiting = [tree for tree in json.loads(file.read_bytes()) if "frame" in tree]
    time, count, others = 0, 0, Counter[str]()
    while waiting:
        one = waiting.pop()
        waiting += one["children"]
        time += one["metrics"].get("time (ns)", 0)
        count += one["metrics"].get("count", 0)
        for name, value in one["metrics"].items():
            if name not in OF_KERNELS and math.isfinite(value) and value:
                others[name.removesuffix(" (ns)")] += round(value)
    profile = aiflame.open(file)
    kernels = profile.table("kernels")
    assert (int((kernels["end_ns"] - kernels["start_ns"]).sum()), kernels.height) == (time, count)
    if others:
        rows = profile.table("stack_values").join(profile.table("value_kinds"), left_on=["process", "kind"], right_on=["process", "id"])
        assert dict(rows.group_by("name").agg(pl.col("value").sum()).rows()) == others

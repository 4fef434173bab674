"""Files that tools wrote on an H200 (torch 2.11, JAX 0.11, Triton 3.6): sums beside those that the tools themselves name."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aiflame
from aiflame.analyze.overview.summary import summarize
from aiflame.attribute.devices.work import work
from aiflame.attribute.prefixes import Prefix

TRACES = Path(__file__).parents[2] / "data" / "traces"
TOOK = (pl.col("end_ns") - pl.col("start_ns")).cast(pl.Int64)


def document(name: str) -> Any:
    return json.loads(gzip.decompress((TRACES / name).read_bytes()))


def time_by_kernel(profile: aiflame.Profile) -> dict[str, tuple[int, int]]:
    """Launches and nanoseconds of each kernel."""
    rows = profile.table("kernels").join(profile.table("kernel_shapes"), left_on=["process", "shape"], right_on=["process", "id"])
    return {name: (count, took) for name, count, took in rows.group_by("name").agg(pl.len(), TOOK.sum()).iter_rows()}


def test_xplane_has_the_kernels_of_jaxs_own_json() -> None:
    events = document("xplane/jax0.11.2_h200.trace.json.gz")["traceEvents"]
    (device,) = (one["pid"] for one in events if one.get("name") == "process_name" and "GPU" in one["args"]["name"])
    theirs, launches, copies = Counter[str](), Counter[str](), 0.0
    for one in events:
        if one.get("ph") == "X" and one["pid"] == device:
            if one["name"].startswith("Memcpy"):
                copies += one["dur"]
            else:
                theirs[one["name"]] += round(one["dur"] * 1000)
                launches[one["name"]] += 1
    profile = aiflame.open(TRACES / "xplane/jax0.11.2_h200.xplane.pb.gz")
    ours = time_by_kernel(profile)
    assert {name: count for name, (count, _) in ours.items()} == launches
    assert {name: took for name, (_, took) in ours.items()} == pytest.approx(theirs, abs=3)
    assert profile.table("copies").select(TOOK.sum()).item() == pytest.approx(copies * 1000, abs=3)


def test_a_snapshot_has_the_bytes_that_torch_counted() -> None:
    """torch.cuda.memory_allocated() said 192,857,600, with sizes rounded up."""
    profile = aiflame.open(TRACES / "memory/torch2.11_h200.pickle.gz")
    (lost,) = (note for note in profile.store.meta.degraded if "lost by rounding" in note)
    assert "2.23 KiB are lost by rounding" in lost
    assert profile.tree("gpu-bytes@end").total("gpu-bytes@end") == 192_857_600 - 2_288


def test_the_two_timelines_of_one_run_have_the_same_bytes() -> None:
    profiles = [aiflame.open(TRACES / f"memory/torch2.11_h200_timeline.{suffix}.gz") for suffix in ("json", "raw.json")]
    for metric in ("live-at-peak", "live-at-end"):
        by_category = []
        for profile in profiles:
            tree = profile.tree(metric)
            names = tree.frames["name"].to_list()
            by_category.append({names[tree.frame[node]]: value for node, value in enumerate(tree.values[metric].tolist()) if value})
        assert by_category[0] == by_category[1] and by_category[0]
    _, sizes = document("memory/torch2.11_h200_timeline.json.gz")
    assert profiles[0].tree("live-at-peak").total("live-at-peak") == max(map(sum, sizes))


def test_jaxs_memory_profile_has_its_arrays() -> None:
    """Four arrays of floats: 1024 by 1024, twice; 512 by 1024; and a scalar's block of 256 bytes at most."""
    profile = aiflame.open(TRACES / "memory/jax0.11.2_h200.pb.gz")
    total = profile.tree("gpu-bytes").total("gpu-bytes")
    assert 0 <= total - 4 * (2 * 1024 * 1024 + 512 * 1024) <= 256


def test_protons_tree_and_trace_have_the_same_kernels() -> None:
    nodes, theirs = list(document("proton/triton3.6_h200.hatchet.gz")[:1]), Counter[str]()
    while nodes:
        node = nodes.pop()
        nodes += node["children"]
        if node["metrics"].get("count"):
            theirs[node["frame"]["name"]] += node["metrics"]["count"]
    tree, trace = (aiflame.open(TRACES / f"proton/triton3.6_h200.{suffix}.gz") for suffix in ("hatchet", "chrome_trace"))
    assert {name: count for name, (count, _) in time_by_kernel(tree).items()} == theirs
    assert {name: count for name, (count, _) in time_by_kernel(trace).items()} == theirs
    idle = [summarize(profile.store, profile.meta).scope.idle_text for profile in (tree, trace)]
    assert idle[0] == "" and idle[1].startswith("GPU idle 99.8%")


def test_jaxs_own_json_has_the_kernels_of_its_xplane() -> None:
    """Its times are cut to thousandths of a microsecond."""
    ours, other = (time_by_kernel(aiflame.open(TRACES / f"xplane/jax0.11.2_h200.{suffix}.gz")) for suffix in ("trace.json", "xplane.pb"))
    assert {name: count for name, (count, _) in ours.items()} == {name: count for name, (count, _) in other.items()}
    assert {name: took for name, (_, took) in ours.items()} == pytest.approx({name: took for name, (_, took) in other.items()}, abs=3)


def test_jaxs_own_json_has_the_steps_of_its_xplane() -> None:
    """Its times are cut to thousandths of a microsecond."""
    profiles = [aiflame.open(TRACES / f"xplane/jax0.11.2_h200.{suffix}.gz") for suffix in ("trace.json", "xplane.pb")]
    regions, kernels = [], []
    for profile in profiles:
        ends = profile.table("region_ends").select("process", "end_ns", id="region")
        rows = profile.table("regions").join(ends, on=["process", "id"]).sort("payload")
        took = (pl.col("end_ns") - pl.col("begin_ns")).cast(pl.Int64)
        regions.append(rows.select("name", "category", "api", "kind", "payload", "payload_type", took).rows())
        executions = work(profile.store, Prefix(("phase", "layer"))).executions
        kernels.append(executions.filter(pl.col("step") >= 0).group_by("step").len().sort("step").rows())
    assert [row[4] for row in regions[0]] == [0, 1, 2]
    for own, other in zip(*regions, strict=True):
        assert own[:-1] == other[:-1] and own[-1] == pytest.approx(other[-1], abs=3)
    assert kernels[0] == kernels[1] and [step for step, _ in kernels[0]] == [0, 1, 2]

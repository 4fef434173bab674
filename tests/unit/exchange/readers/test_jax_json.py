"""Devices in the Chrome JSON of JAX's profiler, in traces made as XLA's sources write them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.enums import CopyKind

HOST, GPU, OTHER = 701, 1, 2


def named(pid: int, process: str, **threads: str) -> list[dict[str, Any]]:
    lines = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}}]
    return lines + [
        {"ph": "M", "pid": pid, "tid": int(tid[1:]), "name": "thread_name", "args": {"name": text}} for tid, text in threads.items()
    ]


def event(pid: int, tid: int, name: str, ts: float, dur: float, **args: str) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": args}


def opened(folder: Path, *events: list[dict[str, Any]]) -> aiflame.Profile:
    file = folder / "host.trace.json.gz"
    document = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*(one for of in events for one in of), {}]}
    file.write_bytes(gzip.compress(json.dumps(document).encode()))
    return aiflame.open(file)


def example(folder: Path) -> aiflame.Profile:
    """A step of 100 µs launches a kernel of 30 µs and a copy of 10 µs on one GPU, and the same kernel of 20 µs on another, whose launch is
    not in the trace."""
    details = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
    return opened(
        folder,
        named(HOST, "/host:CPU", t7="python3"),
        named(GPU, "/device:GPU:0", t13="Stream #13(Compute)", t14="Stream #14(MemcpyH2D)", t90="XLA Modules", t91="XLA Ops"),
        named(OTHER, "/device:GPU:1", t13="Stream #13(Compute)"),
        [event(HOST, 7, "train", 10, 100, step_num="0")],
        [event(HOST, 7, "cuLaunchKernel", 20, 5, correlation_id="41"), event(HOST, 7, "cuMemcpyHtoDAsync", 30, 4, correlation_id="42")],
        [event(GPU, 13, "loop_add_fusion", 50, 30, correlation_id="41", hlo_op="loop_add_fusion", hlo_module="jit_step")],
        [event(GPU, 14, "MemcpyH2D", 60, 10, correlation_id="42", memcpy_details=details)],
        [event(GPU, 90, "jit_step(1)", 50, 30), event(GPU, 91, "loop_add_fusion", 50, 30)],
        [event(OTHER, 13, "loop_add_fusion", 55, 20, correlation_id="77")],
    )


def test_streams_have_kernels_and_copies(tmp_path: Path) -> None:
    store = example(tmp_path).store
    kernels = store.table("kernels").with_columns(took=pl.col("end_ns") - pl.col("start_ns"))
    devices = dict(store.table("kernel_shapes").select("id", "device").iter_rows())
    assert sorted((devices[shape], took) for shape, took in kernels.select("shape", "took").iter_rows()) == [
        ("GPU [0]", 30_000),
        ("GPU [1]", 20_000),
    ]
    (copy,) = store.table("copies").to_dicts()
    assert (copy["bytes"], copy["kind"], copy["end_ns"] - copy["start_ns"]) == (4096, int(CopyKind.HOST_TO_DEVICE), 10_000)
    assert store.meta.imported is not None
    assert {name: count for name, count in store.meta.imported.unused.items() if "derived" in name} == {
        "events of the derived line XLA Modules": 1,
        "events of the derived line XLA Ops": 1,
    }
    assert any("1 kernels and copies of the trace have no call" in note for note in store.meta.degraded)


def test_work_hangs_below_its_launch(tmp_path: Path) -> None:
    profile = example(tmp_path)
    listed = top(tree(profile.store, "gpu-time"), "function", "gpu-time").to_dicts()
    rows = {row["name"]: (row["self"], row["total"]) for row in listed}
    assert rows["cuLaunchKernel"] == (0, 30_000) and rows["cuMemcpyHtoDAsync"] == (0, 10_000)
    assert rows["train"] == (0, 40_000)
    assert sorted(row["self"] for row in listed if row["name"] == "loop_add_fusion") == [20_000, 30_000]  # by device
    calls = {row["name"]: row["self"] for row in top(tree(profile.store, "wall-time"), "function", "wall-time").to_dicts()}
    assert calls == {"train": 91_000, "cuLaunchKernel": 5_000, "cuMemcpyHtoDAsync": 4_000}


def test_calls_with_the_number_of_a_step_are_steps(tmp_path: Path) -> None:
    annotation = {**event(HOST, 7, "mine", 5, 200), "cat": "user_annotation"}
    store = opened(
        tmp_path,
        named(HOST, "/host:CPU", t7="python3"),
        [annotation, event(HOST, 7, "train", 10, 100, step_num="7"), event(HOST, 7, "train", 120, 50, step_num="8")],
        [event(HOST, 7, "train", 180, 1, step_num="nine")],
    ).store
    regions = store.table("regions").join(store.table("region_ends"), left_on=["process", "id"], right_on=["process", "region"])
    took = pl.col("end_ns") - pl.col("begin_ns")
    assert sorted(regions.select("name", "category", "payload", took).rows()) == [
        ("mine", "", 0, 200_000),
        ("train", "step", 7, 100_000),
        ("train", "step", 8, 50_000),
    ]


def test_a_trace_without_streams_keeps_its_threads(tmp_path: Path) -> None:
    """The lines of a TPU: its XPlane file says which of them are derived from others."""
    profile = opened(tmp_path, named(GPU, "/device:TPU:0", t91="XLA Ops"), [event(GPU, 91, "fusion.1", 50, 30)])
    assert profile.store.table("kernels").is_empty()
    rows = top(tree(profile.store, "wall-time"), "function", "wall-time").to_dicts()
    assert [(row["name"], row["self"]) for row in rows] == [("fusion", 30_000)]


@pytest.mark.parametrize("details", ["", "size:", "size:99999999999999999999", "size:-4", "num_bytes:8"])
def test_damaged_descriptions_of_copies(tmp_path: Path, details: str) -> None:
    names = named(GPU, "/device:GPU:0", t14="Stream #14(MemcpyH2D)")
    copies = opened(tmp_path, names, [event(GPU, 14, "MemcpyH2D", 60, 10, correlation_id="x", memcpy_details=details)]).store.table(
        "copies"
    )
    assert copies["bytes"].to_list() == [8 if details == "num_bytes:8" else 0]

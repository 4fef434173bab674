"""Snapshots that torch wrote, imported and written again: segments, blocks, their addresses, and the events of the trace are equal."""

from __future__ import annotations

import gzip
import importlib.util
import io
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from called_lines import CODES, F_9, MAIN_3, SYMBOLS
from memory_snapshots import Device, python, snapshot, written
from profiles import Row, sealed

import aiflame
from aiflame.exchange.writers.torch_memory import write
from aiflame.profile.schema.enums import AllocationKind, GpuApi
from aiflame.profile.tables.interface import Tables

REAL = Path(__file__).parents[3] / "data" / "traces" / "memory" / "torch2.11_h200.pickle.gz"
MIB = 1 << 20
OF_SEGMENT = ("device", "address", "total_size", "stream", "segment_type", "segment_pool_id", "is_expandable")
SIZES = ("allocated_size", "active_size", "requested_size")


def exported(profile: Tables) -> dict[str, Any]:
    data = io.BytesIO()
    write(profile, data, 0)
    return dict(pickle.loads(data.getvalue()))


def again(content: object, folder: Path) -> dict[str, Any]:
    (folder / "snapshot.pickle").write_bytes(written(content))
    return exported(aiflame.open(folder / "snapshot.pickle").store)


@pytest.fixture(scope="module")
def real() -> tuple[dict[str, Any], dict[str, Any]]:
    return dict(pickle.loads(gzip.decompress(REAL.read_bytes()))), exported(aiflame.open(REAL).store)


def segments(content: dict[str, Any], *names: str) -> list[tuple[object, ...]]:
    return sorted(tuple(one[name] for name in names) for one in content["segments"])


def events(content: dict[str, Any], *actions: str) -> list[list[tuple[object, ...]]]:
    names = ("action", "addr", "size", "stream")
    return [[tuple(one[name] for name in names) for one in trace if one["action"] in actions] for trace in content["device_traces"]]


def test_segments_are_torchs(real: tuple[dict[str, Any], dict[str, Any]]) -> None:
    theirs, ours = real
    assert segments(ours, *OF_SEGMENT, *SIZES) == segments(theirs, *OF_SEGMENT, *SIZES)
    assert len(ours["segments"]) == 33


def test_blocks_are_torchs(real: tuple[dict[str, Any], dict[str, Any]]) -> None:
    def blocks(content: dict[str, Any]) -> list[tuple[object, ...]]:
        """Torch keeps the size of the last request in a block that is free."""
        names = ("address", "size", "state")
        every = [one for segment in content["segments"] for one in segment["blocks"]]
        return sorted((*(one[name] for name in names), one["state"] != "inactive" and one["requested_size"]) for one in every)

    theirs, ours = map(blocks, real)
    assert ours == theirs


def test_events_are_torchs_in_their_order(real: tuple[dict[str, Any], dict[str, Any]]) -> None:
    theirs, ours = real
    for actions in (("alloc", "free_completed"), ("free_requested",)):
        assert events(ours, *actions) == events(theirs, *actions)
    assert sum(map(len, ours["device_traces"])) == sum(map(len, theirs["device_traces"])) == 939


def test_a_written_snapshot_is_read_as_the_first(real: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path) -> None:
    _, ours = real
    assert again(ours, tmp_path)["segments"] == ours["segments"]


def test_segments_come_and_go_and_requests_fail(tmp_path: Path) -> None:
    device = Device(1)
    stack = [python("work")]
    kept, freed = device.alloc(700, stack), device.alloc(4 * MIB, stack)
    device.free(freed, stack)
    device._record("segment_free", freed, 4 * MIB, stack)
    device.segments.pop()
    device.fail(1 << 40, 5 * MIB, stack)
    ours = again(snapshot(device), tmp_path)
    _, trace = ours["device_traces"]
    assert [one["action"] for one in trace] == [one["action"] for one in device.trace]
    assert [(one.get("addr"), one["size"]) for one in trace] == [(one.get("addr"), one["size"]) for one in device.trace]
    assert trace[-1]["device_free"] == 5 * MIB and trace[-1]["frames"] == stack
    (segment,) = ours["segments"]
    assert (segment["device"], segment["address"], segment["blocks"][0]["size"]) == (1, kept, 1024)


def test_expandable_segments_are_mapped_and_unmapped(tmp_path: Path) -> None:
    first, part = 1 << 40, 20 * MIB
    trace = [
        {"action": action, "addr": first + at * part, "size": size, "stream": 0, "time_us": 10 * number, "frames": []}
        for number, (action, at, size) in enumerate(
            [
                ("segment_map", 0, part),
                ("segment_map", 1, part),
                ("alloc", 0, 30 * MIB),
                ("segment_map", 2, part),
                ("segment_unmap", 2, part),
            ]
        )
    ]
    block = {"address": first, "size": 30 * MIB, "requested_size": 30 * MIB, "state": "active_allocated", "frames": []}
    unused = {**block, "address": first + 30 * MIB, "size": 10 * MIB, "requested_size": 0, "state": "inactive"}
    listed = {"device": 0, "address": first, "total_size": 2 * part, "stream": 0, "segment_pool_id": (0, 0), "is_expandable": True}
    ours = again({"segments": [{**listed, "blocks": [block, unused]}], "device_traces": [trace]}, tmp_path)
    assert events(ours, "segment_map", "segment_unmap", "alloc") == events(
        {"device_traces": [trace]}, "segment_map", "segment_unmap", "alloc"
    )
    (segment,) = ours["segments"]
    assert segment["is_expandable"] and (segment["address"], segment["total_size"]) == (first, 2 * part)
    assert [(one["address"], one["size"], one["state"]) for one in segment["blocks"]] == [
        (first, 30 * MIB, "active_allocated"),
        (first + 30 * MIB, 10 * MIB, "inactive"),
    ]


def test_a_recording_has_the_allocators_addresses_and_others_beside(tmp_path: Path) -> None:
    gpu, first = "NVIDIA H200 [3]", 0x7F00_0000_0000
    driver: Row = {"kind": int(AllocationKind.TAKE), "device": gpu, "api": int(GpuApi.CUDA)}
    pool = {"kind": int(AllocationKind.TAKE), "device": gpu, "address": first + 512, "bytes": 1024, "time_ns": 20, "stack": 2}
    profile = sealed(
        tmp_path / "p.aiflame",
        symbols=SYMBOLS,
        codes=CODES,
        stacks=[{"parent": 0, "frame": MAIN_3}, {"parent": 1, "frame": F_9}],
        allocations=[
            {**driver, "address": first, "bytes": 2 * MIB, "time_ns": 10},
            {**driver, "address": first + (1 << 30), "bytes": 100, "time_ns": 30},
        ],
        pool_blocks=[{**pool, "used": 1024, "held": 2 * MIB}],
    )
    content = exported(profile)
    assert [len(trace) for trace in content["device_traces"]] == [0, 0, 0, 3]
    allocator, others = sorted(content["segments"], key=lambda one: one["total_size"], reverse=True)
    assert (allocator["address"], allocator["total_size"]) == (first, 2 * MIB)
    assert [(one["address"], one["size"], one["state"]) for one in allocator["blocks"]] == [
        (first, 512, "inactive"),
        (first + 512, 1024, "active_allocated"),
        (first + 1536, 2 * MIB - 1536, "inactive"),
    ]
    assert others["address"] >= first + 2 * MIB and others["total_size"] == 100, "an address that no segment has"


@pytest.fixture(scope="module")
def memory_viz() -> ModuleType:
    """Torch's own reader of snapshots, without the rest of torch."""
    torch = importlib.util.find_spec("torch")
    folders = [] if torch is None else list(torch.submodule_search_locations or ())
    file = next((path for folder in folders if (path := Path(folder) / "cuda" / "_memory_viz.py").exists()), None)
    if file is None:
        pytest.skip("torch is not installed")
    spec = importlib.util.spec_from_file_location("_memory_viz", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_torchs_own_reader_says_the_same_of_both(real: tuple[dict[str, Any], dict[str, Any]], memory_viz: ModuleType) -> None:
    theirs, ours = real
    assert memory_viz.segsum(ours) == memory_viz.segsum(theirs)
    assert memory_viz.trace(ours) == memory_viz.trace(theirs)
    for plot in (memory_viz.trace_plot, memory_viz.segment_plot):
        assert len(plot(ours)) > 1000

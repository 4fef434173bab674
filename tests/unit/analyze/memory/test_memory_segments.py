"""The map of device memory: segments of torch's caching allocator, the blocks in them, and the lines that keep holes."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from called_lines import CODES, F_9, MAIN_3, SYMBOLS
from memory_snapshots import Device, python, snapshot, written
from profiles import Row, sealed

import aiflame
from aiflame.analyze.findings.memory import memory_findings
from aiflame.analyze.memory.segments import MemoryMap, memory_map, pins
from aiflame.analyze.tables.all import tables
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.memory.moments import Moment
from aiflame.profile.schema.enums import AllocationKind, GpuApi
from aiflame.profile.tables.interface import Tables

MIB = 1 << 20
START = 1_000_000_000
GPU = "GPU 0"
FIRST, SECOND, THIRD = 1 << 40, 2 << 40, 3 << 40
REAL = Path(__file__).parents[3] / "data" / "traces" / "memory" / "torch2.11_h200.pickle.gz"


def change(at: int, address: int, size: int) -> Row:
    """A negative size comes back."""
    kind = AllocationKind.TAKE if size > 0 else AllocationKind.RELEASE
    return {"kind": int(kind), "device": GPU, "address": address, "bytes": abs(size), "time_ns": START + at}


def given(at: int, address: int, size: int, stack: int = 0) -> Row:
    return {**change(at, address, size), "used": 0, "held": 0, "stack": stack}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Three segments of 20 MiB, in the first two of which main() and f() have small blocks when a request of 16 MiB is refused."""
    segments = [change(0, FIRST, 20 * MIB), change(1, SECOND, 20 * MIB), change(2, THIRD, 20 * MIB), change(30, THIRD, -20 * MIB)]
    blocks = [
        given(3, FIRST, 12 * MIB, 1),
        given(4, FIRST + 12 * MIB, 2 * MIB, 1),
        given(5, SECOND + 9 * MIB, MIB, 2),
        given(6, THIRD, 20 * MIB, 2),
        given(10, FIRST, -12 * MIB),
        given(20, THIRD, -20 * MIB),
    ]
    refused = {"stack": 2, "memory": GPU, "bytes": 16 * MIB, "used": 3 * MIB, "held": 40 * MIB, "time_ns": START + 40}
    return sealed(
        tmp_path_factory.mktemp("segments") / "p.aiflame",
        symbols=SYMBOLS,
        codes=CODES,
        stacks=[{"parent": 0, "frame": MAIN_3}, {"parent": 0, "frame": F_9}],
        processes=[{"pid": 7, "start_ns": START}],
        pool_blocks=blocks,
        allocations=[{**one, "api": int(GpuApi.CUDA)} for one in segments],
        memory_refusals=[refused],
    )


def seen(profile: Tables, moment: str) -> MemoryMap:
    memory = memory_map(Analysis.of(profile), Moment.parse(moment))
    assert memory is not None
    return memory


def sizes(memory: MemoryMap) -> list[tuple[int, ...]]:
    """Address, used, unused, largest hole and their number, in MiB, by address."""
    rows = memory.segments.sort("address").select("address", "used", "unused", "largest", "holes")
    return [(address, *(size // MIB for size in of_bytes), holes) for address, *of_bytes, holes in rows.rows()]


def test_holes_lie_before_between_and_behind_blocks(recorded: Tables) -> None:
    assert sizes(seen(recorded, "oom")) == [(FIRST, 2, 18, 12, 2), (SECOND, 1, 19, 10, 2)]
    assert sizes(seen(recorded, "peak")) == [(FIRST, 14, 6, 6, 1), (SECOND, 1, 19, 10, 2), (THIRD, 20, 0, 0, 0)]


def test_lines_keep_the_holes_of_the_segments_of_their_blocks(recorded: Tables) -> None:
    (second, first) = pins(seen(recorded, "oom"), 0, GPU)
    assert second.name.startswith("f()") and (second.bytes, second.beside) == (MIB, 19 * MIB)
    assert first.name.startswith("main()") and (first.bytes, first.beside) == (2 * MIB, 18 * MIB)


def test_the_finding_of_a_refused_request_says_who_keeps_the_holes(recorded: Tables) -> None:
    (sentence,) = (one.sentence for one in memory_findings(Analysis.of(recorded)) if one.kind == "memory-refused")
    assert "37 MiB in pieces that were too small (the largest: 12 MiB), 51% of them beside 1 MiB from f()" in sentence


def test_the_table_has_the_moment_of_the_refusal(recorded: Tables) -> None:
    table = next(one for one in tables(recorded) if one.name == "memory_segments")
    assert table.title == "Segments of memory when an allocation failed"
    assert table.rows.select("unused", "largest", "function").rows() == [(19 * MIB, 10 * MIB, "f"), (18 * MIB, 12 * MIB, "main")]


def test_a_profile_without_segments_has_no_map(tmp_path: Path) -> None:
    profile = sealed(tmp_path / "p.aiflame", pool_blocks=[given(3, FIRST, 512)], processes=[{"pid": 7, "start_ns": START}])
    assert memory_map(Analysis.of(profile), Moment()) is None


def test_segments_of_a_real_snapshot_have_the_bytes_that_torch_counted() -> None:
    profile = aiflame.open(REAL).store
    content = pickle.loads(gzip.decompress(REAL.read_bytes()))
    theirs = sorted((one["address"], one["total_size"], one["active_size"]) for one in content["segments"])
    ours = seen(profile, "end").segments
    assert ours.select("address", "bytes", "used").sort("address").rows() == theirs
    unused = {one["address"]: [block["size"] for block in one["blocks"] if block["state"] == "inactive"] for one in content["segments"]}
    assert dict(ours.select("address", "largest").rows()) == {address: max(holes, default=0) for address, holes in unused.items()}
    assert {"default stream", "stream 2, pool 1.0 of graphs"} < set(ours["stream"])


def opened(tmp_path: Path, content: object) -> Tables:
    (tmp_path / "snapshot.pickle").write_bytes(written(content))
    return aiflame.open(tmp_path / "snapshot.pickle").store


def test_segments_of_a_snapshots_trace_begin_and_end(tmp_path: Path) -> None:
    device = Device(0)
    stack = [python("work")]
    small, large = device.alloc(512, stack), device.alloc(4 * MIB, stack)
    device.free(large, stack)
    device.trace.append({"action": "segment_free", "addr": large, "size": 4 * MIB, "stream": 0, "time_us": device.now + 5})
    device.segments.pop()
    device.now += 10
    profile = opened(tmp_path, snapshot(device))
    assert sizes(seen(profile, "peak")) == [(small, 0, 1, 1, 1), (large, 4, 0, 0, 0)]
    assert seen(profile, "end").segments["address"].to_list() == [small]


def mapped(action: str, at: int, address: int, size: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1_750_000_000_000_000 + at, "frames": []}


def test_mapped_parts_of_an_expandable_segment_are_one(tmp_path: Path) -> None:
    part = 20 * MIB
    trace = [
        mapped("segment_map", 0, FIRST, part),
        mapped("alloc", 1, FIRST, 10 * MIB),
        mapped("segment_map", 2, FIRST + part, 2 * part),
        mapped("alloc", 3, FIRST + 10 * MIB, 40 * MIB),
        mapped("free_completed", 4, FIRST + 10 * MIB, 40 * MIB),
        mapped("segment_unmap", 5, FIRST + part, part),
    ]
    blocks = [{"address": FIRST, "size": 10 * MIB, "requested_size": 10 * MIB, "state": "active_allocated", "frames": []}]
    common = {"device": 0, "stream": 0, "segment_pool_id": (0, 0), "is_expandable": True}
    ends = [
        {**common, "address": FIRST, "total_size": part, "blocks": blocks},
        {**common, "address": FIRST + 2 * part, "total_size": part, "blocks": []},
    ]
    profile = opened(tmp_path, {"segments": ends, "device_traces": [trace]})
    assert sizes(seen(profile, "peak")) == [(FIRST, 50, 10, 10, 1)]
    assert sizes(seen(profile, "end")) == [(FIRST, 10, 10, 10, 1), (FIRST + 2 * part, 0, 20, 20, 1)]


@pytest.mark.parametrize("huge", [(1 << 64) - 1, 1 << 63])
def test_damaged_addresses_do_no_harm(tmp_path: Path, huge: int) -> None:
    trace = [mapped("segment_map", 0, huge, huge), mapped("alloc", 1, huge, 512), mapped("segment_unmap", 2, 0, huge)]
    segment = {"device": 0, "address": huge, "total_size": huge, "stream": huge, "segment_pool_id": (huge, "x"), "blocks": []}
    profile = opened(tmp_path, {"segments": [segment], "device_traces": [trace]})
    memory = memory_map(Analysis.of(profile), Moment())
    assert memory is None or memory.segments.filter(pl.col("used") > pl.col("bytes")).is_empty()

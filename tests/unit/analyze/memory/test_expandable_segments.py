"""The model of torch's caching allocator: it reproduces a real snapshot's addresses, and the estimate with expandable segments."""

from __future__ import annotations

import gzip
import pickle
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from called_lines import CODES, F_9, MAIN_3, SYMBOLS
from profiles import Row, sealed

from aiflame.analyze.findings.memory import memory_findings
from aiflame.analyze.memory.caching_allocator import MOST_SMALL, Block, DefaultAllocator, ExpandableAllocator, segment_bytes
from aiflame.analyze.memory.expandable import Reserved, expandable
from aiflame.analyze.tables.memory import memory_tables
from aiflame.attribute.analysis import Analysis
from aiflame.profile.schema.enums import AllocationKind, GpuApi
from aiflame.profile.tables.interface import Tables

KIB, MIB = 1 << 10, 1 << 20
GPU, START = "GPU 0", 1_000_000_000
FIRST, SECOND, THIRD = 1 << 40, 2 << 40, 3 << 40
REAL = Path(__file__).parents[3] / "data" / "traces" / "memory" / "torch2.11_h200.pickle.gz"


def at_the_begin(content: dict[str, Any]) -> DefaultAllocator:
    """The allocator of a real snapshot before the first event of its trace: the end, undone event by event."""
    live = {(block["address"]): block["size"] for one in content["segments"] for block in one["blocks"] if block["state"] != "inactive"}
    for event in reversed(content["device_traces"][0]):
        if event["action"] == "alloc":
            del live[event["addr"]]
        elif event["action"] == "free_completed":
            live[event["addr"]] = -(-event["size"] // 512) * 512
    allocator = DefaultAllocator()
    for one in content["segments"]:
        pool, place, end = (key_of(one), one["segment_type"] == "small"), one["address"], one["address"] + one["total_size"]
        for address, size in [*sorted((address, size) for address, size in live.items() if place <= address < end), (end, 0)]:
            if place < address:
                allocator.add(pool, Block(place, address - place, one["address"]))
            if size:
                allocator.add(pool, Block(address, size, one["address"], free=False))
            place = address + size
    return allocator


def key_of(segment: dict[str, Any]) -> tuple[int, object]:
    return segment["stream"], segment["segment_pool_id"]


def test_the_addresses_of_a_real_trace_are_reproduced() -> None:
    content = pickle.loads(gzip.decompress(REAL.read_bytes()))
    allocator = at_the_begin(content)
    ranges = sorted((one["address"], one["total_size"], key_of(one)) for one in content["segments"])
    wrong = 0
    for event in content["device_traces"][0]:
        size = -(-event["size"] // 512) * 512
        key = next(key for address, length, key in ranges if address <= event["addr"] < address + length)
        if event["action"] == "alloc":
            wrong += allocator.allocate(key, size, 0) != event["addr"]
        elif event["action"] == "free_completed":
            allocator.take_back(key, event["addr"], size)
    assert (wrong, allocator.held) == (0, 0), "each of the 315 blocks at its address, and no new segment"


@pytest.mark.parametrize(
    ("size", "segment"), [(512, 2), (MOST_SMALL, 2), (MOST_SMALL + 512, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (11 * MIB, 12)]
)
def test_sizes_of_segments(size: int, segment: int) -> None:
    allocator = DefaultAllocator()
    allocator.allocate("", size, FIRST)
    assert allocator.held == segment_bytes(size) == segment * MIB


def test_an_expandable_segment_grows_and_shrinks_by_pages() -> None:
    allocator = ExpandableAllocator()
    first = allocator.allocate("", 30 * MIB)
    second = allocator.allocate("", 8 * MIB)
    assert (second - first, allocator.held) == (30 * MIB, 40 * MIB), "behind the first, in its second page"
    small = allocator.allocate("", 512)
    assert allocator.held == 42 * MIB
    allocator.take_back("", first, 30 * MIB)
    allocator.give_back()
    assert allocator.held == 22 * MIB, "the page with a part of the second block stays"
    assert allocator.allocate("", 25 * MIB) == first, "the lowest addresses that have room"
    assert allocator.held == 42 * MIB
    assert allocator.allocate("", 512) == small + 512


def test_no_block_overlaps_another_in_either_model() -> None:
    chance = random.Random(3)
    default, other = DefaultAllocator(), ExpandableAllocator()
    live: list[tuple[int, int, int]] = []
    for number in range(2000):
        if live and chance.random() < 0.48:
            size, one, two = live.pop(chance.randrange(len(live)))
            default.take_back("", one, size)
            other.take_back("", two, size)
        else:
            size = 512 * chance.choice([1, 9, 100, 2048, 2049, 9000, 30_000, chance.randrange(1, 40_000)])
            live.append((size, default.allocate("", size, (number + 1) << 40), other.allocate("", size)))
        if number % 200 == 0:
            other.give_back()
            for column in (1, 2):
                places = sorted((one[column], one[0]) for one in live)
                assert all(address + length <= after for (address, length), (after, _) in pairwise(places))
    assert min(default.held, other.held) >= sum(size for size, _, _ in live)
    for size, one, two in live:
        default.take_back("", one, size)
        other.take_back("", two, size)
    other.give_back()
    assert other.held == 0


def change(at: int, address: int, size: int) -> Row:
    kind = AllocationKind.TAKE if size > 0 else AllocationKind.RELEASE
    return {"kind": int(kind), "device": GPU, "address": address, "bytes": abs(size), "time_ns": START + at, "stack": 0}


def recorded(folder: Path, *, moved: int = 0) -> Tables:
    """Two blocks of 12 MiB, which a third one of 24 MiB replaces: neither of the two segments has room for that."""
    segments = [change(1, FIRST, 12 * MIB), change(3, SECOND, 12 * MIB), change(10, THIRD, 24 * MIB)]
    blocks = [change(2, FIRST + moved, 12 * MIB), change(4, SECOND, 12 * MIB), change(6, FIRST + moved, -12 * MIB)]
    blocks += [change(8, SECOND, -12 * MIB), change(11, THIRD, 24 * MIB), change(12, FIRST, 2 * MIB)]
    return sealed(
        folder / "p.aiflame",
        symbols=SYMBOLS,
        codes=CODES,
        stacks=[{"parent": 0, "frame": MAIN_3}, {"parent": 0, "frame": F_9}],
        processes=[{"pid": 7, "start_ns": START}],
        pool_blocks=[{**one, "used": 0, "held": 0} for one in blocks],
        allocations=[{**{name: value for name, value in one.items() if name != "stack"}, "api": int(GpuApi.CUDA)} for one in segments],
    )


def test_a_recording_that_the_model_reproduces_has_an_estimate(tmp_path: Path) -> None:
    (estimate,) = expandable(Analysis.of(recorded(tmp_path)))
    assert estimate == Reserved(GPU, 48 * MIB, 40 * MIB)


def test_the_finding_and_the_table_have_the_estimate(tmp_path: Path) -> None:
    analysis = Analysis.of(recorded(tmp_path))
    (sentence,) = (one.sentence for one in memory_findings(analysis) if one.kind == "memory-change")
    setting = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert sentence == f"torch's allocator would hold at most about 40 MiB of GPU 0's memory in place of 48 MiB with {setting}"
    table = next(one for one in memory_tables(analysis) if one.name == "memory_changes")
    assert table.rows.select("peak", "then").rows() == [(48 * MIB, 40 * MIB)]


def test_a_recording_that_the_model_does_not_reproduce_has_none(tmp_path: Path) -> None:
    assert expandable(Analysis.of(recorded(tmp_path, moved=512))) == []

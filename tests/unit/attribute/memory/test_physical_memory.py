"""Physical memory of CUDA's virtual memory management: when it counts, and that expandable segments of torch's allocator count once."""

from __future__ import annotations

from pathlib import Path

import pytest
from called_lines import CODES, F_9, MAIN_3, SYMBOLS
from profiles import Row, sealed
from trees import functions

from aiflame.analyze.memory.segments import memory_map
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.memory.blocks import memories
from aiflame.attribute.memory.moments import Moment
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.enums import AllocationKind, GpuApi, MemoryKind
from aiflame.profile.schema.enums import PhysicalMemoryKind as Kind
from aiflame.profile.tables.store import Profile

START, MIB, BASE = 1_000_000_000, 1 << 20, 1 << 40
GPU, NOBODY = "GPU 0", "[unattributed: no stack]"
CUDA = int(GpuApi.CUDA)


def row(at: int, kind: Kind, handle: int = 0, pieces: int = 0, place: int = 0, correlation: int = 0, device: str = GPU) -> Row:
    """Of memory of `pieces` pieces of 2 MiB, at a place in pieces from BASE."""
    memory = int(MemoryKind.DEVICE) if device else int(MemoryKind.HOST)
    of_created = {"memory": memory, "device": device} if kind == Kind.CREATE else {}
    where = {"address": BASE + place * 2 * MIB} if kind in (Kind.MAP, Kind.UNMAP) else {}
    numbers = {"handle": handle, "bytes": pieces * 2 * MIB, "correlation": correlation, "time_ns": START + at}
    return {"kind": int(kind), "api": CUDA, **numbers, **of_created, **where}


def block(at: int, offset: int, size: int, held: int) -> Row:
    return {
        "kind": int(AllocationKind.TAKE),
        "device": GPU,
        "address": BASE + offset,
        "bytes": size,
        "used": size,
        "held": held,
        "time_ns": START + at,
        "stack": 1,
    }


def profile_of(path: Path, rows: list[Row], **more: list[Row]) -> Profile:
    stacks: list[Row] = [{"parent": 0, "frame": MAIN_3}, {"parent": 0, "frame": F_9}]
    calls: list[Row] = [{"thread": 1, "stack": 2, "api": CUDA, "correlation": 7, "begin_ns": START}]
    tables = {"symbols": SYMBOLS, "codes": CODES, "stacks": stacks, "launches": calls, "physical_memory": rows, **more}
    return sealed(path / "p.aiflame", processes=[{"pid": 7, "start_ns": START}], **tables)


def by_function(profile: Profile, metric: str) -> dict[str, int]:
    return dict(functions(tree(profile, metric), metric))


def test_memory_is_that_of_the_call_that_created_it(tmp_path: Path) -> None:
    rows = [row(1, Kind.CREATE, 5, 1, correlation=7), row(2, Kind.CREATE, 6, 2), row(3, Kind.RELEASE, 6)]
    profile = profile_of(tmp_path, rows)
    assert by_function(profile, "gpu-bytes") == {"f": 2 * MIB, NOBODY: 4 * MIB}
    assert by_function(profile, "gpu-bytes@end") == {"f": 2 * MIB}
    assert memories(Analysis.of(profile)) == [GPU]


def test_memory_that_cupti_also_has_a_record_of_counts_once(tmp_path: Path) -> None:
    record = {"kind": 1, "device": GPU, "memory": int(MemoryKind.DEVICE), "api": CUDA, "correlation": 7, "address": BASE, "bytes": 2 * MIB}
    profile = profile_of(tmp_path, [row(1, Kind.CREATE, 5, 1, correlation=7)], allocations=[{**record, "time_ns": START + 1}])
    assert by_function(profile, "gpu-bytes") == {"f": 2 * MIB}


def test_the_machines_memory_is_no_devices(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, [row(1, Kind.CREATE, 5, 1, device="")])
    assert memories(Analysis.of(profile)) == []


def test_memory_of_other_processes_and_from_before_is_not_counted(tmp_path: Path) -> None:
    rows = [
        row(1, Kind.RELEASE, 3),
        row(2, Kind.UNMAP, 0, 4, 8),
        row(3, Kind.IMPORT, 4),
        row(4, Kind.MAP, 4, 1, 0),
        row(5, Kind.CREATE, 5, 1),
        row(6, Kind.MAP, 5, 1, 1),
        row(7, Kind.UNMAP, 0, 2, 0),
        row(8, Kind.RELEASE, 4),
    ]
    assert by_function(profile_of(tmp_path, rows), "gpu-bytes@end") == {NOBODY: 2 * MIB}, "a reference to its handle is left"


@pytest.fixture
def expandable(tmp_path: Path) -> Profile:
    """Three mapped pieces beside each other, of which two blocks use 1 and 3 MiB, the second in two pieces; and one piece of a library."""
    pieces = [row(at, Kind.CREATE, at, 1, correlation=7) for at in (1, 2, 3, 9)]
    mapped = [row(10 + at, Kind.MAP, at, 1, at) for at in (1, 2, 3)] + [row(15, Kind.MAP, 9, 1, 9)]
    first, second = block(20, 2 * MIB, MIB, 6 * MIB), block(21, 5 * MIB, 3 * MIB, 6 * MIB)
    second["used"] = 4 * MIB
    return profile_of(tmp_path, [*pieces, *mapped], pool_blocks=[first, second])


def test_expandable_segments_count_once(expandable: Profile) -> None:
    assert by_function(expandable, "gpu-bytes@end") == {"main": 4 * MIB, "f": 2 * MIB, NOBODY: 2 * MIB}, "f's is the library's"


def test_the_mapped_pieces_of_an_expandable_segment_are_one_on_the_map(expandable: Profile) -> None:
    memory = memory_map(Analysis.of(expandable), Moment.parse("end"))
    assert memory is not None
    assert memory.segments.select("address", "bytes", "used", "largest").rows() == [(BASE + 2 * MIB, 6 * MIB, 4 * MIB, 2 * MIB)]


@pytest.mark.parametrize("huge", [(1 << 64) - 1, 1 << 63])
def test_damaged_rows_do_no_harm(tmp_path: Path, huge: int) -> None:
    rows = [row(1, kind, 5, 1) | {"handle": huge, "address": huge, "time_ns": huge} for kind in Kind]
    for one in rows[1:]:
        one["bytes"] = huge
    profile = profile_of(tmp_path, [*rows, row(2, Kind.CREATE, 5, 1)], pool_blocks=[block(1, 0, 512, 0) | {"address": huge}])
    assert tree(profile, "gpu-allocated").total("gpu-allocated") >= 2 * MIB + 512

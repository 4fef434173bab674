"""Blocks of torch's caching allocator beside the driver's allocations, of which some are the allocator's own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from called_lines import CODES, F_9, MAIN_3, SYMBOLS
from profiles import Row, sealed
from trees import functions, paths

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.memory_categories import NAMES, Category
from aiflame.attribute.memory.blocks import memories
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.enums import AllocationKind, GpuApi, HostMemoryKind, MemoryKind
from aiflame.profile.tables.store import Profile

START = 1_000_000_000
GPU, PIECE = "GPU 0", 1 << 21
NOBODY = "[unattributed: no stack]"


def change(at: int, address: int, size: int, device: str) -> Row:
    kind = AllocationKind.TAKE if size > 0 else AllocationKind.RELEASE
    return {"kind": int(kind), "device": device, "address": address, "bytes": abs(size), "time_ns": START + at}


def given(at: int, address: int, size: int, used: int, held: int, *, stack: int = 0, device: str = GPU) -> Row:
    """A negative size comes back."""
    return {**change(at, address, size, device), "used": used, "held": held, "stack": stack}


def of_driver(at: int, address: int, size: int, *, device: str = GPU) -> Row:
    return {**change(at, address, size, device), "api": int(GpuApi.CUDA)}


def profile_of(path: Path, pool: list[Row], driver: list[Row], **more: list[Row]) -> Profile:
    stacks: list[Row] = [{"parent": 0, "frame": MAIN_3}, {"parent": 0, "frame": F_9}]
    processes: list[Row] = [{"pid": 7, "start_ns": START}]
    tables = {"pool_blocks": pool, "allocations": driver, **more}
    return sealed(path / "p.aiflame", symbols=SYMBOLS, codes=CODES, stacks=stacks, processes=processes, **tables)


def by_function(profile: Profile, metric: str) -> dict[str, int]:
    return dict(functions(tree(profile, metric), metric))


def by_category(profile: Profile, metric: str = "gpu-bytes") -> dict[str, int]:
    sums: Counter[str] = Counter()
    for path, value in paths(tree(profile, metric, "category"), metric).items():
        sums[next(name for name in path if name in NAMES.values())] += value
    return dict(sums)


def test_pieces_of_the_pool_count_once(tmp_path: Path) -> None:
    pool = [given(2, 100, 512, 512, PIECE, stack=1), given(4, 612, 1024, 1536, PIECE, stack=2), given(6, 612, -1024, 512, PIECE)]
    profile = profile_of(tmp_path, pool, [of_driver(1, 0, PIECE), of_driver(3, 1 << 30, 64)])
    assert by_function(profile, "gpu-bytes") == {"main": 512, "f": 1024, NOBODY: 64 + PIECE - 1536}
    assert by_function(profile, "gpu-bytes@end") == {"main": 512, NOBODY: 64 + PIECE - 512}
    assert by_function(profile, "gpu-allocated") == {"main": 512, "f": 1024, NOBODY: 64}
    assert by_category(profile) == {
        NAMES[Category.OTHER]: 1536,
        NAMES[Category.UNUSED]: PIECE - 1536,
        NAMES[Category.LIBRARIES]: 64,
    }


def test_the_driver_alone_is_the_programs_own(tmp_path: Path) -> None:
    assert by_category(profile_of(tmp_path, [], [of_driver(1, 0, 64)])) == {NAMES[Category.OTHER]: 64}


def test_each_device_has_its_own_pool(tmp_path: Path) -> None:
    pool = [given(2, 100, 512, 512, PIECE), given(3, 100, 1024, 1024, 1024, device="GPU 1")]
    profile = profile_of(tmp_path, pool, [of_driver(1, 0, PIECE), of_driver(1, 0, 99, device="GPU 2")])
    assert by_category(profile) == {NAMES[Category.OTHER]: 512 + 1024 + 99, NAMES[Category.UNUSED]: PIECE - 512}


def test_a_block_that_only_comes_back_is_older_than_the_recording(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, [given(5, 100, -512, 1000, 1512), given(6, 100, 64, 1064, 1512)], [])
    assert tree(profile, "gpu-bytes@0s").total("gpu-bytes@0s") == 512, "the other blocks are known from the first count of the allocator on"
    assert by_category(profile, "gpu-bytes@end") == {NAMES[Category.OTHER]: 64, NAMES[Category.OLDER]: 1000, NAMES[Category.UNUSED]: 448}
    assert tree(profile, "gpu-allocated").total("gpu-allocated") == 64


@pytest.mark.parametrize("count", [0, 511, (1 << 64) - 1])
def test_damaged_counts_do_no_harm(count: int, tmp_path: Path) -> None:
    profile = profile_of(tmp_path, [given(5, (1 << 64) - 1, 512, count, count)], [of_driver(1, (1 << 64) - 2, 1 << 40)])
    assert by_function(profile, "gpu-allocated")[NOBODY] >= 512
    assert tree(profile, "gpu-bytes").total("gpu-bytes") >= 512


def test_pinned_memory_is_the_hosts(tmp_path: Path) -> None:
    """Alone, it would look like all of the host's memory."""
    pinned = of_driver(2, 1 << 40, 4096) | {"memory": int(MemoryKind.HOST)}
    driver = [of_driver(1, 1 << 30, 64), pinned, change(3, 1 << 40, -1, GPU) | {"api": int(GpuApi.CUDA), "memory": int(MemoryKind.HOST)}]
    profile = profile_of(tmp_path / "gpu", [], driver)
    assert by_function(profile, "gpu-bytes") == {NOBODY: 64}
    assert by_function(profile, "gpu-allocated") == {NOBODY: 64}
    host = [{"kind": int(HostMemoryKind.MALLOC), "weight": 1, "bytes": 100, "time_ns": START, "stack": 1}]
    both = profile_of(tmp_path / "both", [], driver, host_allocations=host)
    assert by_function(both, "gpu-bytes") == {NOBODY: 64}
    assert memories(Analysis(profile_of(tmp_path / "pinned", [], [pinned]))) == []
    assert by_function(both, "host-allocated")[NOBODY] == 4096

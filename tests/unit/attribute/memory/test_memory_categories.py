"""Categories of blocks of memory: in tables of sites, on the timeline, and those of the rests of mappings."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from called_lines import CODES, IMPORTS, MAIN_3, SYMBOLS, named
from called_lines import profile as cpu_program
from profiles import Row, python, sealed

from aiflame.attribute.meaning.memory_categories import Category, block_categories
from aiflame.attribute.memory.blocks import blocks
from aiflame.attribute.sites.cpu import cpu_sites
from aiflame.attribute.timeline import memory as timeline_memory
from aiflame.attribute.timeline.tables import TrackKind
from aiflame.attribute.timeline.whole import timeline
from aiflame.profile.schema.enums import HostMemoryKind
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile

START = 1_000
STACKS: list[Row] = [{"parent": 0, "frame": MAIN_3}, {"parent": 0, "frame": IMPORTS}]
OTHER, IMPORTED = 1, 2


def block(begin: int, end: int, size: int, stack: int) -> Row:
    return {"memory": "host", "bytes": size, "begin_ns": START + begin, "end_ns": START + end if end else 0, "stack": stack}


def made(path: Path, **tables: list[Row]) -> Profile:
    processes = [{"pid": 7, "start_ns": START}]
    return sealed(path / "p.aiflame", symbols=SYMBOLS, codes=CODES, stacks=STACKS, processes=processes, **tables)


def curves(profile: Profile) -> dict[str, list[tuple[int, float]]]:
    drawn = timeline(profile)
    names = dict(drawn.tracks.filter(pl.col("kind") == int(TrackKind.COUNTER)).select("track", "name").rows())
    return {
        names[track]: [(time - START, value) for time, value in rows.select("time_ns", "value").rows()]
        for (track,), rows in drawn.points.partition_by("track", as_dict=True, maintain_order=True).items()
    }


def test_the_curves_of_the_categories_add_up_to_the_whole(tmp_path: Path) -> None:
    rows = [block(10, 0, 100, IMPORTED), block(20, 40, 30, OTHER), block(30, 0, 5, OTHER)]
    assert curves(made(tmp_path, memory_blocks=rows)) == {
        "memory in use: host": [(10, 100), (20, 130), (30, 135), (40, 105)],
        "imports": [(10, 100), (20, 100), (30, 100), (40, 100)],
        "other": [(10, 0), (20, 30), (30, 35), (40, 5)],
    }


def test_memory_of_one_category_has_no_parts(tmp_path: Path) -> None:
    assert list(curves(made(tmp_path, memory_blocks=[block(10, 20, 100, OTHER)]))) == ["memory in use: host"]


def test_of_very_many_moments_parts_keep_the_highest_and_the_lowest_of_each_stretch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_memory, "LEAST_EACH", 30)
    monkeypatch.setattr(timeline_memory, "MOST_EACH", 30)
    rows = [block(0, 0, 1000, IMPORTED), *(block(10 * at + 1, 10 * at + 6, 7 + (at == 333), OTHER) for at in range(1000))]
    drawn = curves(made(tmp_path, memory_blocks=rows))
    kept = dict(drawn["other"])
    assert len(kept) <= 40 < len(drawn["memory in use: host"])
    assert kept[3331] == 8
    assert set(kept.values()) == {0, 7, 8}


def test_only_memory_is_grouped_by_category(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    of_time = cpu_sites(cpu_program(tmp_path / "cpu"), "cpu-time")
    of_memory = cpu_sites(made(tmp_path, memory_blocks=[block(1, 0, 5, OTHER), block(1, 0, 7, IMPORTED)]), "host-bytes")
    assert "category" not in {one.name for one in of_time.groupings}
    assert "category" in {one.name for one in of_memory.groupings}
    names = of_memory.frames["name"].gather(of_memory.segments["category"].frame[of_memory.sites["category"].to_numpy()])
    value = of_memory.leaves.group_by("site").agg(pl.col("host-bytes").sum())
    listed = of_memory.sites.with_row_index("site").with_columns(category=names).join(value.cast({"site": pl.UInt32}), on="site")
    assert dict(listed.select("category", "host-bytes").rows()) == {"imports": 7, "other": 5}


def mapped(begin: int, address: int, size: int, kind: HostMemoryKind) -> Row:
    return {"kind": kind, "stack": OTHER, "address": address, "bytes": size, "weight": size, "time_ns": START + begin}


def test_a_rest_was_allocated_when_its_mapping_was(tmp_path: Path) -> None:
    """A mapping loses its end, then its begin, and moves; another one, at another address, loses a part at the same moment."""
    rows = [
        mapped(10, 0x1000, 400, HostMemoryKind.MAP),
        mapped(15, 0x9000, 400, HostMemoryKind.MAP),
        mapped(20, 0x1000, 300, HostMemoryKind.REST),
        mapped(20, 0x9100, 144, HostMemoryKind.REST),
        mapped(30, 0x1064, 200, HostMemoryKind.REST),
        mapped(35, 0x7000, 201, HostMemoryKind.REST),
        mapped(40, 0x5000, 50, HostMemoryKind.REST),
    ]
    frees = [{"allocation": row, "time_ns": START + at} for row, at in ((1, 20), (2, 20), (3, 30), (5, 35))]
    rests = blocks(made(tmp_path, host_allocations=rows, host_frees=frees)).filter(pl.col("count") == 0)
    allocated = {size: at - START for size, at in rests.select("bytes", "allocated_ns").rows()}
    assert allocated == {300: 10, 144: 15, 200: 10, 201: 10, 50: 40}, "the last one's mapping is not known"


def test_each_block_has_a_category(tmp_path: Path) -> None:
    profile = made(tmp_path, memory_blocks=[block(1, 0, 5, OTHER), block(1, 0, 7, IMPORTED), block(0, 0, 9, OTHER)])
    categories = sorted(zip(blocks(profile)["bytes"], block_categories(profile), strict=True))
    assert categories == [(5, Category.OTHER), (7, Category.IMPORTS), (9, Category.OTHER)]


@pytest.mark.parametrize("folder", ["/site-packages/aiflame/target", "/proc/aiflame/target"])
def test_memory_of_our_own_look_is_no_state_of_an_optimizer_and_no_import(tmp_path: Path, folder: str) -> None:
    file, look = f"{folder}/memory_growth.py", python(4, 4)
    profile = sealed(
        tmp_path / "p.aiflame",
        symbols=[*SYMBOLS, named(look, "Watch.step", Kind.PYTHON, file, 75)],
        codes=[*CODES, {"id": 4, "qualname": "Watch.step", "filename": file, "first_line": 70}],
        stacks=[{"parent": 0, "frame": look}, {"parent": 1, "frame": IMPORTS}, {"parent": 0, "frame": IMPORTS}],
        processes=[{"pid": 7, "start_ns": START}],
        memory_blocks=[block(1, 0, 5, 2), block(1, 0, 7, 3)],
    )
    categories = sorted(zip(blocks(profile)["bytes"], block_categories(profile), strict=True))
    assert categories == [(5, Category.OTHER), (7, Category.IMPORTS)]

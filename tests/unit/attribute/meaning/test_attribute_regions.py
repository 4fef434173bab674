"""Regions that were marked become intervals, and each moment of a thread a path of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profiles import Row, sealed

from aiflame.attribute.meaning.regions import Regions, regions
from aiflame.profile.schema.enums import RegionApi, RegionKind
from aiflame.profile.schema.kinds import Kind

NESTED, FREE, MARK, FRAME = RegionKind.NESTED, RegionKind.FREE, RegionKind.MARK, RegionKind.FRAME


class Marked:
    """A profile in the making: `mark("step", 10, 50)` is a region from 10 to 50, without a second moment one that never ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun: list[Row] = []
        self._ends: list[Row] = []
        self.others: dict[str, list[Row]] = {}

    def __call__(self, name: str, begin: int, end: int | None = None, **columns: Any) -> None:
        row = {"name": name, "begin_ns": begin, "thread": 1, "kind": NESTED, "api": RegionApi.NVTX, **columns}
        self._begun.append(row)
        process = row.get("process", 0)
        number = sum(other.get("process", 0) == process for other in self._begun)
        if end is not None:
            self._ends.append({"process": process, "region": number, "thread": row["thread"], "end_ns": end})

    def end(self, region: int, end: int) -> None:
        self._ends.append({"region": region, "thread": 1, "end_ns": end})

    @cached_property
    def found(self) -> Regions:
        return regions(sealed(self._path, regions=self._begun, region_ends=self._ends, **self.others))

    def paths(self, *times: int, thread: int = 1, process: int = 0) -> list[str]:
        """The path at each moment, `outer/inner`."""
        marked_regions = self.found
        size = len(times)
        nodes = marked_regions.paths(np.full(size, process), np.full(size, thread), np.array(times, dtype=np.int64))
        return ["/".join(reversed(list(_names(marked_regions, int(node))))) for node in nodes]

    def ends(self) -> dict[str, tuple[int, bool]]:
        return {name: (end, ended) for name, end, ended in self.found.intervals.select("name", "end_ns", "ended").rows()}


def _names(marked_regions: Regions, node: int) -> Iterator[str]:
    while node > 0:
        yield marked_regions.forest.frames["name"][int(marked_regions.forest.frame[node])]
        node = int(marked_regions.forest.parent[node])


@pytest.fixture
def mark(tmp_path: Path) -> Marked:
    return Marked(tmp_path / "p.aiflame")


def test_a_region_holds_from_its_beginning_to_before_its_end(mark: Marked) -> None:
    mark("a", 10, 20)
    assert mark.paths(9, 10, 19, 20) == ["", "a", "a", ""]


def test_regions_that_are_pushed_later_lie_inside(mark: Marked) -> None:
    mark("step", 10, 90)
    mark("forward", 20, 40)
    mark("attn", 25, 30)
    mark("backward", 40, 80)
    assert mark.paths(15, 22, 27, 35, 40, 85) == ["step", "step/forward", "step/forward/attn", "step/forward", "step/backward", "step"]


def test_equal_paths_are_one_node_however_often_they_are_walked(mark: Marked) -> None:
    for step in range(3):
        mark("step", 100 * step, 100 * step + 50)
    assert mark.paths(10, 110, 210, 60) == ["step", "step", "step", ""]


def test_domains_nest_in_one_another_by_time(mark: Marked) -> None:
    mark("outer", 10, 60, domain="A")
    mark("inner", 20, 80, domain="B")
    assert mark.paths(30, 70) == ["outer/inner", "inner"]


def test_the_forest_has_domain_and_category(mark: Marked) -> None:
    mark("load", 10, 20, domain="io", category="disk")
    frames = mark.found.forest.frames
    assert frames.select("name", "module", "full_name", "kind").rows() == [("load", "io", "load [disk]", int(Kind.REGION))]


def test_threads_and_processes_are_apart(tmp_path: Path) -> None:
    mark = Marked(tmp_path / "p.aiflame")
    mark.others["processes"] = [{"pid": 1}, {"pid": 2}]
    mark("a", 10, 90, thread=1)
    mark("b", 10, 90, thread=2)
    mark("c", 10, 90, thread=1, process=1)
    marked_regions = mark.found
    process, thread = np.array([0, 0, 1, 0, 1]), np.array([1, 2, 1, 3, 2])
    nodes = marked_regions.paths(process, thread, np.full(5, 50))
    assert ["/".join(_names(marked_regions, int(node))) for node in nodes] == ["a", "b", "c", "", ""]


def test_free_regions_lie_outside_of_pushed_ones_and_may_overlap(mark: Marked) -> None:
    mark("pushed", 10, 100)
    mark("request 1", 20, 60, kind=FREE)
    mark("request 2", 40, 80, kind=FREE)
    assert mark.paths(15, 30, 50, 70, 90) == [
        "pushed",
        "request 1/pushed",
        "request 1/request 2/pushed",
        "request 2/pushed",
        "pushed",
    ]


def test_a_free_region_is_its_beginners_even_where_another_thread_ended_it(mark: Marked) -> None:
    mark("request", 10, kind=FREE, thread=1)
    mark._ends.append({"region": 1, "thread": 2, "end_ns": 50})
    assert mark.paths(30, 60, thread=1) == ["request", ""]


def test_frames_are_outermost_and_of_all_threads(mark: Marked) -> None:
    mark("pushed", 10, 90, thread=1)
    mark("frame", 20, 60, kind=FRAME, thread=2, api=RegionApi.ITT)
    nodes = mark.found
    paths = nodes.paths(np.zeros(4, np.int64), np.array([1, 1, 3, 3]), np.array([15, 30, 30, 70]))
    assert ["/".join(reversed(list(_names(nodes, int(node))))) for node in paths] == ["pushed", "frame/pushed", "frame", ""]


def test_marks_and_regions_of_aiflames_own_are_in_no_path(mark: Marked) -> None:
    mark("moment", 10, kind=MARK)
    mark("optimizer", 10, 90, api=RegionApi.AUTOMATIC)
    assert mark.paths(50) == [""]
    assert mark.ends() == {"moment": (10, True), "optimizer": (90, True)}


def test_a_push_that_was_never_popped_ends_with_the_region_around_it(mark: Marked) -> None:
    mark("step", 10, 50)
    mark("leaked", 20)
    mark("inside", 25, 30)
    mark("step", 60, 90)
    assert mark.paths(27, 40, 70) == ["step/leaked/inside", "step/leaked", "step"]
    assert mark.ends()["leaked"] == (50, False)


def test_without_one_around_it_it_ends_with_its_thread(mark: Marked) -> None:
    mark("earlier", 1, 5)
    mark("leaked", 10)
    mark.others["thread_ends"] = [{"thread": 1, "end_ns": 70}]
    mark.others["process_ends"] = [{"end_ns": 100}]
    assert mark.ends()["leaked"] == (70, False)


def test_a_free_one_ends_with_its_process(mark: Marked) -> None:
    mark("request", 10, kind=FREE)
    mark.others["thread_ends"] = [{"thread": 1, "end_ns": 70}]
    mark.others["process_ends"] = [{"end_ns": 100}]
    assert mark.ends()["request"] == (100, False)


def test_of_a_process_that_was_killed_it_ends_where_the_last_was_seen_of_it(mark: Marked) -> None:
    mark("leaked", 10)
    mark("done", 20, 30)
    mark.others["cpu_samples"] = [{"thread": 1, "time_ns": 80}, {"thread": 1, "time_ns": 60}]
    assert mark.ends()["leaked"] == (80, False)


def test_ends_that_belong_to_nothing_are_passed_over_and_the_first_of_two_counts(mark: Marked) -> None:
    mark("a", 10, 20)
    mark.end(1, 40)
    mark.end(77, 15)
    assert mark.paths(15, 30) == ["a", ""]


def test_a_region_that_took_no_time_is_listed_and_in_no_path(mark: Marked) -> None:
    mark("nothing", 10, 10)
    mark("something", 10, 20)
    assert mark.paths(10) == ["something"]
    assert mark.ends()["nothing"] == (10, True)


def test_moments_and_kinds_that_cannot_be_are_in_no_path(mark: Marked) -> None:
    mark("a", 2**64 - 1, 2**64 - 1)
    mark("b", 10, 5)
    mark("c", 10, 20, kind=77)
    mark("d", 10, kind=0)
    mark.others["thread_ends"] = [{"thread": 1, "end_ns": 2**64 - 1}]
    assert mark.paths(15) == [""]
    assert mark.ends()["b"] == (10, True)


def test_a_profile_without_regions_has_none(tmp_path: Path) -> None:
    none = regions(sealed(tmp_path / "p.aiflame"))
    assert none.intervals.is_empty()
    assert none.paths(np.array([0]), np.array([1]), np.array([5])).tolist() == [0]
    assert none.paths(*(np.zeros(0, np.int64),) * 3).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_a_path_holds_the_open_regions_by_begin_whatever_overlaps(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    mark = Marked(tmp_path / "p.aiflame")
    spans = []
    for number in range(40):
        begin = int(random.integers(0, 100))
        end = begin + int(random.integers(0, 40))
        kind = (NESTED, FREE, FRAME)[random.integers(0, 3)]
        spans.append((begin, end, kind, f"r{number}"))
        mark(f"r{number}", begin, end, kind=kind)
    rank = {FRAME: 0, FREE: 1, NESTED: 2}
    times = list(range(150))
    expected = []
    for time in times:
        opened = [(rank[kind], begin, number) for number, (begin, end, kind, _) in enumerate(spans) if begin <= time < end]
        expected.append("/".join(spans[number][3] for _, _, number in sorted(opened)))
    assert mark.paths(*times) == expected

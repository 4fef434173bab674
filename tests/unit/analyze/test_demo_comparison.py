"""The comparison that `aiflame demo` ends with, on trees made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aiflame.analyze.demo_comparison import Way, sentence, ways
from aiflame.attribute.tree import CPU_TIME, ROOT, Frame, Kind, Tree, frame_table

FRAMES = [
    Frame("main", Kind.PYTHON),
    Frame("slow", Kind.CPP),
    Frame("fast", Kind.CPP),
    Frame("a.cpp:1", Kind.CPU_LINE),
    Frame("a.cpp:2", Kind.CPU_LINE),
    Frame("mulss @ +0x4", Kind.CPU_INSTRUCTION),
]
MAIN, SLOW, FAST, LINE1, LINE2, MULSS = range(1, 7)


def tree(*nodes: tuple[int, int, int]) -> Tree:
    """Nodes below the root as (parent, frame, self value)."""
    parent, frame, value = zip((-1, 0, 0), *nodes, strict=True)
    return Tree(
        frames=frame_table(FRAMES),
        parent=np.array(parent, dtype=np.int32),
        frame=np.array(frame, dtype=np.uint32),
        values={CPU_TIME.name: np.array(value, dtype=np.int64)},
        metrics=(CPU_TIME,),
    )


@pytest.fixture
def compared() -> Tree:
    return tree((0, MAIN, 100), (1, SLOW, 0), (2, LINE1, 0), (3, MULSS, 500), (2, LINE2, 250), (1, FAST, 0), (6, LINE2, 150))


def test_each_way_has_all_below_it_and_its_hottest_line(compared: Tree) -> None:
    assert ways(compared, CPU_TIME.name, ("fast", "slow")) == [Way("slow", 750, "a.cpp:1"), Way("fast", 150, "a.cpp:2")]


def test_the_sentence_gives_shares_of_the_whole_and_how_many_times_faster(compared: Tree) -> None:
    said = sentence(compared, CPU_TIME.name, ways(compared, CPU_TIME.name, ("slow", "fast")))
    assert said == (
        "Same work, 2 ways: slow 75.0% of the CPU time (most at a.cpp:1), fast 15.0% (most at a.cpp:2); fast is 5.0 times as fast as slow."
    )


def test_the_sentence_has_the_label_without_its_remarks(compared: Tree) -> None:
    remarked = replace(CPU_TIME, label="GPU time, divided inside kernels by their samples")
    said = sentence(compared.with_values(compared.values, (remarked,)), CPU_TIME.name, ways(compared, CPU_TIME.name, ("slow", "fast")))
    assert "slow 75.0% of the GPU time (most at a.cpp:1)" in said


def test_a_way_that_calls_itself_counts_once() -> None:
    recursive = tree((0, SLOW, 10), (1, MAIN, 0), (2, SLOW, 20))
    assert [way.value for way in ways(recursive, CPU_TIME.name, ("slow",))] == [30]


def test_nothing_is_said_of_one_way_alone() -> None:
    alone = tree((0, SLOW, 10))
    assert sentence(alone, CPU_TIME.name, ways(alone, CPU_TIME.name, ("slow", "fast"))) == ""


def test_frames_of_other_names_are_in_no_way() -> None:
    assert ROOT.name == "all"
    assert ways(tree((0, MAIN, 10)), CPU_TIME.name, ("slow", "fast")) == []

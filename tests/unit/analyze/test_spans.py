"""Arithmetic on intervals: against sets of moments, for any intervals."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aiflame.analyze.spans import gaps, union

INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


def moments(intervals: list[tuple[int, int]]) -> set[int]:
    return {moment for begin, end in intervals for moment in range(begin, end)}


def arrays(intervals: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([begin for begin, _ in intervals], dtype=np.int64), np.array([end for _, end in intervals], dtype=np.int64)


@given(INTERVALS)
def test_a_union_covers_each_moment_once(intervals: list[tuple[int, int]]) -> None:
    spans = union(*arrays(intervals))
    pairs = list(zip(spans.begin.tolist(), spans.end.tolist(), strict=True))
    assert moments(pairs) == moments(intervals)
    assert spans.total() == len(moments(intervals))
    assert all(before[1] < after[0] for before, after in pairwise(pairs))


@given(INTERVALS, INTERVALS)
def test_the_intersection_is_the_time_that_both_have(intervals: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    shared = union(*arrays(intervals)).within(*arrays(windows))
    assert shared.tolist() == [len(moments(intervals) & moments([window])) for window in windows]


@given(INTERVALS)
def test_gaps_are_the_times_between_spans(intervals: list[tuple[int, int]]) -> None:
    spans = union(*arrays(intervals))
    covered = moments(intervals)
    between = set(range(min(covered), max(covered) + 1)) - covered if covered else set()
    idle = gaps(spans)
    assert moments(list(zip(idle.begin.tolist(), idle.end.tolist(), strict=True))) == between

"""Calls that end after the call around them: pieces within each other, without loss of time."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from kineto_events import event, launched, written

import aiflame
from aiflame.exchange.readers.overlaps import without_overlaps
from aiflame.exchange.readers.spans import Spans

US = 1000


def pieces(*calls: tuple[int, int, bool]) -> list[tuple[int, int, int, bool]]:
    """(begin, end, whether it yields) of calls of one thread → (call, begin, end, whether again), by begin."""
    begin, end = (np.array([call[at] for call in calls], dtype=np.int64) for at in (0, 1))
    divided = without_overlaps(np.zeros(len(calls), dtype=np.uint32), begin, end, np.array([call[2] for call in calls]))
    rows = zip(divided.row.tolist(), divided.begin.tolist(), divided.end.tolist(), divided.again.tolist(), strict=True)
    return sorted(rows, key=lambda row: (row[1], -row[2]))


def test_calls_within_each_other_stay_whole() -> None:
    assert pieces((0, 100, True), (10, 50, False), (10, 20, True)) == [(0, 0, 100, False), (1, 10, 50, False), (2, 10, 20, False)]


def test_a_context_manager_around_an_op() -> None:
    """`__enter__` at 10–20 calls an inner function at 12–18 that begins the op; `__exit__` at 80–90 ends it at 85."""
    function, enter, inner, op, body, leave = (
        (0, 100, True),
        (10, 20, True),
        (12, 18, True),
        (15, 85, False),
        (30, 70, False),
        (80, 90, True),
    )
    assert pieces(function, enter, inner, op, body, leave) == [
        (0, 0, 100, False),
        (1, 10, 15, False),
        (2, 12, 15, False),
        (3, 15, 85, False),
        (1, 15, 20, True),
        (2, 15, 18, True),
        (4, 30, 70, False),
        (5, 80, 85, False),
        (5, 85, 90, True),
    ]


def test_the_later_of_two_ops_is_divided() -> None:
    assert pieces((0, 50, False), (30, 80, False)) == [(0, 0, 50, False), (1, 30, 50, False), (1, 50, 80, True)]


@pytest.mark.parametrize("seed", range(30))
def test_time_is_the_same_in_all(seed: int) -> None:
    """At random: each call keeps its time, pieces of it do not overlap, nothing is cut, and ops that cross Python alone stay whole."""
    chosen = random.Random(seed)
    count = chosen.randrange(1, 14)
    begin = np.array([chosen.randrange(40) for _ in range(count)], dtype=np.int64)
    end = begin + np.array([chosen.randrange(1, 30) for _ in range(count)], dtype=np.int64)
    yields = np.array([chosen.random() < 0.5 for _ in range(count)])
    # Functions of Python lie within each other.
    for at in np.flatnonzero(yields):
        for other in np.flatnonzero(yields):
            if begin[other] < begin[at] < end[other] < end[at] or (begin[other] == begin[at] and end[other] < end[at]):
                end[at] = end[other]
    nothing = np.zeros(count, dtype=np.int64)
    spans, order = Spans.of(nothing, nothing, begin, end, np.arange(count), yields)
    row = np.arange(count)[order]
    took = np.zeros(count, dtype=np.int64)
    np.add.at(took, row, spans.end - spans.begin)
    if spans.cut == 0:
        assert took.tolist() == (end - begin).tolist()
    own = sum(int((until - since).sum()) for _, since, until in spans.own_time())
    covered = {moment for at in range(count) for moment in range(begin[at], end[at])}
    assert own == len(covered)
    for call in range(count):
        mine = sorted((int(spans.begin[at]), int(spans.end[at])) for at in np.flatnonzero(row == call))
        assert all(one[1] <= two[0] for one, two in pairwise(mine))
    assert spans.cut == 0
    if not any(begin[a] < begin[b] < end[a] < end[b] for a in np.flatnonzero(~yields) for b in np.flatnonzero(~yields)):
        assert all((row == call).sum() == 1 for call in np.flatnonzero(~yields))


def test_an_op_that_begins_in_enter_keeps_its_time(tmp_path: Path) -> None:
    """The body launches 30 µs of work; it is that of the op too."""
    calls = [
        event("python_function", "train.py(1): train", 0, 100),
        event("python_function", "<built-in method __enter__>", 10, 10),
        event("cpu_op", "Wrapper", 15, 70),
        event("python_function", "<built-in method __exit__>", 80, 10),
    ]
    profile = aiflame.open(written(tmp_path, calls, launched("mm", 41, 200, 30, 1)))
    rows = {row["name"]: row for row in profile.stats("torch.key-averages").to_dicts()}
    row = rows["Wrapper"]
    assert (row["cpu_ns"], row["self_cpu_ns"], row["calls"]) == (70 * US, 62 * US, 1)
    assert (row["device_ns"], row["self_device_ns"]) == (30 * US, 0)
    for by in ("code", "op", "layer"):
        assert profile.tree("wall-time", by=by).total("wall-time") == 100 * US
    assert any("2 calls of the trace cross others" in note for note in profile.store.meta.degraded)


def test_a_call_in_pieces_launches_once(tmp_path: Path) -> None:
    """A call of a runtime that ends after its op: one launch, and a time of 20 µs."""
    op, call, kernel = launched("mm", 11, 200, 30, 1)
    profile = aiflame.open(written(tmp_path, [op, call | {"dur": 20}, kernel]))
    assert len(profile.stats("hta.launches")) == 1
    rows = {row["name"]: row for row in profile.stats("torch.key-averages").to_dicts()}
    assert (rows["cudaLaunchKernel"]["cpu_ns"], rows["cudaLaunchKernel"]["calls"]) == (20 * US, 1)
    (row,) = profile.stats("nsys.cuda-api-sum").to_dicts()
    assert (row["calls"], row["total_ns"]) == (1, 20 * US)


def test_a_damaged_trace_takes_no_more_room_for_it() -> None:
    """Each call crosses a thousand others: they are cut."""
    count = 20_000
    begin = np.arange(count, dtype=np.int64) * 10
    nothing = np.zeros(count, dtype=np.int64)
    spans, _ = Spans.of(nothing, nothing, begin, begin + 10_005, nothing, np.zeros(count, dtype=bool))
    assert spans.cut > 0 and len(spans.begin) <= 2 * count + 100_000

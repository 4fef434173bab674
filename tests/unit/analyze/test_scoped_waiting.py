"""Waits are counted in the steady steps, where these are the scope, and in the whole run otherwise."""

from __future__ import annotations

import polars as pl
import pytest

from aiflame.analyze.scoped_waiting import _within
from aiflame.analyze.waiting import Waiting, Why, costs
from aiflame.attribute.meaning.steady import Steady

SLEEP = Why.SLEEP.value


def waiting(*sleeps: tuple[int, int, int], threads: tuple[tuple[int, int, int], ...] = ((0, 0, 1000),)) -> Waiting:
    """`sleeps`: process, begin, end; `threads`: process, began, elapsed: the main thread of each."""
    names = {"process": pl.Int64, "thread": pl.Int64, "begin_ns": pl.Int64, "end_ns": pl.Int64, "ns": pl.Int64, "why": pl.String}
    seen = pl.DataFrame([(process, 1, begin, end, end - begin, SLEEP) for process, begin, end in sleeps], schema=names, orient="row")
    rows = [(process, 1, None if process == 0 else 0, True, "", began, elapsed, 0) for process, began, elapsed in threads]
    schema = ["process", "thread", "parent", "main", "name", "began_ns", "elapsed_ns", "cpu_ns"]
    return Waiting(seen, pl.DataFrame(rows, schema=schema, orient="row"), sampled=False, ready_ns=100)


def steady(*steps: tuple[int, int, int]) -> Steady:
    """Steps as process, begin, end."""
    process, begin, end = (pl.Series(column).to_numpy() for column in zip(*steps, strict=True))
    return Steady(dict.fromkeys(process.tolist(), 1), begin, end, process)


def share(of: Waiting) -> float:
    cost = costs(of).get(Why.SLEEP)
    return cost.share if cost is not None else 0.0


def test_a_wait_before_the_steps_does_not_count() -> None:
    of = waiting((0, 0, 400))
    assert share(of) == pytest.approx(0.4)
    assert share(_within(of, steady((0, 500, 700), (0, 700, 900)))) == 0


def test_a_wait_in_the_steps_is_a_share_of_them() -> None:
    of = waiting((0, 600, 700))
    assert share(of) == pytest.approx(0.1)
    assert share(_within(of, steady((0, 500, 700), (0, 800, 1000)))) == pytest.approx(100 / 400)


def test_of_a_wait_that_begins_before_them_the_rest_counts() -> None:
    assert share(_within(waiting((0, 300, 600)), steady((0, 500, 1000)))) == pytest.approx(100 / 500)


def test_a_process_without_steps_counts_while_others_have_some() -> None:
    """It lived for half of the steps, and slept all the time."""
    of = waiting((1, 0, 700), threads=((0, 0, 1000), (1, 0, 700)))
    inside = _within(of, steady((0, 500, 900)))
    assert inside.seen["ns"].to_list() == [200]
    assert inside.threads["elapsed_ns"].to_list() == [400, 200]


def test_time_without_a_cpu_is_that_part_of_it() -> None:
    assert _within(waiting((0, 0, 400)), steady((0, 500, 1000))).ready_ns == 50

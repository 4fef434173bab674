"""A lock's holder is one thread only where the samples leave no doubt; several have it in turns; too few samples name nobody."""

from __future__ import annotations

import polars as pl
import pytest

from aiflame.analyze.findings.holder import holder_text, surely_above
from aiflame.analyze.waiting import Waiting, Why, holders

MS = 1_000_000
NAMES = ("main", "reader", "writer", "saver")
Work = tuple[int, str, int]
"""Thread, function, samples."""


def recorded(*work: Work, length: int = 10 * MS, first: int = 1) -> tuple[Waiting, pl.DataFrame]:
    """Thread 0 waits for a lock all the time, beside threads that work one after another; the first sample is `first` times as long."""
    columns = {"process": pl.Int64, "thread": pl.Int64, "begin_ns": pl.Int64, "end_ns": pl.Int64, "ns": pl.Int64}
    seen: list[tuple[object, ...]] = []
    now = 0
    for thread, function, samples in work:
        for _ in range(samples):
            lasts = length * (1 if seen else first)
            seen.append((0, thread, now, now + lasts, lasts, None, "/app/io.py", 7 * thread, function, ""))
            now += lasts
    schema = {**columns, "why": pl.String, "file": pl.String, "line": pl.Int64, "caller": pl.String, "module": pl.String}
    rows = pl.DataFrame([(0, 0, 0, now, now, Why.LOCK.value, "/app/a.py", 3, "waits", ""), *seen], schema=schema, orient="row")
    threads = [(0, number, number == 0, name) for number, name in enumerate(NAMES)]
    of = Waiting(rows, pl.DataFrame(threads, schema=["process", "thread", "main", "name"], orient="row"), sampled=True)
    return of, rows.filter(pl.col("why") == Why.LOCK.value)


def text(*work: Work, first: int = 1) -> str:
    of, waits = recorded(*work, first=first)
    return holder_text(of, holders(of, waits, Why.LOCK))


@pytest.mark.parametrize(("one", "other"), [(30, 0), (100, 5), (1000, 200)])
def test_a_thread_that_surely_had_nearly_all_of_it_is_the_holder(one: int, other: int) -> None:
    assert text((1, "reads", one), (2, "reads", other)) == ", held by thread reader in reads() (io.py:7)"


@pytest.mark.parametrize(("one", "other"), [(10, 10), (12, 8), (17, 11), (14, 2), (25, 5), (600, 400), (750, 250)])
def test_threads_that_may_have_had_it_more_equally_than_was_seen_had_it_in_turns(one: int, other: int) -> None:
    assert text((1, "reads", one), (2, "reads", other)) == ", held in turns by 2 threads in reads() (io.py:7)"


def test_a_thread_with_a_stray_sample_is_none_of_those_that_take_turns() -> None:
    assert text((1, "reads", 60), (2, "reads", 40), (3, "saves", 1)) == ", held in turns by 2 threads in reads() (io.py:7)"


@pytest.mark.parametrize("samples", [1, 5, 15])
def test_few_samples_name_nobody(samples: int) -> None:
    assert text((1, "reads", samples)) == ""


def test_one_long_sample_counts_as_few() -> None:
    assert text((1, "reads", 20), first=1).startswith(", held by")
    assert text((1, "reads", 20), first=50) == ""


def test_holders_in_different_functions_are_several() -> None:
    assert text((1, "reads", 55), (2, "saves", 45)) == ", held in turns by 2 threads, most in reads() (io.py:7)"
    assert text((1, "reads", 50), (1, "saves", 45)) == ", held by thread reader, most in reads() (io.py:7)"


@pytest.mark.parametrize(
    ("share", "samples", "least", "sure"),
    [(1.0, 17, 0.8, True), (1.0, 16, 0.8, False), (0.9, 65, 0.8, True), (0.9, 30, 0.8, False), (0.8, 1e9, 0.8, False)],
)
def test_a_share_is_above_a_limit_where_its_interval_is(share: float, samples: float, least: float, sure: bool) -> None:
    assert surely_above(share, samples, least) == sure

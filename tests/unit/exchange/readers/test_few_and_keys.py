"""Joins of millions of rows with few, and the search for calls by correlation id: as slow and plain code finds them."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest

from aiflame.attribute.arrays import nodes
from aiflame.exchange.readers.devices.few import distinct, with_few
from aiflame.exchange.readers.launch_keys import first_of_each, is_in, keys

KEY = ("process", "device", "stream")
RANGES = {
    "one value each": ((3,), (0,), (-7,)),
    "one varies": ((3,), (0,), (1, 5, 1 << 40)),
    "all vary": ((0, 1), (-1, 5), (7, 9, 11)),
    "far apart": ((0, 1), (-(1 << 62), 1 << 62), (0, 1 << 62)),
}


@pytest.mark.parametrize("values", RANGES.values(), ids=RANGES)
@pytest.mark.parametrize("count", [0, 1, 500])
def test_distinct_rows_and_the_join_with_them(values: tuple[tuple[int, ...], ...], count: int) -> None:
    of = random.Random(count)
    rows = pl.DataFrame([[of.choice(one) for one in values] for _ in range(count)], schema=dict.fromkeys(KEY, pl.Int64), orient="row")
    in_order = list(dict.fromkeys(rows.iter_rows()))
    few = distinct(rows.with_columns(other=pl.lit("x")), KEY)
    assert few.columns == list(KEY) and few.rows() == in_order
    joined = with_few(rows, few.with_columns(number=pl.int_range(10, pl.len() + 10)), KEY)
    assert joined.columns == [*KEY, "number"]
    assert joined.rows() == [(*row, 10 + in_order.index(row)) for row in rows.iter_rows()]


def test_a_join_of_no_rows_has_the_columns_of_the_others() -> None:
    few = pl.DataFrame({"process": [1, 2], "name": ["a", "b"], "number": [3, 4]}, schema_overrides={"number": pl.UInt32})
    rows = pl.DataFrame({"process": [2], "begin": [7]})
    assert with_few(rows, few, ["process"]).clear().equals(with_few(rows.clear(), few, ["process"]), null_equal=True)
    assert with_few(rows.clear(), few, ["process"]).schema == with_few(rows, few, ["process"]).schema


@pytest.mark.parametrize("most", [40, 1 << 31, 1 << 50], ids=["dense", "far apart", "beyond 32 bits"])
def test_the_first_call_of_each_correlation_of_each_process(most: int) -> None:
    of = random.Random(most)
    ids = [of.randrange(most) for _ in range(30)]
    calls, work = ([(of.randrange(3), of.choice([*ids, -1])) for _ in range(count)] for count in (400, 40))
    frames = [pl.DataFrame(rows, schema={"process": pl.Int64, "correlation": pl.Int64}, orient="row") for rows in (calls, work)]
    own, wanted = keys(*frames)
    there = [pair in work and pair[1] >= 0 for pair in calls]
    assert (is_in(own, wanted) & (own >= 0)).tolist() == there
    assert first_of_each(own, wanted).tolist() == [row for row, pair in enumerate(calls) if there[row] and pair not in calls[:row]]


def test_nothing_is_in_nothing() -> None:
    none, some = np.zeros(0, dtype=np.int64), np.arange(3)
    for own, wanted in ((none, none), (none, some), (some, none)):
        assert not is_in(own, wanted).any() and len(is_in(own, wanted)) == len(own)
        assert not len(first_of_each(own, wanted))


@pytest.mark.parametrize("kinds", [1, 5, 60_000])
def test_numbers_of_many_values(kinds: int) -> None:
    values = np.random.default_rng(kinds).integers(-kinds, kinds, 100_000)
    ordered, place = nodes.numbered(values)
    assert ordered.tolist() == sorted(set(values.tolist())) and (ordered[place] == values).all()

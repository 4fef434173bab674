"""Which spans enclose others, as a search through all spans finds it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiflame.exchange.readers.nesting import nest

Span = tuple[int, int, int]
SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 12), st.integers(0, 12)), max_size=25).map(
    lambda drawn: sorted(
        ((thread, begin, begin + length) for thread, begin, length in drawn), key=lambda span: (span[0], span[1], -span[2])
    )
)


def columns(spans: list[Span]) -> tuple[list[int], list[int], list[int]]:
    threads, begins, ends = ([span[at] for span in spans] for at in range(3))
    return threads, begins, ends


def nested(spans: list[Span]) -> list[tuple[int, int]]:
    """Parent and end of each: the last span before it that is still open, in which it ends at the latest."""
    rows: list[tuple[int, int]] = []
    for thread, begin, end in spans:
        open_ones = [row for row, (_, cut_end) in enumerate(rows) if spans[row][0] == thread and cut_end > begin]
        parent = max(open_ones, default=-1)
        rows.append((parent, min(end, rows[parent][1]) if open_ones else end))
    return rows


def test_a_span_lies_in_the_innermost_one_that_encloses_it() -> None:
    nesting = nest([1, 1, 1, 1, 1, 2], [0, 0, 2, 4, 10, 3], [10, 5, 4, 5, 12, 4])
    assert nesting.parent.tolist() == [-1, 0, 1, 1, -1, -1]
    assert (nesting.end.tolist(), nesting.cut) == ([10, 5, 4, 5, 12, 4], 0)


def test_a_span_that_outlasts_the_one_in_which_it_began_ends_with_it() -> None:
    nesting = nest([1, 1, 1, 1], [0, 2, 3, 10], [10, 12, 11, 11])
    assert nesting.parent.tolist() == [-1, 0, 1, -1]
    assert (nesting.end.tolist(), nesting.cut) == ([10, 10, 10, 11], 2)


@given(SPANS)
def test_parents_are_those_that_a_search_finds(spans: list[Span]) -> None:
    nesting = nest(*columns(spans))
    right = nested(spans)
    assert list(zip(nesting.parent.tolist(), nesting.end.tolist(), strict=True)) == right
    assert nesting.cut == sum(end != span[2] for (_, end), span in zip(right, spans, strict=True))


def test_a_span_that_ends_before_it_begins_is_empty() -> None:
    nesting = nest([1, 1], [0, 5], [10, 3])
    assert (nesting.parent.tolist(), nesting.end.tolist(), nesting.cut) == ([-1, 0], [10, 5], 0)


def test_no_spans_have_no_parents() -> None:
    assert len(nest([], [], []).parent) == 0


@pytest.mark.parametrize(
    ("thread", "begin", "end"), [([1, 0], [0, 0], [1, 1]), ([0, 0], [1, 0], [2, 2]), ([0, 0], [0, 0], [1, 2]), ([0], [0, 1], [1, 2])]
)
def test_spans_out_of_order_are_refused(thread: list[int], begin: list[int], end: list[int]) -> None:
    with pytest.raises(ValueError):
        nest(thread, begin, end)

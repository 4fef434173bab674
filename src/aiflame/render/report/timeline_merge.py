"""Merges neighbouring short slices, if there are more than a page can hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Ints
from aiflame.values import dataclass

FINER = 7
"""The first bin that is tried is shorter, by this power of two, than the mean length of a span would be if there were no gaps."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans by lane and begin."""

    lane: Ints
    begin: Ints
    end: Ints
    row: NDArray[np.integer]
    """Its slice; for several merged slices, the longest."""
    count: NDArray[np.integer]
    """The number of slices merged into each."""
    busy: Ints
    """The time that they took together."""


def merged_details_first(spans: Spans, detail: NDArray[np.bool_], most: int) -> tuple[Spans, int, int]:
    """Merges spans of `detail` first, to at most `most` spans and a quarter more, at least to that quarter. Also returns the bins of
    both."""
    others_count = len(detail) - int(detail.sum())
    if others_count == len(detail):
        all_merged, bin_ns = merged(spans, most)
        return all_merged, 0, bin_ns
    kept, detail_ns = merged(_chosen(spans, np.flatnonzero(detail)), max(most // 4, most - others_count))
    others, rest_ns = merged(_chosen(spans, np.flatnonzero(~detail)), most)
    both = Spans(*(np.concatenate([getattr(kept, name), getattr(others, name)]) for name in Spans.__slots__))
    return _chosen(both, np.argsort(both.lane, kind="stable")), detail_ns, rest_ns


def _chosen(spans: Spans, rows: Ints) -> Spans:
    return Spans(*(getattr(spans, name)[rows] for name in Spans.__slots__))


def merged(spans: Spans, most: int) -> tuple[Spans, int]:
    """Merges to about `most` spans, but keeps all long ones: slices shorter than a bin that begin in the same bin become one span. Also
    returns the bin's length, 0: none was merged."""
    if len(spans.lane) <= most:
        return spans, 0
    reach = int(spans.end.max() - spans.begin.min())
    bin_ns = 1 << max(0, (reach // max(most, 1)).bit_length() - FINER)
    while bin_ns <= 2 * reach:
        first = _firsts(spans, bin_ns)
        if len(first) <= most:
            return _merged(spans, first), bin_ns
        bin_ns *= 2
    return _merged(spans, _firsts(spans, bin_ns)), bin_ns


def _firsts(spans: Spans, bin_ns: int) -> Ints:
    """The rows that begin a span into which others may be merged."""
    long = spans.end - spans.begin >= bin_ns
    place = spans.begin // bin_ns
    new = long.copy()
    new[:1] = True
    new[1:] |= long[:-1] | (spans.lane[1:] != spans.lane[:-1]) | (place[1:] != place[:-1])
    return np.flatnonzero(new)


def _merged(spans: Spans, first: Ints) -> Spans:
    took = spans.end - spans.begin
    many = np.diff(first, append=len(took))
    longest = took == np.repeat(np.maximum.reduceat(took, first), many)
    at = np.minimum.reduceat(np.where(longest, np.arange(len(took)), len(took)), first)
    return Spans(
        spans.lane[first],
        spans.begin[first],
        np.maximum.reduceat(spans.end, first),
        spans.row[at],
        np.add.reduceat(spans.count, first),
        np.add.reduceat(spans.busy, first),
    )

"""Which spans of a thread enclose others, and the time that each has for itself.

Spans are half open, and sorted by (thread, begin, -end); a span that ends before it begins counts as empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .trace_reader import Spans, library


@dataclass(frozen=True)
class Nest:
    parent: NDArray[np.int64]
    """The row of the innermost span that encloses each, or -1."""
    end: NDArray[np.int64]
    """The end of each span within its parent."""
    cut: int
    """Spans that began inside another and ended after it: they are its children and end with it."""


@dataclass(frozen=True)
class Pieces:
    """Stretches of time by thread and time, and the row of the span that is the innermost there; a thread's never overlap."""

    row: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def nest(thread: ArrayLike, begin: ArrayLike, end: ArrayLike) -> Nest:
    columns, spans = _sorted(thread, begin, end)
    parent, cut_end = (np.empty(len(columns[0]), np.int64) for _ in range(2))
    cut = library().aiflame_spans_nest(spans, parent.ctypes.data, cut_end.ctypes.data)
    if cut < 0:
        raise MemoryError
    return Nest(parent, cut_end, cut)


def segments(thread: ArrayLike, begin: ArrayLike, end: ArrayLike) -> Pieces:
    """The pieces of all spans of a thread cover the same time as the spans, each moment once.

    Where spans overlap, the one that began last is the innermost, so nothing need be cut before.
    """
    columns, spans = _sorted(thread, begin, end)
    row, starts, ends = (np.empty(2 * len(columns[0]), np.int64) for _ in range(3))
    count = library().aiflame_spans_segments(spans, row.ctypes.data, starts.ctypes.data, ends.ctypes.data)
    if count < 0:
        raise MemoryError
    return Pieces(row[:count].copy(), starts[:count].copy(), ends[:count].copy())


def _sorted(thread: ArrayLike, begin: ArrayLike, end: ArrayLike) -> tuple[list[NDArray[np.int64]], Spans]:
    """The arrays, which the second refers to."""
    columns = [np.ascontiguousarray(column, np.int64) for column in (thread, begin, end)]
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        raise ValueError("a thread, a begin and an end for each span")
    spans = Spans(*(column.ctypes.data for column in columns), len(columns[0]))
    if not library().aiflame_spans_in_order(spans):
        raise ValueError("spans are to be sorted by thread, begin and -end")
    return columns, spans

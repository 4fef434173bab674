"""Which spans of a thread enclose others.

Spans are half open, and sorted by (thread, begin, -end); a span that ends before it begins counts as empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiflame.errors import AiflameError
from aiflame.values import dataclass

from .trace_reader import Spans, library

_MOST = (1 << 31) - 1
"""A span's row is a number of 32 bits."""


@dataclass(frozen=True)
class Nest:
    parent: NDArray[np.int32]
    """The row of the innermost span that encloses each, or -1."""
    end: NDArray[np.int64]
    """The end of each span within its parent."""
    cut: int
    """Spans that began inside another and ended after it: they are its children and end with it."""


def in_order(thread: ArrayLike, begin: ArrayLike, end: ArrayLike) -> bool:
    """Whether spans are sorted by (thread, begin, -end)."""
    _kept, spans = _spans(thread, begin, end)
    return bool(library().aiflame_spans_in_order(spans))


def nest(thread: ArrayLike, begin: ArrayLike, end: ArrayLike) -> Nest:
    columns, spans = _spans(thread, begin, end)
    if not library().aiflame_spans_in_order(spans):
        raise ValueError("spans are to be sorted by thread, begin and -end")
    parent, cut_end = np.empty(len(columns[0]), np.int32), np.empty(len(columns[0]), np.int64)
    cut = library().aiflame_spans_nest(spans, parent.ctypes.data, cut_end.ctypes.data)
    if cut < 0:
        raise MemoryError
    return Nest(parent, cut_end, cut)


def _spans(thread: ArrayLike, begin: ArrayLike, end: ArrayLike) -> tuple[list[NDArray[Any]], Spans]:
    """The arrays, which the second refers to."""
    columns = [np.ascontiguousarray(column, kind) for column, kind in ((thread, np.uint32), (begin, np.int64), (end, np.int64))]
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        raise ValueError("a thread, a begin and an end for each span")
    spans = Spans(*(column.ctypes.data for column in columns), len(columns[0]))
    if spans.count > _MOST:
        raise AiflameError(f"the trace has more than {_MOST:,} calls: import a part of it")
    return columns, spans

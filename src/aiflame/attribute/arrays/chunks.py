"""Tables of millions of rows, read a piece at a time: what is worked out beside them is as large as a piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

PIECE = 1 << 20


def count(rows: pl.LazyFrame) -> int:
    return int(rows.select(pl.len()).collect().item())


def pieces(rows: pl.LazyFrame, size: int = PIECE) -> Iterator[pl.DataFrame]:
    """The rows, so many at a time; of none, one piece without rows."""
    for begin in range(0, max(count(rows), 1), size):
        yield rows.slice(begin, size).collect()


def arrays(rows: pl.LazyFrame) -> dict[str, NDArray[Any]]:
    """Columns of numbers. Polars keeps for a while what it has freed: of a table that is read as a whole, as much again."""
    size = count(rows)
    found = {name: np.empty(size, pl.Series(dtype=type_).to_numpy().dtype) for name, type_ in rows.collect_schema().items()}
    begin = 0
    for piece in pieces(rows):
        for name, column in found.items():
            column[begin : begin + len(piece)] = piece[name].to_numpy()
        begin += len(piece)
    return found


def take_or(column: NDArray[Any], row: NDArray[np.int64], otherwise: Any) -> NDArray[Any]:
    """The value of each row, of -1 another one."""
    if not len(column):
        return np.full(len(row), otherwise, dtype=column.dtype)
    found = column[row]
    found[row < 0] = otherwise
    return found

"""Reads tables of millions of rows in pieces, so that intermediate results are no larger than a piece."""

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
    """The rows in pieces of a limited size; one empty piece if there are no rows."""
    begin = 0
    while True:
        piece = rows.slice(begin, size).collect()
        if len(piece) or not begin:
            yield piece
        if len(piece) < size:
            return
        begin += size


def arrays(rows: pl.LazyFrame) -> dict[str, NDArray[Any]]:
    """Columns of numbers, read in pieces: Polars keeps freed memory for a while, so reading a whole table would take twice the memory."""
    size = count(rows)
    columns = {name: np.empty(size, pl.Series(dtype=type_).to_numpy().dtype) for name, type_ in rows.collect_schema().items()}
    begin = 0
    for piece in pieces(rows):
        for name, column in columns.items():
            column[begin : begin + len(piece)] = piece[name].to_numpy()
        begin += len(piece)
    return columns


def take_or(column: NDArray[Any], row: NDArray[np.int64], otherwise: Any) -> NDArray[Any]:
    """The column's value at each row, `otherwise` for row -1."""
    if not len(column):
        return np.full(len(row), otherwise, dtype=column.dtype)
    values = column[row]
    values[row < 0] = otherwise
    return values

"""Tables that are read a piece at a time."""

from __future__ import annotations

import polars as pl
import pytest

from aiflame.attribute.arrays.chunks import pieces


@pytest.mark.parametrize(("rows", "sizes"), [(0, [0]), (1, [1]), (2, [2]), (3, [2, 1]), (4, [2, 2]), (5, [2, 2, 1])])
def test_each_row_is_in_one_piece_and_a_table_without_rows_is_one_piece(rows: int, sizes: list[int]) -> None:
    table = pl.DataFrame({"row": range(rows)}, schema={"row": pl.Int64})
    read = list(pieces(table.lazy(), 2))
    assert [len(piece) for piece in read] == sizes
    assert pl.concat(read).equals(table)

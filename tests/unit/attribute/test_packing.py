"""One number instead of several columns: equal where all columns are, and only there."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aiflame.attribute.arrays.row_keys import packed

WIDE = st.sampled_from([0, 1, 2, -1, 2**31, 2**40, 2**61, -(2**61)])


@given(st.lists(st.tuples(WIDE, WIDE, WIDE, st.booleans()), max_size=12))
def test_rows_differ_by_all_their_columns(rows: list[tuple[int, int, int, bool]]) -> None:
    """Also where the columns together take more bits than a number has."""
    columns = [np.array([row[place] for row in rows], dtype=np.int64) for place in range(3)]
    flags = np.array([row[3] for row in rows], dtype=np.bool_)
    keys = packed([*columns, flags], len(rows)).tolist()
    assert [[one == other for other in keys] for one in keys] == [[one == other for other in rows] for one in rows]


def test_without_columns_all_rows_are_one() -> None:
    assert packed([], 3).tolist() == [0, 0, 0]

"""Rows are sorted only where they are not in order."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest

from aiflame.attribute.arrays.order import in_order

LENGTHS: dict[int, list[list[int]]] = {0: [[]], 1: [[7]], 3: [[0, 0, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0], [2, 1, 0]]}


@pytest.mark.parametrize(("process", "step"), [pair for columns in LENGTHS.values() for pair in product(columns, columns)])
def test_rows_are_in_order_as_a_sort_has_them(process: list[int], step: list[int]) -> None:
    rows = pl.DataFrame({"process": process, "step": step}, schema=dict.fromkeys(("process", "step"), pl.Int64)).with_row_index("row")
    assert in_order(rows, "process", "step").equals(rows.sort("process", "step", maintain_order=True))


def test_rows_in_order_are_not_copied() -> None:
    rows = pl.DataFrame({"process": [0, 0, 1, 1], "step": [0, 1, 0, 0]})
    assert in_order(rows, "process", "step") is rows
    assert in_order(rows, "step", "process") is not rows

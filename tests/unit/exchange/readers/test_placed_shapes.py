"""The shapes of ops find their calls by number."""

from __future__ import annotations

import polars as pl

from aiflame.exchange.readers.chrome.op_shapes import placed


def test_calls_of_two_halves_have_no_number_and_no_shapes() -> None:
    calls = pl.DataFrame({"call": pl.Series([3, 0xFFFFFFFF, 1], dtype=pl.UInt32), "name": pl.Series([7, 8, 9], dtype=pl.UInt32)})
    shapes = pl.DataFrame({"call": [1, 2, 3], "dims": [10, 20, 30]})
    assert placed(shapes, calls).to_dicts() == [{"dims": 10, "row": 2, "name": 9}, {"dims": 30, "row": 0, "name": 7}]

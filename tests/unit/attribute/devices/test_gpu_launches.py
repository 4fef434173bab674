"""The launch of each kernel: by process, API and correlation id, the first of several."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_program import InMemory

from aiflame.attribute.devices.launches import LaunchTable

SMALL = st.integers(0, 2)
LAUNCHES = st.lists(st.tuples(SMALL, SMALL, SMALL), max_size=8)


@given(LAUNCHES, st.permutations(range(8)), LAUNCHES)
def test_the_first_with_its_process_api_and_correlation_counts(
    launches: list[tuple[int, int, int]], ids: list[int], asked: list[tuple[int, int, int]]
) -> None:
    """The order of the table's rows does not matter."""
    rows = [
        {"process": process, "api": api, "correlation": correlation, "id": number + 1}
        for (process, api, correlation), number in zip(launches, ids, strict=False)
    ]
    columns = [np.array([one[place] for one in asked], dtype=kind) for place, kind in enumerate((np.uint32, np.uint32, np.uint64))]
    indices = LaunchTable.of(InMemory({"launches": rows})).find(*columns).tolist()
    expected = []
    for wanted in asked:
        matching = [row for row, launch in enumerate(launches) if launch == wanted]
        expected.append(min(matching, key=lambda row: ids[row], default=-1))
    assert indices == expected

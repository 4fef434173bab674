"""Whole numbers in proportion: exact sums, and nobody favoured."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiflame.attribute.arrays import apportion
from aiflame.attribute.arrays.apportion import divide, scaled
from aiflame.attribute.devices.windows import overlaps


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


SAMPLES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(1, 50)), min_size=1, max_size=60)
RAN = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 10**12)), max_size=20)


def divided(samples: list[tuple[int, int, int]], executions: list[tuple[int, int, int]]) -> dict[tuple[int, int], int]:
    point, window, count = (ints(*column) for column in zip(*samples, strict=True))
    site, of_window, overlap = (ints(*column) for column in zip(*executions, strict=True))
    site, point, value = divide(point, window, count, site, of_window, overlap)
    assert (value >= 0).all()
    return {(int(one), int(other)): int(many) for one, other, many in zip(site, point, value, strict=True) if many}


@pytest.mark.parametrize("cells", [apportion.CELLS, 16])
@given(samples=SAMPLES, executions=RAN)
def test_points_keep_their_samples_and_sites_get_their_part(
    cells: int, samples: list[tuple[int, int, int]], executions: list[tuple[int, int, int]]
) -> None:
    """Also where the matrix is worked on in pieces."""
    executions += [(site, window, 1) for site in (0, 2) for window in range(4)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apportion, "CELLS", cells)
        parts = divided(samples, executions)
    points, sites = Counter[int](), Counter[int]()
    for (site, point), value in parts.items():
        points[point] += value
        sites[site] += value
    for point, _, count in samples:
        points[point] -= count
    assert not any(points.values())
    if cells == apportion.CELLS:
        whole = Counter[int]()
        expected = Counter[int]()
        for _, window, overlap in executions:
            whole[window] += overlap
        for _, window, count in samples:
            for site, of_window, overlap in executions:
                expected[site] += count * overlap / whole[window] if of_window == window else 0  # type: ignore[assignment]
        assert all(abs(sites[site] - part) <= 3 for site, part in expected.items())


def test_a_site_that_did_not_run_gets_nothing() -> None:
    executions = [(site, 0, 10) for site in range(3)] + [(site, 1, 10) for site in range(3, 5)]
    parts = divided([(point, 0, 1) for point in range(1000)], executions)
    assert {site for site, _ in parts} == {0, 1, 2}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000)), min_size=1), st.lists(st.integers(0, 1 << 50), min_size=4, max_size=4))
def test_scaled_values_sum_up_to_their_group_s_total(rows: list[tuple[int, int]], totals: list[int]) -> None:
    group, value = (ints(*column) for column in zip(*sorted(rows), strict=True))
    parts = scaled(group, value, np.array(totals)[group])
    assert (parts >= 0).all()
    assert {int(one): int(parts[group == one].sum()) for one in np.unique(group)} == {int(one): totals[one] for one in np.unique(group)}


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=6),
)
def test_overlaps_are_those_of_the_intervals_though_windows_overlap_too(
    executions: list[tuple[int, int, int]], windows: list[tuple[int, int]]
) -> None:
    site, start, took = (ints(*column) for column in zip(*executions, strict=True))
    begin, length = (ints(*column) for column in zip(*windows, strict=True))
    expected = Counter[tuple[int, int]]()
    for one, first, long in executions:
        for number, (opens, wide) in enumerate(windows):
            expected[one, number] += max(0, min(first + long, opens + wide) - max(first, opens))
    rows = overlaps(site, start, start + took, begin, begin + length)
    assert {(one, number): shared for one, number, shared in rows.rows()} == {key: shared for key, shared in expected.items() if shared}

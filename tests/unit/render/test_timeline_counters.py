"""Counters of the report's timeline: which of very many points are kept, and on which scale."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from made_timelines import MS

from aiflame.attribute.timeline.tables import Making, Timeline, TrackKind
from aiflame.render.report.timeline_counters import LEVELS, MOST_EACH, Counters, counters

END = 100 * MS


def made(*of: tuple[str, str, dict[int, float]], machine: bool = True) -> Timeline:
    """`of`: label, unit, and a value for each time."""
    making = Making()
    process = making.track(TrackKind.PROCESS, -1, 0, "python train.py")
    above = making.track(TrackKind.MACHINE, making.track(TrackKind.MACHINE, -1, 0, "Machine"), 0, "NVIDIA H200 [0]") if machine else process
    for label, unit, points in of:
        track = making.track(TrackKind.COUNTER, above, 0, label, unit=unit)
        making.points(pl.DataFrame({"time_ns": list(points), "value": list(points.values())}).with_columns(track=pl.lit(track)))
    return making.finish()


def points(read_counters: Counters, at: int = 0) -> list[tuple[int, float]]:
    """The points of a counter: (ns after the beginning, value)."""
    first = sum(int(str(one["count"])) for one in read_counters.head[:at])
    rows = slice(first, first + int(str(read_counters.head[at]["count"])))
    floor, top = float(str(read_counters.head[at]["floor"])), float(str(read_counters.head[at]["top"]))
    time, level = (np.asarray(read_counters.columns[name])[rows] for name in ("point.gap", "point.value"))
    return list(zip(np.cumsum(time).tolist(), (floor + level / LEVELS * (top - floor)).tolist(), strict=True))


def test_few_points_are_all_there() -> None:
    read_counters = counters(made(("power", "W", {0: 100.0, 50 * MS: 400.0, 60 * MS: 300.0})), 0, END)
    assert points(read_counters) == [(0, 100.0), (50 * MS, 400.0), (60 * MS, 300.0)]
    assert read_counters.head[0] | {"floor": 0, "top": 0} == {
        "group": "NVIDIA H200 [0]", "label": "power", "machine": True, "unit": "W", "floor": 0, "top": 0, "count": 3,
    }  # fmt: skip
    assert not read_counters.thinned


def test_a_stretch_begins_with_the_value_that_holds_there() -> None:
    whole = made(("power", "W", {0: 100.0, 50 * MS: 400.0, 90 * MS: 300.0}))
    assert points(counters(whole, 60 * MS, END)) == [(0, 400.0), (30 * MS, 300.0)]
    assert points(counters(whole, 20 * MS, 30 * MS)) == [(0, 100.0)]


def test_values_counted_after_the_stretch_are_not_in_it() -> None:
    assert counters(made(("power", "W", {200 * MS: 1.0})), 0, END).head == []


def test_of_many_points_the_highest_and_the_lowest_are_kept() -> None:
    """A million points at 100 W, one of 700 and one of 3 among them."""
    value = np.full(1_000_000, 100.0)
    value[[123_456, 654_321]] = 700.0, 3.0
    read_counters = counters(made(("power", "W", dict(enumerate(value.tolist())))), 0, len(value))
    kept = dict(points(read_counters))
    assert len(kept) <= MOST_EACH
    assert (kept[123_456], round(kept[654_321])) == (700.0, 3)
    assert read_counters.thinned


def test_very_many_counters_have_fewer_points_each() -> None:
    many = 200
    each = dict.fromkeys(range(20_000), 1.0)
    read_counters = counters(made(*((f"core {at}", "%", each) for at in range(many))), 0, 20_000)
    assert sum(int(str(one["count"])) for one in read_counters.head) <= 300_000


@pytest.mark.parametrize(
    ("unit", "values", "scale"),
    [
        ("W", (70.0, 700.0), (0, 700)),
        ("%", (3.0, 80.0), (0, 100)),
        ("%", (0.0, 2.0), (0, 2)),
        ("°C", (30.0, 60.0), (30, 60)),
        ("MHz", (1980.0, 1980.0), (1980, 1981)),
        ("", (-5.0, 5.0), (-5, 5)),
    ],
)
def test_the_scale_of_a_counter(unit: str, values: tuple[float, float], scale: tuple[float, float]) -> None:
    (one,) = counters(made(("it", unit, {0: values[0], MS: values[1]})), 0, END).head
    assert (one["floor"], one["top"]) == scale


def test_counters_of_a_process_name_it() -> None:
    (one,) = counters(made(("resident memory", "bytes", {0: 1.0}), machine=False), 0, END).head
    assert (one["group"], one["label"], one["machine"]) == ("Processes", "python train.py: resident memory", False)


def test_parts_of_a_counter_keep_the_same_moments_also_the_one_of_their_highest_sum() -> None:
    making = Making()
    above = making.track(TrackKind.COUNTER, making.track(TrackKind.PROCESS, -1, 0, "python"), 0, "memory", unit="bytes")
    times = np.arange(20_000) * 1000
    sums = np.zeros(20_000)
    making.points(pl.DataFrame({"time_ns": times, "value": sums}).with_columns(track=pl.lit(above)))
    for name, at in (("one", 7001), ("other", 7001), ("third", 12_003)):
        value = np.where(np.arange(20_000) == at, 100.0, np.arange(20_000) % 3)
        part = making.track(TrackKind.COUNTER, above, 0, name, unit="bytes")
        making.points(pl.DataFrame({"time_ns": times, "value": value}).with_columns(track=pl.lit(part)))
    read_counters = counters(making.finish(), 0, 20_000_000)
    assert [(one.get("of"), one.get("part")) for one in read_counters.head] == [(None, None), (0, "one"), (0, "other"), (0, "third")]
    kept = [dict(points(read_counters, at)) for at in (1, 2, 3)]
    assert list(kept[0]) == list(kept[1]) == list(kept[2])
    assert len(kept[0]) <= MOST_EACH
    assert (kept[0][7_001_000], kept[1][7_001_000], kept[2][12_003_000]) == (100, 100, 100)

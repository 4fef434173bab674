"""Old hours go, and the oldest where there is no room; a clock that was set removes nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from store_rows import new_store, window

from aiflame.profile.folder.door import Folder
from aiflame.store.layout import begin_of, hour_of, hours
from aiflame.store.retention import FREE_BYTES, Retention
from aiflame.store.tables import write

NOW = begin_of("2026-11-27T14Z") + 600


class Clock:
    wall, since_boot = float(NOW), 1000.0

    def go_on(self, seconds: float) -> None:
        self.wall += seconds
        self.since_boot += seconds


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    new = new_store(tmp_path)
    for back in range(5):
        write(new, hour_of((NOW - back * 3600) * 10**9), window(back, {("a",): 1}))
    return new


def retention(store: Folder, clock: Clock, lines: list[str], keep_s: float = 1e9, most: int = 1 << 40, free: int = 1 << 40) -> Retention:
    return Retention(store, keep_s, most, lines.append, wall=lambda: clock.wall, since_boot=lambda: clock.since_boot, free=lambda: free)


def test_hours_that_are_too_old_go(store: Folder) -> None:
    clock, lines = Clock(), list[str]()
    kept = retention(store, clock, lines, keep_s=2 * 3600)
    assert kept.look() == ["2026-11-27T10Z", "2026-11-27T11Z"]
    clock.go_on(3600)
    assert kept.look() == ["2026-11-27T12Z"]
    assert hours(store) == ["2026-11-27T13Z", "2026-11-27T14Z"]
    assert lines == []


@pytest.mark.parametrize("step", [-86_400 * 400, 86_400 * 400])
def test_a_clock_that_was_set_removes_nothing_for_a_day(store: Folder, step: float) -> None:
    clock, lines = Clock(), list[str]()
    kept = retention(store, clock, lines, keep_s=2 * 3600)
    clock.wall += step
    assert kept.look() == []
    clock.go_on(86_000)
    assert kept.look() == []
    clock.wall -= step
    assert kept.look() == []
    assert len(lines) == 2 and all("the clock was set" in line for line in lines)
    clock.go_on(86_401)
    assert len(kept.look()) == 5


def test_a_machine_that_was_suspended_has_not_set_its_clock(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock and the one since boot go on by nine hours, and the monotonic one by nothing."""
    clock, lines = Clock(), list[str]()
    monkeypatch.setattr("time.clock_gettime", lambda which: {time.CLOCK_BOOTTIME: clock.since_boot, time.CLOCK_MONOTONIC: 1000.0}[which])
    kept = Retention(store, 8 * 3600, 1 << 40, lines.append, wall=lambda: clock.wall)
    clock.go_on(9 * 3600)
    assert len(kept.look()) == 5
    assert lines == []


def test_the_oldest_hours_go_where_the_store_is_too_large(store: Folder) -> None:
    lines: list[str] = []
    of_hours = {hour: store.folder("hours", hour).size() for hour in hours(store)}
    most = store.size() - of_hours["2026-11-27T10Z"] - 1
    assert retention(store, Clock(), lines, most=most).look() == ["2026-11-27T10Z", "2026-11-27T11Z"]
    assert lines == ["the store is as large as it may be: 2 hours, 2026-11-27T10Z to 2026-11-27T11Z, removed"]
    assert retention(store, Clock(), lines, most=1).look() == ["2026-11-27T12Z", "2026-11-27T13Z"]
    assert store.size() > 0


def test_a_full_disk_costs_one_hour_at_a_time_and_a_line(store: Folder) -> None:
    lines: list[str] = []
    clock = Clock()
    needed = FREE_BYTES
    size = store.size()

    def free() -> int:
        return needed - 1 if len(hours(store)) > 3 else needed

    kept = Retention(store, 1e9, 1 << 40, lines.append, wall=lambda: clock.wall, since_boot=lambda: clock.since_boot, free=free)
    assert not kept.make_room()
    assert lines == ["the disk is nearly full: hour 2026-11-27T10Z removed from the store"]
    assert kept.make_room()
    assert hours(store) == ["2026-11-27T12Z", "2026-11-27T13Z", "2026-11-27T14Z"]
    assert len(lines) == 2
    assert kept.make_room() and len(lines) == 2
    assert 0 < store.size() < size


def test_the_newest_hour_stays_on_a_full_disk(store: Folder) -> None:
    lines: list[str] = []
    kept = retention(store, Clock(), lines, free=0)
    assert not any(kept.make_room() for _ in range(6))
    assert hours(store) == ["2026-11-27T14Z"]
    assert len(lines) == 4

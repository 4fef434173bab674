"""Hosts' clocks are aligned by the collectives of their ranks: the test makes up true offsets, latencies, stragglers and drift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from aiflame.analyze.ranks.clock_estimate import Clock, Meetings, clocks

MS, US, HOUR = 1_000_000, 1_000, 3_600_000_000_000
ENOUGH_NS = 50 * US


@dataclass
class World:
    """Ranks that meet again and again, each with a clock of its own: rank 0's is the true time."""

    skews_ns: tuple[int, ...]
    meetings: int = 500
    every_ns: int = 10 * MS
    wait_ns: int = 300 * US
    """On average, until the last has come."""
    latency_ns: tuple[int, ...] = ()
    """The least that a message takes to each rank; beyond it an exponential tail."""
    tail_ns: int = 40 * US
    late: int | None = None
    """The rank that always comes last, by a lot."""
    drifts: tuple[float, ...] = ()
    seed: int = 1

    def play(self) -> Meetings:
        random, ranks = np.random.default_rng(self.seed), len(self.skews_ns)
        start = 1_000_000 * MS + self.every_ns * np.arange(self.meetings)[:, None]
        came = start + random.exponential(self.wait_ns, (self.meetings, ranks))
        if self.late is not None:
            came[:, self.late] = came.max(axis=1) + 5 * MS + random.exponential(5 * MS, self.meetings)
        latency = np.array(self.latency_ns or [10 * US] * ranks) + random.exponential(self.tail_ns, (self.meetings, ranks))
        left = came.max(axis=1)[:, None] + latency
        rank, number = np.meshgrid(np.arange(ranks), np.arange(self.meetings))
        return Meetings(rank.ravel(), number.ravel(), self.clock_times(came).ravel(), self.clock_times(left).ravel())

    def clock_times(self, true: np.ndarray) -> np.ndarray:
        """A true time, as the clock of each rank has it."""
        drifts = np.array(self.drifts or [0.0] * len(self.skews_ns))
        shown_ns: np.ndarray = np.round(true + np.array(self.skews_ns) + drifts * (true - 1_000_000 * MS)).astype(np.int64)
        return shown_ns

    def errors_ns(self, aligned: dict[int, Clock]) -> np.ndarray:
        """By how much each rank's clock is off once it is moved, at each meeting."""
        true = 1_000_000 * MS + self.every_ns * np.arange(self.meetings)[:, None] + np.zeros(len(self.skews_ns))
        shown_ns = self.clock_times(true)
        moved = [[aligned[rank].shift.moment(int(time)) for time in shown_ns[:, rank]] for rank in range(len(self.skews_ns))]
        errors: np.ndarray = np.array(moved).T - true
        return errors


SKEWED = (0, 50 * MS, -50 * MS, 17 * MS)


def test_skews_of_50_ms_are_removed_to_within_50_microseconds() -> None:
    world = World(SKEWED)
    aligned = clocks(world.play())
    assert np.abs(world.errors_ns(aligned)).max() < ENOUGH_NS
    for rank in (1, 2, 3):
        residual = aligned[rank].residual_ns
        assert residual is not None
        assert abs(aligned[rank].shift.offset_ns + SKEWED[rank]) <= residual
        assert residual < ENOUGH_NS


def test_the_first_rank_keeps_its_clock() -> None:
    assert clocks(World(SKEWED).play())[0].shift.none


def test_latencies_that_differ_by_rank_cost_half_of_their_difference() -> None:
    world = World(SKEWED, latency_ns=(10 * US, 70 * US, 10 * US, 10 * US))
    assert np.abs(world.errors_ns(clocks(world.play()))).max() < ENOUGH_NS


@pytest.mark.parametrize("late", [0, 2])
def test_a_straggler_that_always_comes_last_does_not_pull_its_clock(late: int) -> None:
    world = World(SKEWED, late=late)
    aligned = clocks(world.play())
    assert np.abs(world.errors_ns(aligned)).max() < ENOUGH_NS
    assert aligned[2].by_leaving  # its bound on one side is off by how much the others wait
    assert aligned[2].half_width_ns is not None
    assert aligned[2].half_width_ns > 1 * MS


def test_collectives_that_a_rank_took_no_part_in_are_no_evidence_of_its_clock() -> None:
    world = World(SKEWED)
    played = world.play()
    kept = (played.rank != 1) | (played.number % 7 == 3)
    aligned = clocks(Meetings(played.rank[kept], played.number[kept], played.begin_ns[kept], played.end_ns[kept]))
    assert aligned[1].meetings == len([number for number in range(500) if number % 7 == 3])
    assert np.abs(world.errors_ns(aligned)).max() < ENOUGH_NS


def test_a_few_collectives_that_were_mistaken_for_one_another_are_refused() -> None:
    world = World(SKEWED)
    played = world.play()
    number = played.number.copy()
    wrong = (played.rank == 1) & (number < 20)
    number[wrong] += 1  # after a call that was lost
    aligned = clocks(Meetings(played.rank, number, played.begin_ns, played.end_ns))
    assert np.abs(world.errors_ns(aligned)).max() < ENOUGH_NS
    assert 0 < aligned[1].refused <= 20
    assert aligned[2].refused == 0


def test_clocks_that_drift_apart_over_an_hour_are_followed() -> None:
    world = World(SKEWED, meetings=3600, every_ns=HOUR // 3600, drifts=(0.0, 20e-6, -5e-6, 0.0))
    aligned = clocks(world.play())
    assert np.abs(world.errors_ns(aligned)).max() < ENOUGH_NS
    assert aligned[1].shift.drift == pytest.approx(-20e-6, rel=0.01)
    assert aligned[3].shift.drift == 0.0


def test_drift_is_followed_beside_a_straggler_too() -> None:
    world = World(SKEWED, meetings=3600, every_ns=HOUR // 3600, late=1, drifts=(0.0, 20e-6, -5e-6, 0.0))
    assert np.abs(world.errors_ns(clocks(world.play()))).max() < ENOUGH_NS


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_not_taken_for_drift(seed: int) -> None:
    aligned = clocks(World(SKEWED, seed=seed, tail_ns=200 * US).play())
    assert {clock.shift.drift for clock in aligned.values()} == {0.0}


def test_ranks_of_one_host_share_a_clock() -> None:
    world = World((0, 0, 30 * MS, 30 * MS))
    aligned = clocks(world.play(), {0: 0, 1: 0, 2: 1, 3: 1})
    assert list(aligned) == [0, 1]
    assert abs(aligned[1].shift.offset_ns + 30 * MS) < ENOUGH_NS


def test_a_clock_with_no_collective_with_the_first_is_aligned_through_a_third() -> None:
    world = World((0, 20 * MS, -30 * MS))
    played = world.play()
    kept = np.where(played.number % 2 == 0, played.rank != 2, played.rank != 0)
    aligned = clocks(Meetings(played.rank[kept], played.number[kept], played.begin_ns[kept], played.end_ns[kept]))
    assert np.abs(world.errors_ns(aligned)).max() < 2 * ENOUGH_NS
    assert aligned[2].residual_ns is not None
    assert aligned[1].residual_ns is not None
    assert aligned[2].residual_ns > aligned[1].residual_ns


def test_a_host_without_collectives_keeps_its_time_of_day_and_a_note_says_so() -> None:
    played = World(SKEWED).play()
    kept = played.rank != 3
    meetings = Meetings(played.rank[kept], played.number[kept], played.begin_ns[kept], played.end_ns[kept])
    alone = clocks(meetings, {0: 0, 1: 1, 2: 2, 3: 3})[3]
    assert alone.shift.none
    assert alone.residual_ns is None


def test_a_single_meeting_moves_a_clock_no_further_than_it_must() -> None:
    # Rank 1 says that it came 5 ms after rank 0 had left: it is at least so much ahead.
    one = Meetings(np.array([0, 1]), np.array([0, 0]), np.array([100 * MS, 106 * MS]), np.array([101 * MS, 107 * MS]))
    assert clocks(one)[1].shift.offset_ns == -5 * MS
    near = Meetings(np.array([0, 1]), np.array([0, 0]), np.array([100 * MS, 101 * MS]), np.array([103 * MS, 104 * MS]))
    assert clocks(near)[1].shift.none


def test_no_meetings_are_no_clocks() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert clocks(Meetings(none, none, none, none)) == {}

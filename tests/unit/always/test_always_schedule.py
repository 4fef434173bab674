"""The budget holds in the long run, and no process is forgotten. Time is given, not waited for."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from aiflame.always.schedule import Budget, Turns


def run(rate: float, processes: int, cost_s: float, seconds: int, every_s: float = 300) -> tuple[Budget, Counter[str]]:
    """Windows of 10 s, whose cost is known when they have ended."""
    budget, turns = Budget(rate, 0), Turns(every_s, random.Random(1))
    for number in range(processes):
        turns.add(str(number), 0)
    begun: list[float] = []
    windows: Counter[str] = Counter()
    for now in range(1, seconds):
        budget.earn(now)
        while begun and begun[0] + 10 <= now:
            begun.pop(0)
            budget.spend(cost_s)
            budget.learn(cost_s)
        while budget.allows(len(begun)) and (key := turns.take(now)) is not None:
            begun.append(now)
            windows[key] += 1
    return budget, windows


@pytest.mark.parametrize("cost_s", [0.1, 0.6, 5.0])
@pytest.mark.parametrize("processes", [1, 40, 400])
def test_the_budget_holds_and_every_process_has_its_turn(processes: int, cost_s: float) -> None:
    budget, windows = run(0.02, processes, cost_s, 86_400)
    assert budget.spent_s <= 0.02 * 86_400 * 1.01 + 2 * cost_s
    possible = 0.02 * 86_400 / cost_s
    wanted = processes * 86_400 / 300
    assert sum(windows.values()) >= 0.9 * min(possible, wanted)
    if possible > 3 * processes:
        assert len(windows) == processes
        assert max(windows.values()) <= 3 * min(windows.values())


@pytest.mark.parametrize("seconds", [49, 240, 3600])
def test_the_budget_holds_from_the_first_minute_on(seconds: int) -> None:
    budget, windows = run(0.02, 40, 0.9, seconds)
    assert budget.spent_s <= 0.02 * seconds
    assert sum(windows.values()) >= (0.02 * seconds - 2) / 0.9


def test_time_of_its_own_is_part_of_the_budget() -> None:
    budget = Budget(0.01, 0)
    for now in range(1, 1000):
        budget.earn(now)
        budget.spend(0.02)
        assert not budget.allows(0) or now < 100
    assert not budget.allows(0)


def test_neither_new_nor_known_processes_starve() -> None:
    turns = Turns(10, random.Random(2))
    for number in range(20):
        turns.add(f"old{number}", 0)
    for now in range(10, 30):
        assert turns.take(now) is not None
    turns_taken: Counter[str] = Counter()
    for now in range(30, 530):
        turns.add(f"new{now}", now - 10)
        key = str(turns.take(now))
        turns_taken[key[:3]] += 1
        if key.startswith("new"):
            turns.remove(key)  # it has ended
    assert min(turns_taken["old"], turns_taken["new"]) > 150


def test_the_first_window_of_a_process_may_lie_anywhere_in_it_but_for_its_start() -> None:
    turns = Turns(300, random.Random(4))
    first: dict[str, int] = {}
    for number in range(1000):
        turns.add(str(number), 0)
    for now in range(301):
        while (key := turns.take(now)) is not None:
            first.setdefault(key, now)
    assert len(first) == 1000
    assert min(first.values()) > 2
    shares = [sum(one <= at for one in first.values()) / 1000 for at in (25, 75, 150)]
    assert shares == pytest.approx([0.504, 0.723, 0.862], abs=0.06)


def test_moments_are_spread_and_a_process_can_be_put_off() -> None:
    turns = Turns(100, random.Random(3))
    turns.add("a", 0)
    moments = [now for now in range(100_000) if turns.take(now) == "a"]
    gaps = [after - before for before, after in pairwise(moments)]
    assert 50 <= min(gaps) < 60 and 140 < max(gaps) <= 151
    assert sum(gaps) / len(gaps) == pytest.approx(100, rel=0.05)
    turns.later("a", 100_000, float("inf"))
    assert turns.take(10**9) is None
    turns.remove("a")
    turns.later("a", 0, 0)
    assert turns.take(10**9) is None

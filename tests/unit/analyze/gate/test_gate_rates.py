"""How often a gate is wrong: on simulated runs with a known answer, and by tables of Student's t."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated_runs import SLOW, simulated

from aiflame.analyze.gate.comparison import Noise, Outcome, Verdict, judged
from aiflame.analyze.gate.noise import blocks, quantile, reach, tail_of
from aiflame.analyze.gate.thresholds import Thresholds

PAIRS = 300


def slower(base: int, new: int, noise: float, change: float = 0.0, steps: int = 0) -> list[list[str]]:
    """The regressions of each of PAIRS gates."""
    chance = np.random.default_rng(21)

    def verdicts() -> list[Verdict]:
        before = [simulated(chance, noise, steps=steps) for _ in range(base)]
        return judged(before, [simulated(chance, noise, change, steps) for _ in range(new)], Thresholds.of())

    return [[one.item for one in verdicts() if one.outcome is Outcome.SLOWER] for _ in range(PAIRS)]


@pytest.mark.parametrize(("base", "new", "noise"), [(5, 5, 0.02), (5, 5, 0.05), (5, 5, 0.2), (3, 3, 0.05), (10, 1, 0.02)])
def test_where_nothing_changed_at_most_one_gate_of_twenty_fails(base: int, new: int, noise: float) -> None:
    failed = sum(bool(names) for names in slower(base, new, noise))
    assert failed / PAIRS <= 0.05


def test_a_kernel_that_takes_a_tenth_longer_is_named_in_nineteen_of_twenty_gates() -> None:
    named = sum(SLOW in names for names in slower(5, 5, noise=0.02, change=0.1))
    assert named / PAIRS >= 0.95


def test_a_tenth_is_not_seen_in_noise_of_a_fifth() -> None:
    assert sum(SLOW in names for names in slower(5, 5, noise=0.2, change=0.1)) / PAIRS <= 0.05


def test_an_improvement_is_no_regression() -> None:
    assert sum(SLOW in names for names in slower(5, 5, noise=0.02, change=-0.1)) == 0


def test_of_one_run_on_each_side_steps_show_the_noise() -> None:
    chance = np.random.default_rng(3)
    base, new = simulated(chance, 0.005, steps=40), simulated(chance, 0.005, 0.1, steps=40)
    verdicts = judged([base], [new], Thresholds.of())
    sources = {one.metric.name: one.noise_from for one in verdicts}
    assert "elapsed" not in sources
    asked = judged([base], [new], Thresholds.of([("elapsed", 5.0)]))
    assert next(one.noise_from for one in asked if one.metric.name == "elapsed") is Noise.UNKNOWN
    assert sources["step"] is sources["kernel"] is Noise.STEPS
    assert SLOW in [one.item for one in verdicts if one.outcome is Outcome.SLOWER]


@pytest.mark.parametrize(("change", "outcome"), [(0.1, Outcome.NOISE), (0.15, Outcome.NOISE), (0.3, Outcome.SLOWER)])
def test_where_the_noise_is_unknown_only_more_than_the_margin_counts(change: float, outcome: Outcome) -> None:
    chance = np.random.default_rng(3)
    verdicts = judged([simulated(chance, 0)], [simulated(chance, 0, change)], Thresholds.of())
    (kernel,) = [one for one in verdicts if one.item == SLOW]
    assert (kernel.noise_from, kernel.noise, kernel.outcome) == (Noise.UNKNOWN, None, outcome)


@pytest.mark.parametrize(
    ("free", "tail", "expected"),
    [(1, 0.025, 12.706), (2, 0.025, 4.303), (3, 0.025, 3.182), (4, 0.025, 2.776), (5, 0.0005, 6.869), (8, 0.05, 1.860), (30, 0.025, 2.042)],
)
def test_quantiles_are_those_of_printed_tables(free: int, tail: float, expected: float) -> None:
    assert quantile(tail, free) == pytest.approx(expected, abs=6e-4)
    assert tail_of(expected, free) == pytest.approx(tail, rel=1e-3)


def test_the_reach_of_two_groups_is_students_interval() -> None:
    """Worked by hand: variances of 1 and 1, pooled, three and three runs, 4 degrees of freedom."""
    assert reach([9, 10, 11], [19, 20, 21], 2) == pytest.approx(2.776 * math.sqrt(2 / 3), rel=1e-3)


def test_equal_steps_in_a_row_count_as_few_measurements() -> None:
    steps = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0], 5)
    assert blocks(steps, median=True) == tuple(range(1, 11))
    assert blocks(steps[:3], median=True) == ()

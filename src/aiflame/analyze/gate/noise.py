"""How large a difference between two groups of measurements can be by chance: Student's t for the difference of two means.

If nothing has changed, both groups have the same noise, so their variances are pooled: a group of one run can then be compared with a group
of several. The level is divided by the number of comparisons (Bonferroni): a gate in which nothing has changed fails by chance in at most
one of twenty calls, however many kernels and lines it compares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.05
"""Probability of a false alarm in all comparisons of a gate together."""
FEWEST_FREE = 4
"""With fewer degrees of freedom, runs show too little about their noise. It corresponds to three runs on each side, or five and one."""
FEW_STEPS = 4
MOST_BLOCKS = 10


def reach(base: Sequence[float], new: Sequence[float], comparisons: int) -> float:
    """The difference of the means of `new` and `base` that chance exceeds in LEVEL / `comparisons` of cases."""
    free = len(base) + len(new) - 2
    spread = sum(float(np.square(np.asarray(group) - np.mean(group)).sum()) for group in (base, new))
    error = math.sqrt(spread / free * (1 / len(base) + 1 / len(new)))
    return quantile(LEVEL / comparisons, free) * error


def sampling_reach(base: Sequence[float], new: Sequence[float], comparisons: int) -> float:
    """The same for measurements with known standard errors, of both sides."""
    variance = sum(sum(error * error for error in side) / len(side) ** 2 for side in (base, new))
    return NormalDist().inv_cdf(1 - LEVEL / comparisons) * math.sqrt(variance)


def sampling_error(share: float, count: int) -> float:
    """The relative standard error of a part with this share of `count` samples (binomial)."""
    within = max(share * count, 1.0)
    return math.sqrt(within * max(1 - share, 0.0)) / within


def blocks(steps: NDArray[np.float64], *, median: bool) -> tuple[float, ...]:
    """Means or medians of up to MOST_BLOCKS stretches of neighbouring steps. Neighbouring steps are similar, and would count as more
    independent measurements than they are; stretches depend on each other less. Empty if there are too few steps."""
    if len(steps) < FEW_STEPS:
        return ()
    centre = np.median if median else np.mean
    return tuple(float(centre(part)) for part in np.array_split(steps, min(MOST_BLOCKS, len(steps))))


@lru_cache(maxsize=256)
def quantile(tail: float, free: int) -> float:
    """The value that a t with `free` degrees of freedom exceeds with probability `tail`, at most one half."""
    low, high = 0.0, 1.0
    while tail_of(high, free) > tail:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail_of(middle, free) > tail else (low, middle)
    return high


def tail_of(value: float, free: int) -> float:
    """The probability that a t with `free` degrees of freedom exceeds a value of 0 or more. Closed form from Abramowitz and Stegun,
    Handbook of Mathematical Functions, 26.7.3 and 26.7.4."""
    angle = math.atan(value / math.sqrt(free))
    cosine, sine = math.cos(angle), math.sin(angle)
    term, total = 1.0, 1.0
    first = 1 if free % 2 == 0 else 2
    for number in range(first, free - 2, 2):
        term *= cosine * cosine * number / (number + 1)
        total += term
    inside = sine * total if free % 2 == 0 else 2 / math.pi * (angle + (sine * cosine * total if free > 1 else 0.0))
    return (1 - inside) / 2

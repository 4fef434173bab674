"""Computes how much each kind of kernel adds to a counter in a nanosecond: least squares without negative rates, over intervals in which
kinds ran for different times.

The intervals of a device give equations: value = Σ rate × time. They cannot separate kinds that always run together. Each rate is therefore
drawn towards an expected one, as strongly as the noise of the equations (their unexplained part) demands: where the data separate kinds,
the data decide; otherwise kinds that ran together have the same rate.
"""

from __future__ import annotations

import numpy as np

from aiflame.attribute.arrays.types import Floats, Ints, Mask
from aiflame.values import dataclass

WEAK = 1e-9
"""The weakest pull towards the expected rate: negligible, except where the equations determine nothing."""
MOST_LIKE = 1e6
"""How many times similarity to other kinds may increase the variance of a rate before it counts as unknown."""
BLOCK = 2048


@dataclass(frozen=True, slots=True)
class Equations:
    """Sums over all intervals, one for each kind; times are in units of `unit`."""

    gram: Floats
    """kind × kind"""
    right: Floats
    """kind × metric"""
    squares: Floats
    """Σ value² of each metric"""
    count: int
    unit: Floats

    @staticmethod
    def of(stretch: Ints, kind: Ints, time: Floats, values: Floats, kinds: int) -> Equations:
        """`stretch` (sorted), `kind`, `time`: how long each kind ran in each interval, once for each pair; `values`: interval × metric."""
        unit = np.sqrt(np.bincount(kind, time.astype(np.float64) ** 2, kinds))
        unit[unit == 0] = 1.0
        gram, right = np.zeros((kinds, kinds)), np.zeros((kinds, values.shape[1]))
        for begin in range(0, len(values), BLOCK):
            rows = slice(*np.searchsorted(stretch, [begin, begin + BLOCK]))
            block = np.zeros((min(BLOCK, len(values) - begin), kinds))
            block[stretch[rows] - begin, kind[rows]] = time[rows] / unit[kind[rows]]
            gram += block.T @ block
            right += block.T @ values[begin : begin + BLOCK]
        return Equations(gram, right, (values**2).sum(axis=0), len(values), unit)


@dataclass(frozen=True, slots=True)
class Rates:
    rate: Floats
    """kind × metric, in a nanosecond"""
    error: Floats
    """Their standard errors."""
    separate: Mask
    """False: the kind always ran together with others."""


def fit(equations: Equations, expected: Floats, spread: Floats) -> Rates:
    """`expected` (kind × metric): the rates where the data determine nothing; `spread` (kind × metric): by how much these may be off."""
    gram, unit = equations.gram, equations.unit
    kinds, metrics = expected.shape
    rate, error = np.zeros((kinds, metrics)), np.zeros((kinds, metrics))
    separate = np.zeros((kinds, metrics), dtype=np.bool_)
    # Kinds that always run together get equal rates: the pull on each grows with its time.
    weak = np.maximum(unit / max(float(unit.max()), 1.0), 1e-3) * WEAK
    weak_inverse = np.linalg.inv(gram + np.diag(weak))
    apart = np.diag(weak_inverse) < MOST_LIKE
    for metric in range(metrics):
        right, middle, wide = equations.right[:, metric], expected[:, metric] * unit, spread[:, metric] * unit
        solution = least_squares(gram + np.diag(weak), right + weak * middle)
        noise = _noise(equations, metric, solution)
        pull = np.maximum(weak, noise / np.maximum(wide**2, 1e-300))
        system = gram + np.diag(pull)
        rate[:, metric] = least_squares(system, right + pull * middle) / unit
        error[:, metric] = np.sqrt(noise * np.maximum(np.diag(np.linalg.inv(system)), 0)) / unit
        separate[:, metric] = apart & (error[:, metric] < spread[:, metric] / 2)
    return Rates(rate, error, separate)


def _noise(equations: Equations, metric: int, solution: Floats) -> float:
    """The variance of an interval's value that the rates do not explain."""
    squares = float(equations.squares[metric])
    left = squares - 2 * float(solution @ equations.right[:, metric]) + float(solution @ equations.gram @ solution)
    return max(left, squares * 1e-12) / max(equations.count - int((solution > 0).sum()), 1)


def least_squares(gram: Floats, right: Floats) -> Floats:
    """The x ≥ 0 with the least x·gram·x - 2·right·x, by block principal pivoting (Kim and Park, 2011)."""
    size = len(right)
    passive = np.ones(size, dtype=np.bool_)
    x = np.zeros(size)
    slack = 1e-12 * max(float(np.abs(right).max(initial=0)), 1e-300)
    fewest, tries = size + 1, 3
    for _ in range(5 * size + 20):
        x = np.zeros(size)
        x[passive] = np.linalg.solve(gram[np.ix_(passive, passive)], right[passive])
        gradient = gram @ x - right
        wrong = np.flatnonzero((passive & (x < 0)) | (~passive & (gradient < -slack)))
        if not len(wrong):
            break
        if len(wrong) < fewest:
            fewest, tries = len(wrong), 3
        elif tries:
            tries -= 1
        else:
            wrong = wrong[-1:]
        passive[wrong] = ~passive[wrong]
    return np.maximum(x, 0)

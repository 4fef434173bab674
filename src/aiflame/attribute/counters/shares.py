"""Divides the values of stretches over executions: each gets a part in proportion to the rate of its kind times its time in the stretch.

An execution that fills at least two stretches alone has a rate of its own, measured in these; all others, and idle time, have the rate of
their kind (`fit`). If one execution ran alone in a stretch, it gets the whole value, without the part of idle time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from aiflame.attribute.arrays.runs import sum_until, union
from aiflame.attribute.arrays.time_bins import Sums
from aiflame.attribute.arrays.types import Floats, Ints
from aiflame.attribute.counters.fit import Equations, Rates, fit
from aiflame.attribute.counters.intervals import Stretches
from aiflame.attribute.counters.names import CYCLES
from aiflame.values import dataclass

PIECE = 1 << 20
MOST_CELLS = 1 << 22
FILLED = 2
"""An execution that fills at least this many stretches alone has a rate of its own."""
FAINT, FAINTEST = 1e-9, 1e-15
"""If no kind in a stretch has a rate, values are divided by expected rates; if these are 0 too, by time."""

Cells = tuple[Ints, Ints, Ints]
"""execution, stretch, overlap (ns, above 0)"""


@dataclass(frozen=True, slots=True)
class Executions:
    """Kernels and copies of one device."""

    start: Ints
    end: Ints
    kind: Ints
    """Counted from 0; the last kind is idle time, which no execution has."""
    kinds: int
    """Number of kinds, without idle time."""
    weight: Floats
    """How much a nanosecond of the execution counts for its kind: copies of a kind count by their bytes."""


@dataclass(frozen=True, slots=True)
class Divided:
    values: Floats
    """target × metric"""
    estimated: Floats
    """The part of `values` from stretches in which other executions ran too."""
    covered: Floats
    """For each target, how long its executions ran while the device was counted, in ns."""
    cycles: Floats
    """For each target, the cycles of the device in that time; 0: not counted."""
    rates: Rates


def divide(counted: Stretches, executions: Executions, expected: Floats, spread: Floats, target: Ints, targets: int) -> Divided:
    """`expected`, `spread`: as in `fit`, for the metrics of `counted.values` in their order. `target`: the target to which each execution's
    values are added."""
    counted = _wide_enough(counted, executions)
    metrics = list(counted.values)
    values = np.column_stack([counted.values[metric] for metric in metrics]).astype(np.float64)
    length = counted.end - counted.begin
    many = np.zeros(len(length), dtype=np.int64)
    sums = Sums(len(length) * (executions.kinds + 1), len(executions.start) + len(length))
    for execution, stretch, overlap in cells(counted, executions):
        many += np.bincount(stretch, minlength=len(length))
        sums.add(
            stretch * (executions.kinds + 1) + executions.kind[execution], np.rint(overlap * executions.weight[execution]).astype(np.int64)
        )
    idle = length - _busy(counted, executions)
    sums.add(np.arange(len(length)) * (executions.kinds + 1) + executions.kinds, idle)
    key, time = sums.found()
    rates = fit(
        Equations.of(key // (executions.kinds + 1), key % (executions.kinds + 1), time.astype(np.float64), values, executions.kinds + 1),
        expected,
        spread,
    )
    if CYCLES in metrics:
        _by_time(rates, metrics.index(CYCLES), float(values[:, metrics.index(CYCLES)].sum()) / max(int(length.sum()), 1))
    faint = FAINTEST * np.where(spread > 0, spread, 1.0)
    faint[-1] = 0.0  # idle time has its own rate, or gets the remainder
    rate = rates.rate + FAINT * expected + faint
    own, of_execution = _own_rates(counted, executions, values, many)
    weights = [np.ones(len(executions.start)) if metric == CYCLES else executions.weight for metric in metrics]

    def part_of(metric: int, execution: Ints, overlap: Ints) -> Floats:
        part: Floats = rate[executions.kind[execution], metric] * weights[metric][execution]
        if len(own):
            row = of_execution[execution]
            part = np.where(row >= 0, own[row, metric] + faint[0, metric], part)
        return part * overlap

    whole = np.zeros_like(values)
    for execution, stretch, overlap in cells(counted, executions):
        for metric in range(len(metrics)):
            whole[:, metric] += np.bincount(stretch, part_of(metric, execution, overlap), len(length))
    density = values / np.where(whole > 0, whole + rate[-1] * idle[:, None], np.inf)
    result, shared = np.zeros((targets, len(metrics))), np.zeros((targets, len(metrics)))
    for execution, stretch, overlap in cells(counted, executions):
        others, to = many[stretch] > 1, target[execution]
        for metric in range(len(metrics)):
            part = part_of(metric, execution, overlap) * density[stretch, metric]
            result[:, metric] += np.bincount(to, part, targets)
            shared[:, metric] += np.bincount(to, np.where(others, part, 0.0), targets)
    covered = _while_running(counted, length, executions)
    cycles = _while_running(counted, counted.values[CYCLES], executions) if CYCLES in metrics else np.zeros(len(executions.start))
    covered, cycles = (np.bincount(target, each, targets).astype(np.float64) for each in (covered, cycles))
    return Divided(result, shared, covered, cycles, rates)


def cells(counted: Stretches, executions: Executions) -> Iterator[Cells]:
    """The executions in each stretch, in pieces."""
    first = np.searchsorted(counted.end, executions.start, side="right")
    count = np.maximum(np.searchsorted(counted.begin, executions.end, side="left") - first, 0)
    upto = np.concatenate([[0], np.cumsum(count)])
    cuts = np.unique(np.searchsorted(upto, np.arange(0, int(upto[-1]) + PIECE, PIECE)).clip(max=len(count)))
    for low, high in pairwise(cuts.tolist()):
        execution = np.repeat(np.arange(low, high), count[low:high])
        stretch = first[execution] + np.arange(len(execution)) - (upto[execution] - upto[low])
        overlap = np.minimum(executions.end[execution], counted.end[stretch]) - np.maximum(
            executions.start[execution], counted.begin[stretch]
        )
        there = np.flatnonzero(overlap > 0)
        yield execution[there], stretch[there], overlap[there]


def _wide_enough(counted: Stretches, executions: Executions) -> Stretches:
    """The stretches, with neighbours merged where very many executions run at the same time."""
    while len(counted.begin) > 1:
        first = np.searchsorted(counted.end, executions.start, side="right")
        if int(np.maximum(np.searchsorted(counted.begin, executions.end, side="left") - first, 0).sum()) <= MOST_CELLS + 3 * len(
            executions.start
        ) + 4 * len(counted.begin):
            break
        at = np.arange(0, len(counted.begin), 2)
        values = {metric: np.add.reduceat(value, at) for metric, value in counted.values.items()}
        counted = Stretches(counted.begin[at], counted.end[np.minimum(at + 1, len(counted.end) - 1)], values)
    return counted


def _busy(counted: Stretches, executions: Executions) -> Ints:
    """The time in each stretch in which any execution runs."""
    start, end = union(executions.start, executions.end)
    busy: Ints = sum_until(counted.end, start, end) - sum_until(counted.begin, start, end)
    return busy


def _by_time(rates: Rates, metric: int, rate: float) -> None:
    """Values of cycles, which elapse at one rate."""
    rates.rate[:, metric], rates.error[:, metric], rates.separate[:, metric] = rate, 0.0, True


def _own_rates(counted: Stretches, executions: Executions, values: Floats, many: Ints) -> tuple[Floats, Ints]:
    """The rates of executions that fill stretches alone, a row for each; and for each execution its row, -1: none."""
    length = counted.end - counted.begin
    filled: list[tuple[Ints, Ints]] = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    for execution, stretch, overlap in cells(counted, executions):
        alone = (overlap == length[stretch]) & (many[stretch] == 1)
        filled.append((execution[alone], stretch[alone]))
    execution, stretch = (np.concatenate(each) for each in zip(*filled, strict=True))
    who, row, count = np.unique(execution, return_inverse=True, return_counts=True)
    time = np.bincount(row, length[stretch], len(who))
    sums = [np.bincount(row, values[stretch, metric], len(who)) for metric in range(values.shape[1])]
    enough = count >= FILLED
    of_execution = np.full(len(executions.start), -1)
    of_execution[who[enough]] = np.arange(int(enough.sum()))
    return (np.column_stack(sums) / np.maximum(time, 1)[:, None])[enough], of_execution


def _while_running(counted: Stretches, values: Ints, executions: Executions) -> Floats:
    """For each execution, the whole count while it ran, even if other executions ran at the same time."""
    edges = np.column_stack([counted.begin, counted.end]).ravel()
    upto = np.cumsum(values)
    reached = np.column_stack([upto - values, upto]).ravel().astype(np.float64)
    origin = int(edges[0])
    # Two stretches may meet at a moment; both then give the same sum.
    at = (edges - origin).astype(np.float64)
    grown: Floats = np.interp((executions.end - origin).astype(np.float64), at, reached) - np.interp(
        (executions.start - origin).astype(np.float64), at, reached
    )
    return grown

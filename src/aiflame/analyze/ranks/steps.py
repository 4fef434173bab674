"""Ranks × steps: the duration of each step on each rank, and the rank's activity in it. If there are many steps, neighbours are merged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.ranks.facts import RankFacts
from aiflame.analyze.ranks.meetings import lower_median
from aiflame.analyze.ranks.stragglers import Late
from aiflame.attribute.arrays.types import Floats
from aiflame.values import dataclass

MOST_COLUMNS = 600
MOST_CELLS = 300_000
"""Ranks × columns."""
USUAL = 0.99
"""The share of cells that a scale must resolve: otherwise a first step that compiles would make all others look equal."""
QUANTITIES = {
    "late": ("Late by its own work", "how late the rank came to collectives, by its own work"),
    "more": ("Compute beyond the median rank", "how much longer the rank computed in this step than the median rank"),
    "compute": ("Compute", "how long kernels ran, or without a GPU how long it computed on CPUs"),
    "exposed": ("Exposed communication", "how long it communicated while it computed nothing"),
    "idle": ("Idle", "how long it did nothing of all this"),
    "whole": ("Length of the step", "from the rank's first moment in the step to its last"),
}


@dataclass(frozen=True, slots=True)
class Quantity:
    name: str
    label: str
    says: str
    values: Floats
    """Ranks × columns, in ns, each the mean of the column's steps; NaN if the rank has no such step."""
    most_ns: int
    """The end of the scale; larger values look like this one."""


@dataclass(frozen=True, slots=True)
class StepMap:
    first: NDArray[np.int64]
    """The number of each column's first step; a column extends to the next."""
    last: int
    """The number of the last step."""
    quantities: list[Quantity]
    """Quantities with a value above 0."""


def step_map(facts: Sequence[RankFacts], lates: Sequence[Late]) -> StepMap | None:
    """None for a profile without steps."""
    numbers = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(_of_steps(one)["step"].unique().to_numpy() for one in facts)]))
    if not len(numbers):
        return None
    each = -(-len(numbers) // max(min(MOST_COLUMNS, MOST_CELLS // len(facts)), 1))
    by_name = {name: np.full((len(facts), len(numbers)), np.nan) for name in QUANTITIES}
    for row, one in enumerate(facts):
        spent = _of_steps(one).group_by("step").agg(pl.col("compute", "exposed", "copies", "idle").sum()).sort("step")
        at = np.searchsorted(numbers, spent["step"].to_numpy())
        for name in ("compute", "exposed", "idle"):
            by_name[name][row, at] = spent[name].to_numpy()
        by_name["whole"][row, at] = spent.select(pl.sum_horizontal("compute", "exposed", "copies", "idle")).to_series().to_numpy()
        by_name["late"][row, at] = 0
    row_of = {one.rank: row for row, one in enumerate(facts)}
    for late in lates:
        if late.why is not None and late.step >= 0:
            by_name["late"][row_of[late.rank], np.searchsorted(numbers, late.step)] += late.own_ns
    by_name["more"] = np.maximum(by_name["compute"] - lower_median(by_name["compute"].T).T, 0)
    quantities = [_quantity(name, _together(values, each)) for name, values in by_name.items()]
    return StepMap(numbers[::each], int(numbers[-1]), [one for one in quantities if one.most_ns > 0])


def _of_steps(one: RankFacts) -> pl.DataFrame:
    return one.steps.filter(pl.col("step") >= 0)


def _together(values: Floats, each: int) -> Floats:
    """The means of `each` neighbouring columns."""
    if each == 1:
        return values
    begins = np.arange(0, values.shape[1], each)
    counts = np.add.reduceat(~np.isnan(values), begins, axis=1, dtype=np.int64)
    sums = np.add.reduceat(np.nan_to_num(values), begins, axis=1)
    means: Floats = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return means


def _quantity(name: str, values: Floats) -> Quantity:
    """The scale covers all steps but the first, which warms up; it covers the first if that is the only one."""
    usual = values[:, 1:] if values.shape[1] > 1 else values
    positive = usual[~np.isnan(usual) & (usual > 0)]
    most = float(np.quantile(positive, USUAL)) if len(positive) else float(np.nanmax(values, initial=0))
    return Quantity(name, *QUANTITIES[name], values, round(most))

"""Compares two profiles of one program: which items got slower or faster, and whether by more than noise.

If both have steps, the values of an item (a kernel, an op, a layer, a line) in a step are compared, without the first step of each process:
two runs may have different numbers of steps. Exact values (GPU time, bytes) are compared by their medians, sampled ones by their means,
since the median step may have no sample of a small item.

The noise is the variation between steps of one run: each median or mean has an interval, that of a median from ranks (so no distribution is
assumed), that of a mean from its standard error. A difference is beyond the noise if the two intervals do not touch. Each is an interval of
95%; two that do not touch by chance are rarer than one in a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.diff.per_step import Values, values
from aiflame.analyze.step_times import steady, step_times
from aiflame.attribute.arrays.apportion import scaled
from aiflame.attribute.arrays.types import Floats
from aiflame.attribute.groupings import compared_by
from aiflame.attribute.meaning.fused_kernels import ESTIMATED
from aiflame.attribute.metrics import COMPARED, OF_GPU, SAMPLED
from aiflame.attribute.sites.times import period_log2
from aiflame.attribute.stacks.own_metrics import metric_rows
from aiflame.attribute.tree import Metric, Tree
from aiflame.attribute.trees.build import default_metric, metrics
from aiflame.errors import AiflameError
from aiflame.json_text import json_text, schema
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace

FEW_STEPS = 4
"""Fewer steps show nothing about the noise: even two groups of three equal steps do not overlap once in ten times."""
Z = 1.96
"""The quantile of a normal distribution for an interval of 95%."""
ROWS = {
    "name": pl.String,
    "base": pl.Float64,
    "new": pl.Float64,
    "difference": pl.Float64,
    "low": pl.Float64,  # of the interval of the difference; null if the noise is unknown
    "high": pl.Float64,
    "beyond": pl.Boolean,  # more than noise; null if the noise is unknown
    "only": pl.String,  # "base" or "new" if only that profile has the row, else ""
}


@dataclass(frozen=True, slots=True)
class Change:
    base: float
    new: float
    low: float | None = None
    high: float | None = None

    @property
    def beyond(self) -> bool | None:
        """None: unknown."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Difference:
    metric: str
    label: str
    unit: str
    by: str
    per_step: bool
    """True if values are means of a step, otherwise sums over the whole run."""
    base_steps: int
    new_steps: int
    """The number of compared steps."""
    note: str
    """The compared values, and how the noise was estimated."""
    rows: pl.DataFrame
    """ROWS: first those beyond the noise; within both parts the largest difference first."""

    def differing(self) -> pl.DataFrame:
        """Rows that may be more than noise."""
        return self.rows.filter(pl.col("beyond").fill_null(True) & (pl.col("difference") != 0))


@dataclass(frozen=True, slots=True)
class Comparison:
    step: Change | None
    """The change of a step's duration in wall-clock time; None if one of the profiles has no steps."""
    differences: tuple[Difference, ...]


def compare(base: ProfileAnalysis, new: ProfileAnalysis, metric: str = "", by: str = "") -> Comparison:
    """Compares a metric grouped by `by`; without `by`, grouped by each of the metric's first groupings."""
    metric = metric or default_metric(new.profile)
    groupings = _groupings(base, new, metric, by)
    before, after = values(base, metric, groupings), values(new, metric, groupings)
    kind = metric_rows(new.profile)[metric].metric
    differences = [_difference(before[one], after[one], kind, one) for one in groupings]
    if metric in SAMPLED and (periods := [period_log2(analysis.profile) for analysis in (base, new)])[0] != periods[1]:
        differences = [_at_one_period(before[one], after[one], kind, one, *periods) for one in groupings]
    fused = (base.fused or new.fused) if metric in OF_GPU else any(analysis.of_clock(metric).fused for analysis in (base, new))
    differences = [replace(one, label=one.label + ESTIMATED) if fused and one.by in ("op", "layer") else one for one in differences]
    if not any((difference.rows["only"] == "").any() for difference in differences):
        asked = f" by {by}" if by else ""
        raise AiflameError(f"these profiles have nothing in common{asked}: compare two recordings of the same program")
    return Comparison(_steps(base, new), tuple(one for one in differences if not one.rows.is_empty()))


def at_one_period(base: Tree, metric: str, profiles: tuple[Tables, Tables]) -> Tree:
    """The tree of the first profile, its samples scaled to the sampling period of the second profile."""
    before, now = map(period_log2, profiles) if metric in SAMPLED else (0, 0)
    if before == now:
        return base
    value = base.values[metric]
    total = np.array([round(int(value.sum()) * 2.0 ** (before - now))])
    return base.with_values({**base.values, metric: scaled(np.zeros(len(value), dtype=np.int64), value, total)}, base.metrics)


def to_json(comparison: Comparison, *, everything: bool = False) -> str:
    """{"schema", "step": {…}, "differences": [{"metric", "by", …, "rows": [{"name", "base", "new", …}]}]}"""
    step = comparison.step
    listed = [
        {
            "metric": one.metric,
            "unit": one.unit,
            "by": one.by,
            "per_step": one.per_step,
            "base_steps": one.base_steps,
            "new_steps": one.new_steps,
            "note": one.note,
            "rows": (one.rows if everything else one.differing()).to_dicts(),
        }
        for one in comparison.differences
    ]
    whole = None if step is None else {"base": step.base, "new": step.new, "low": step.low, "high": step.high, "beyond": step.beyond}
    return json_text({"schema": schema("diff"), "step": whole, "differences": listed}, indent=1)


def _groupings(base: ProfileAnalysis, new: ProfileAnalysis, metric: str, by: str) -> Sequence[str]:
    row = metric_rows(new.profile).get(metric) or metric_rows(base.profile).get(metric)
    if row is None:
        raise AiflameError(f"unknown metric {metric!r}: use {', '.join(metric_rows(new.profile))}")
    groupings = compared_by(row)
    if not groupings:
        raise AiflameError(f"{metric} cannot be compared step by step: use {', '.join(COMPARED)}, or aiflame flame --baseline")
    for name, analysis in (("first", base), ("second", new)):
        there = metrics(analysis.profile)
        if metric not in there:
            has = f"only {', '.join(there)}" if there else "nor anything else"
            raise AiflameError(f"the {name} profile has no {metric}, {has}: for {metric}, {row.record}")
    if by and by not in groupings:
        raise AiflameError(f"cannot compare {metric} by {by!r}: use {', '.join(groupings)}")
    return [by] if by else groupings[:4]


def _at_one_period(base: Values, new: Values, metric: Metric, by: str, before: int, now: int) -> Difference:
    """Compares two runs with different sampling periods: scales the samples of the first to the period of the second."""
    times = 2.0 ** (before - now)
    difference = _difference(replace(base, total=base.total * times, steps=base.steps * times), new, metric, by)
    return replace(
        difference, note=f"{difference.note}; before × {times:g}, since a sample stood for 2^{before} cycles, and now for 2^{now}"
    )


def _difference(base: Values, new: Values, kind: Metric, by: str) -> Difference:
    base_steps, new_steps = base.step_count, new.step_count
    per_step = base_steps > 0 and new_steps > 0
    of_warps = kind.name in SAMPLED
    sampled = of_warps or kind.name not in OF_GPU
    before, after = _centres(base, per_step, sampled), _centres(new, per_step, sampled)
    rows = before.join(after, on="name", how="full", coalesce=True, suffix="_new")
    only = (
        pl.when(pl.col("value").is_null())
        .then(pl.lit("new"))
        .when(pl.col("value_new").is_null())
        .then(pl.lit("base"))
        .otherwise(pl.lit(""))
    )
    rows = rows.with_columns(only=only).with_columns(pl.exclude("name", "only").fill_null(0.0))
    enough = per_step and min(base.steps.shape[1], new.steps.shape[1]) >= FEW_STEPS
    unknown = pl.lit(None, dtype=pl.Float64)
    rows = rows.select(
        "name",
        base="value",
        new="value_new",
        difference=pl.col("value_new") - pl.col("value"),
        low=pl.col("low_new") - pl.col("high") if enough else unknown,
        high=pl.col("high_new") - pl.col("low") if enough else unknown,
        only="only",
    ).with_columns(beyond=(pl.col("low") > 0) | (pl.col("high") < 0))
    rows = rows.sort(pl.col("beyond").fill_null(True), pl.col("difference").abs(), "name", descending=[True, True, False])
    note = _note(per_step, enough, base, new, "mean" if sampled else "median", of_warps)
    rows = rows.select(pl.col(name).cast(dtype) for name, dtype in ROWS.items())
    label = kind.label.partition(",")[0] if per_step and of_warps else kind.label
    return Difference(kind.name, label, kind.unit, by, per_step, base_steps, new_steps, note, rows)


def _note(per_step: bool, enough: bool, base: Values, new: Values, centre: str, divided: bool) -> str:
    if not per_step:
        neither = not base.step_count and not new.step_count
        lacking = "neither profile has" if neither else f"the {'second' if base.step_count else 'first'} profile has no"
        return f"totals of the whole runs, since {lacking} steps; the noise cannot be estimated"
    note = f"{centre} step of {base.step_count:,} before and {new.step_count:,} now"
    if divided:
        note += ", samples divided over the steps of their window by time"
    few = "windows of sampling" if base.alike or new.alike else "steps"
    return note if enough else f"{note}; the noise cannot be estimated from fewer than {FEW_STEPS} {few}"


def _centres(of: Values, per_step: bool, sampled: bool) -> pl.DataFrame:
    """name, value, low, high"""
    if not per_step:
        value = low = high = of.total
    else:
        value, low, high = mean_interval(of.steps) if sampled else median_interval(of.steps)
    return pl.DataFrame({"name": of.names, "value": value, "low": low, "high": high}, schema_overrides={"name": pl.String})


def median_interval(steps: NDArray[np.int64] | Floats) -> tuple[Floats, Floats, Floats]:
    """The median of each row, and its confidence interval from order statistics; with few values, from the least to the greatest."""
    count = steps.shape[1]
    ordered = np.sort(steps, axis=1)
    reach = Z * np.sqrt(count) / 2
    low = max(int(np.floor((count - 1) / 2 - reach)), 0)
    return np.median(steps, axis=1), ordered[:, low].astype(np.float64), ordered[:, count - 1 - low].astype(np.float64)


def mean_interval(steps: NDArray[np.int64] | Floats) -> tuple[Floats, Floats, Floats]:
    """The mean of each row, and its confidence interval from the standard error."""
    count = steps.shape[1]
    mean = steps.mean(axis=1)
    error = Z * steps.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(steps))
    return mean, mean - error, mean + error


def _steps(base: ProfileAnalysis, new: ProfileAnalysis) -> Change | None:
    """The duration of steps in wall-clock time."""
    before, after = (_lengths(analysis) for analysis in (base, new))
    if not before.size or not after.size:
        return None
    (was,), (was_low,), (was_high,) = median_interval(before)
    (now,), (now_low,), (now_high,) = median_interval(after)
    if min(before.size, after.size) < FEW_STEPS:
        return Change(float(was), float(now))
    return Change(float(was), float(now), float(now_low - was_high), float(now_high - was_low))


def _lengths(analysis: ProfileAnalysis) -> NDArray[np.int64]:
    on_host = analysis.steps if analysis.ran_on_devices or analysis.cpu is None else analysis.cpu.steps
    took: NDArray[np.int64] = steady(step_times(on_host, analysis.per_step))["took"].to_numpy()
    return took[np.newaxis]

"""Values of each kernel, op, layer, line … in each step, by which two runs are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.diff.per_step_samples import averaged, site_samples, steps_a_window
from aiflame.analyze.step_times import steady
from aiflame.attribute.devices.work import bytes_of
from aiflame.attribute.metrics import SAMPLED
from aiflame.attribute.stacks.own_metrics import clocks
from aiflame.attribute.tree import GPU_TIME
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass, replace

MOST_STEPS = 1000
"""The most steps of a run that are compared, evenly spaced: more would improve the mean of the run, but not the comparison of runs."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one profile, metric and grouping, step by step."""

    names: list[str]
    total: NDArray[np.float64]
    """The value of each item in the whole profile."""
    steps: NDArray[np.float64]
    """A row for each item, and a column for each step but the first of each process; if samples are divided over the steps of a window, a
    column for the mean of the steps that share a window."""
    step_count: int
    """The number of steps."""

    @property
    def alike(self) -> bool:
        """True if a column is several steps."""
        return self.step_count > int(self.steps.shape[1])


@dataclass(frozen=True, slots=True)
class _Measured:
    """A metric of sites."""

    whole: pl.DataFrame
    """site, value; for samples also `reason`"""
    in_steps: pl.DataFrame
    """The same with `column`."""
    columns: pl.DataFrame
    together: int = 1
    """The number of columns that are as long as a sampling window."""


def values(analysis: ProfileAnalysis, metric: str, groupings: Sequence[str]) -> dict[str, Values]:
    """Values of each item of each grouping; items without a name (no layer, no op) are left out."""
    if metric in clocks(analysis.profile):
        return {by: _of_cpus(analysis, metric, by) for by in groupings}
    measured = _samples(analysis, metric) if metric in SAMPLED else _exact(analysis, metric)
    return {by: _of_devices(analysis, by, measured, metric not in SAMPLED) for by in groupings}


def _exact(analysis: ProfileAnalysis, metric: str) -> _Measured:
    columns = _columns(analysis.per_step.select("process", "step").unique())
    if metric == GPU_TIME.name:
        whole, value = analysis.sites["took"], (analysis.work.executions["end_ns"] - analysis.work.executions["start_ns"]).cast(pl.Int64)
    else:
        whole, value = analysis.sites["bytes"], pl.Series(bytes_of(analysis.profile, analysis.work))
    sites = pl.DataFrame({"site": np.arange(len(whole)), "value": whole})
    return _Measured(
        sites if metric == GPU_TIME.name else sites.filter(pl.col("value") > 0), _site_steps(analysis, columns, value), columns
    )


def _samples(analysis: ProfileAnalysis, metric: str) -> _Measured:
    steps = analysis.per_step.select("process", "step").unique()
    columns = _columns(steps)
    counts = site_samples(analysis, metric)
    # If there are very many steps, some are compared that are not neighbours.
    apart = len(columns) / max(len(steady(steps)), 1)
    in_steps = counts.join(columns, on=["process", "step"]).select("site", "reason", "column", "value")
    return _Measured(counts.select("site", "reason", "value"), in_steps, columns, int(np.ceil(steps_a_window(analysis) * apart)))


def _of_devices(analysis: ProfileAnalysis, by: str, measured: _Measured, exact: bool) -> Values:
    if by in ("op", "layer", "phase"):
        parts = analysis.shared.select("site", "took", name=by)
    else:
        name = pl.lit("") if by == "stall" else _site_name(by)
        parts = analysis.sites.select("took", name=name).with_row_index("site").with_columns(pl.col("site").cast(pl.Int64))
    whole, took = analysis.sites["took"].to_numpy()[parts["site"].to_numpy()], parts["took"].to_numpy()
    alone = 1 / parts.select(pl.len().over("site")).to_series().to_numpy()
    weights = parts.select("site", "name", part=pl.Series(np.where(whole > 0, took / np.maximum(whole, 1), alone)))
    item = pl.col("reason" if by == "stall" else "name")

    def summed(rows: pl.DataFrame, *key: str) -> pl.DataFrame:
        value = (pl.col("value") * pl.col("part")).sum()
        named = weights.join(rows, on="site").with_columns(name=item).filter(pl.col("name") != "")
        return named.group_by("name", *key).agg(value=value.round() if exact else value)

    totals = summed(measured.whole).rename({"value": "total"}).sort("total", "name", descending=[True, False])
    of_items = _values(totals, summed(measured.in_steps, "column"), len(measured.columns))
    return replace(of_items, steps=averaged(of_items.steps, measured.columns["process"].to_numpy(), measured.together))


def _site_name(by: str) -> pl.Expr:
    if by in ("kernel", "copy"):
        return pl.col("short")
    if by == "family":
        return pl.when(pl.col("kind") == int(Kind.GPU_COPY)).then(pl.lit("copy")).otherwise("family")
    return line_name()


def line_name() -> pl.Expr:
    """`app/train.py:88`: the last two parts of the path, which two checkouts of one program have in common."""
    short = pl.col("file").str.extract(r"([^/]*/?[^/]*)$")
    return pl.when(pl.col("file") != "").then(pl.format("{}:{}", short, "line")).otherwise(pl.lit(""))


def _site_steps(analysis: ProfileAnalysis, columns: pl.DataFrame, value: pl.Series) -> pl.DataFrame:
    """site, column, value: sums of `value` (one for each execution) over each site and step, by the columns of steps."""
    process, number = (columns[name].to_numpy() for name in ("process", "step"))
    chosen = np.zeros((len(analysis.process_names), int(number.max(initial=0)) + 2), dtype=np.bool_)
    chosen[process, number] = True
    site, step = (analysis.work.executions[name].to_numpy() for name in ("site", "step"))
    # The last column is for work outside of steps, and for steps that were not chosen.
    inside = chosen[analysis.sites["process"].to_numpy()[site], np.clip(step, -1, chosen.shape[1] - 1)]
    executions = analysis.work.executions.select("site", "step", value=value).lazy().filter(pl.Series(inside))
    summed = executions.group_by("site", "step").agg(pl.col("value").sum().cast(pl.Int64)).collect()
    of_process = summed.with_columns(process=analysis.sites["process"].gather(summed["site"])).cast({"site": pl.Int64, "step": pl.Int64})
    return of_process.join(columns, on=["process", "step"]).select("site", "column", "value")


def _of_cpus(analysis: ProfileAnalysis, metric: str, by: str) -> Values:
    cpu = analysis.of_clock(metric)
    names = {"line": line_name(), "function": pl.coalesce(pl.col("waits").replace("", None), pl.col("function"))}
    rows = cpu.rows.select(
        "process", pl.col("step").cast(pl.Int64), "value", name=names.get(by, pl.col(by) if by in cpu.rows.columns else None)
    )
    return of_rows(rows.filter(pl.col("name") != ""), cpu.steps)


def of_rows(rows: pl.DataFrame, steps: pl.DataFrame) -> Values:
    """Sums of rows with process, step (-1: none), name and value."""
    columns = _columns(steps.select(pl.col("process", "step").cast(pl.Int64)))
    cells = rows.join(columns, on=["process", "step"]).group_by("name", "column").agg(pl.col("value").sum())
    totals = rows.group_by("name").agg(total=pl.col("value").sum()).sort("total", "name", descending=[True, False])
    return _values(totals, cells, len(columns))


def _values(totals: pl.DataFrame, cells: pl.DataFrame, count: int) -> Values:
    """`totals`: name, total; `cells`: name, column, value."""
    matrix = np.zeros((len(totals), count))
    placed = cells.join(totals.select("name").with_row_index("row"), on="name")
    matrix[placed["row"].to_numpy(), placed["column"].to_numpy()] = placed["value"].to_numpy()
    return Values(totals["name"].to_list(), totals["total"].to_numpy().astype(np.float64), matrix, count)


def _columns(steps: pl.DataFrame) -> pl.DataFrame:
    """process, step, column: at most MOST_STEPS steps, without the first of each process."""
    usual = steady(steps).sort("process", "step")
    kept = usual[np.unique(np.linspace(0, len(usual) - 1, min(len(usual), MOST_STEPS)).round().astype(np.int64))] if len(usual) else usual
    return kept.with_row_index("column").select("process", "step", pl.col("column").cast(pl.Int64))

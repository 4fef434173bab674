"""What each kernel, op, layer, line … took in each step: the values that two runs are compared by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.facts import Facts
from aiflame.analyze.step_times import steady
from aiflame.attribute.cpu import CLOCK
from aiflame.attribute.tree import GPU_TIME
from aiflame.profile.kinds import Kind

OF_DEVICES = ("kernel", "op", "layer", "line", "phase", "family")
OF_CPUS = ("function", "op", "layer", "line", "phase")
PER_STEP = (GPU_TIME.name, *CLOCK)
"""Metrics whose values are known step by step."""

MOST_STEPS = 1000
"""Steps of one run that are compared, evenly spaced: more say more about the run, but not about what differs from run to run."""


@dataclass(frozen=True, slots=True)
class Values:
    """Of one profile, metric and grouping."""

    names: list[str]
    total: NDArray[np.int64]
    """Of each, in the whole profile."""
    steps: NDArray[np.int64]
    """A row for each, a column for each step but the first of each process."""

    @property
    def step_count(self) -> int:
        return int(self.steps.shape[1])


def values(known: Facts, metric: str, groupings: Sequence[str]) -> dict[str, Values]:
    """What each item of each grouping took; items without a name (no layer, no op) are left out."""
    if metric != GPU_TIME.name:
        return {by: _of_cpus(known, metric, by) for by in groupings}
    columns = _columns(known.per_step.select("process", "step").unique())
    per_site = _site_steps(known, columns)
    return {by: _of_devices(known, by, per_site, len(columns)) for by in groupings}


def _of_devices(known: Facts, by: str, per_site: pl.DataFrame, count: int) -> Values:
    if by in ("op", "layer", "phase"):
        parts = known.shared.select("site", "took", name=by)
    else:
        parts = known.sites.select("took", name=_site_name(by)).with_row_index("site").with_columns(pl.col("site").cast(pl.Int64))
    parts = parts.filter(pl.col("name") != "")
    whole = known.sites["took"].to_numpy()
    part = parts["took"].to_numpy() / np.maximum(whole[parts["site"].to_numpy()], 1)
    weights = parts.select("site", "name").with_columns(part=pl.Series(part))
    cells = (
        weights.join(per_site, on="site")
        .group_by("name", "column")
        .agg(value=(pl.col("value") * pl.col("part")).sum().round().cast(pl.Int64))
    )
    totals = parts.group_by("name").agg(total=pl.col("took").sum()).sort("total", "name", descending=[True, False])
    return _values(totals, cells, count)


def _site_name(by: str) -> pl.Expr:
    if by == "kernel":
        return pl.col("short")
    if by == "family":
        return pl.when(pl.col("kind") == int(Kind.GPU_COPY)).then(pl.lit("copy")).otherwise("family")
    return line_name()


def line_name() -> pl.Expr:
    """`app/train.py:88`: the last two parts of the path, which two checkouts of one program have in common."""
    short = pl.col("file").str.extract(r"([^/]*/?[^/]*)$")
    return pl.when(pl.col("file") != "").then(pl.format("{}:{}", short, "line")).otherwise(pl.lit(""))


def _site_steps(known: Facts, columns: pl.DataFrame) -> pl.DataFrame:
    """site, column, value: what the launches of each site took in each step, numbered as the columns of `Values.steps`."""
    process, number = (columns[name].to_numpy() for name in ("process", "step"))
    chosen = np.zeros((len(known.process_names), int(number.max(initial=0)) + 2), dtype=np.bool_)
    chosen[process, number] = True
    site, step = (known.work.ran[name].to_numpy() for name in ("site", "step"))
    # The last column stands for no step, and for all that are not chosen.
    inside = chosen[known.sites["process"].to_numpy()[site], np.clip(step, -1, chosen.shape[1] - 1)]
    ran = known.work.ran.lazy().filter(pl.Series(inside)).select("site", "step", value=(pl.col("end_ns") - pl.col("start_ns")))
    summed = ran.group_by("site", "step").agg(pl.col("value").sum().cast(pl.Int64)).collect()
    of_process = summed.with_columns(process=known.sites["process"].gather(summed["site"])).cast({"site": pl.Int64, "step": pl.Int64})
    return of_process.join(columns, on=["process", "step"]).select("site", "column", "value")


def _of_cpus(known: Facts, metric: str, by: str) -> Values:
    cpu = known.of_clock(metric)
    names = {"line": line_name(), "function": pl.coalesce(pl.col("waits").replace("", None), pl.col("function"))}
    rows = cpu.rows.select(
        "process", pl.col("step").cast(pl.Int64), "value", name=names.get(by, pl.col(by) if by in cpu.rows.columns else None)
    )
    rows = rows.filter(pl.col("name") != "")
    columns = _columns(cpu.steps.select(pl.col("process", "step").cast(pl.Int64)))
    cells = rows.join(columns, on=["process", "step"]).group_by("name", "column").agg(pl.col("value").sum())
    totals = rows.group_by("name").agg(total=pl.col("value").sum()).sort("total", "name", descending=[True, False])
    return _values(totals, cells, len(columns))


def _values(totals: pl.DataFrame, cells: pl.DataFrame, count: int) -> Values:
    """`totals`: name, total; `cells`: name, column, value."""
    matrix = np.zeros((len(totals), count), dtype=np.int64)
    placed = cells.join(totals.select("name").with_row_index("row"), on="name")
    matrix[placed["row"].to_numpy(), placed["column"].to_numpy()] = placed["value"].to_numpy()
    return Values(totals["name"].to_list(), totals["total"].to_numpy(), matrix)


def _columns(steps: pl.DataFrame) -> pl.DataFrame:
    """process, step, column: steps but the first of each process, at most MOST_STEPS."""
    usual = steady(steps).sort("process", "step")
    kept = usual[np.unique(np.linspace(0, len(usual) - 1, min(len(usual), MOST_STEPS)).round().astype(np.int64))] if len(usual) else usual
    return kept.with_row_index("column").select("process", "step", pl.col("column").cast(pl.Int64))

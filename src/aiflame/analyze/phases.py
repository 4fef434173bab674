"""How long each phase of each step took."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.tree import Tree
from aiflame.profile.schema.kinds import Kind

WHOLE = ""
"""`phase` of the row for all phases of a step together."""
_COLUMNS = {"process": pl.String, "step": pl.Int64, "phase": pl.String, "value": pl.Int64}


def phase_times(tree: Tree, metric: str | None = None) -> pl.DataFrame:
    """From a tree grouped by step: process (its frame's name), step (null: outside of all), phase, value; a row for each phase with a
    value, in the order of processes and steps. Values without a phase, such as idle time of a GPU, are left out."""
    values = tree.values[metric or tree.metrics[0].name]
    carrying = np.flatnonzero(values)
    names = tree.frames["name"]
    rows = pl.DataFrame(
        {
            "process": _named(tree, names, Kind.PROCESS, carrying),
            "step": _named(tree, names, Kind.STEP, carrying).str.strip_prefix("Step.").cast(pl.Int64),
            "phase": _named(tree, names, Kind.PHASE, carrying),
            "value": values[carrying],
        },
        schema=_COLUMNS,
    )
    key = ["process", "step", "phase"]
    return rows.filter(pl.col("phase").is_not_null()).group_by(key).agg(pl.col("value").sum()).sort(key, nulls_last=True)


def over_steps(times: pl.DataFrame) -> pl.DataFrame:
    """phase, total, min, median, max over all steps of all processes; first for whole steps (phase WHOLE), then for phases, longest first.
    A step without a phase counts as 0 for it."""
    inside = times.filter(pl.col("step").is_not_null())
    every = inside.select("process", "step").unique()
    wholes = inside.group_by("process", "step").agg(pl.col("value").sum()).with_columns(phase=pl.lit(WHOLE))
    full = every.join(inside.select("phase").unique(), how="cross").join(inside, on=["process", "step", "phase"], how="left")
    rows = pl.concat([wholes.select("phase", "value"), full.select("phase", pl.col("value").fill_null(0))])
    value = pl.col("value")
    summed = rows.group_by("phase").agg(
        total=value.sum(), min=value.min(), median=value.median().round().cast(pl.Int64), max=value.max(), steps=pl.len()
    )
    return summed.sort(pl.col("phase") != WHOLE, -pl.col("total"), "phase").select("phase", "steps", "total", "min", "median", "max")


def _named(tree: Tree, names: pl.Series, kind: Kind, at: NDArray[np.int64]) -> pl.Series:
    """The name of the nearest frame of a kind around each of these nodes, null if there is none."""
    node = nodes.nearest(tree.parent, tree.kinds() == kind)[at]
    return pl.select(pl.when(pl.Series(node >= 0)).then(names.gather(tree.frame[np.maximum(node, 0)]))).to_series()

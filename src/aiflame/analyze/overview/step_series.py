"""The times of consecutive steps, with the states of their devices, for a chart."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.device.occupancy import STATES
from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.overview.scope_line import host_steps
from aiflame.analyze.step_times import step_times
from aiflame.values import dataclass

MOST_POINTS = 1000
"""The most points of a chart. Of neighbours that share a point, the longest step is shown, since people look for it."""
MOST_PROCESSES = 16


@dataclass(frozen=True, slots=True)
class StepSeries:
    """The steps of one process, in their order."""

    process: str
    step: tuple[int, ...]
    begin_ns: tuple[int, ...]
    took_ns: tuple[int, ...]
    states: dict[str, tuple[int, ...]]
    """Mean times of its devices' states: STATES of `occupancy`; empty if no device was used."""
    of: int
    """The number of all its steps."""


def step_series(analysis: ProfileAnalysis) -> list[StepSeries]:
    on_device = analysis.per_step
    times = step_times(host_steps(analysis), on_device)
    states = on_device.group_by("process", "step").agg(pl.col(STATES).mean().round().cast(pl.Int64))
    rows = times.join(states, on=["process", "step"], how="left", maintain_order="left").with_columns(pl.col(STATES).fill_null(0))
    series = []
    for process in rows["process"].unique().sort().head(MOST_PROCESSES).to_list():
        all_steps = rows.filter(pl.col("process") == process).sort("step")
        shown = _thinned(all_steps)
        columns = {name: tuple(shown[name].to_list()) for name in ("step", "begin_ns", "took")}
        name = analysis.process_names[process] if process < len(analysis.process_names) else ""
        state_times = {state: tuple(shown[state].to_list()) for state in STATES} if not on_device.is_empty() else {}
        series.append(StepSeries(name, columns["step"], columns["begin_ns"], columns["took"], state_times, len(all_steps)))
    return series


def _thinned(steps: pl.DataFrame) -> pl.DataFrame:
    if len(steps) <= MOST_POINTS:
        return steps
    placed = steps.with_columns(place=pl.int_range(pl.len()) * MOST_POINTS // len(steps))
    longest = placed.filter(pl.col("took") == pl.col("took").max().over("place"))
    return longest.unique("place", keep="first", maintain_order=True)

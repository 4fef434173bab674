"""Idle gaps of devices with their causes, and steps, as tables."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.device.occupancy import STATES
from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.limits.groups import known_limits, limits_of_steps
from aiflame.analyze.step_times import step_times
from aiflame.analyze.tables.table import OF_LIMIT, TableOf, number, place, share, table_of, text

_IDLE = (
    text("says", "Idle"),
    place("place", "Meanwhile at"),
    text("phase", "Phase"),
    text("layer", "Layer"),
    number("count", "Gaps"),
    number("total", "Total", "ns"),
    number("median", "Median", "ns"),
    number("longest", "Longest", "ns"),
    share("share", "% of the time"),
    share("step_share", "% of steps"),
    text("cause", "Cause"),
)
_GAPS = (
    text("says", "Idle"),
    place("place", "Meanwhile at"),
    number("length", "Length", "ns"),
    number("begin_ns", "Began", "ns"),
    number("step", "Step"),
    text("device", "Device"),
)
_STEPS = (
    number("step", "Step"),
    text("process", "Process"),
    number("took", "Length", "ns"),
    number("begin_ns", "Began", "ns"),
    *(number(state, state.title(), "ns") for state in STATES),
)


def idle_table(analysis: ProfileAnalysis) -> TableOf:
    """A row for each cause and place."""
    return table_of("idle", "Idle gaps by cause", _IDLE, _with_place(analysis.gaps.groups))


def gaps_table(analysis: ProfileAnalysis) -> TableOf:
    """The longest single gaps."""
    return table_of("gaps", "Longest idle gaps", _GAPS, _with_place(analysis.gaps.longest))


def steps_table(analysis: ProfileAnalysis) -> TableOf:
    """Steps in their order, with the states of devices in each, summed over the devices of a process."""
    on_host = analysis.steps if analysis.ran_on_devices or analysis.cpu is None else analysis.cpu.steps
    names = dict(enumerate(analysis.process_names))
    states = analysis.per_step.group_by("process", "step").agg(pl.col(*STATES).sum())
    rows = step_times(on_host, analysis.per_step).join(states, on=["process", "step"], how="left", maintain_order="left")
    rows = rows.with_columns(number=pl.col("process"), process=pl.col("process").replace_strict(names, default="", return_dtype=pl.String))
    columns = _STEPS if analysis.ran_on_devices else _STEPS[: -len(STATES)]
    if known_limits(analysis):
        limits = limits_of_steps(analysis).rename({"process": "number"})
        counted = pl.col("counted")
        rows = rows.join(limits, on=["number", "step"], how="left", maintain_order="left")
        rows = rows.with_columns(of_limit=pl.col("limit") / counted, could_win=counted - pl.col("limit"))
        columns = (*columns, *OF_LIMIT[:2])
    return table_of("steps", "Steps", columns, rows)


def _with_place(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(place=pl.when(pl.col("file") != "").then(pl.format("{}:{}", "file", "line")).otherwise(pl.lit("")))

"""Values of hardware counters that were taken in another run of the program (`aiflame merge`): tables beside those of a profile.

The other run was counted and divided over its own kernels. Its launches were then matched with those of this profile, group by group, and
each group of launches here has the mean of its launches there, times their number here (`attribute.merging`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import polars as pl

from aiflame.attribute.arrays.apportion import scaled
from aiflame.attribute.arrays.types import Floats, Ints
from aiflame.attribute.devices.work import Work
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

VALUES, LAUNCHES, RATES_THERE = "merged_counters", "merged_launches", "merged_rates"
"""Their derived tables."""
PLACE, LAYER, KERNEL, NOWHERE = MATCHES = "place", "layer", "kernel", ""
"""How launches of two runs were matched. PLACE: by kernel, layer, phase and place among the launches of a step. NOWHERE: not at all."""
MERGED_COUNTERS: Mapping[str, type[pl.DataFrame] | type[pl.DataType]] = {
    "process": pl.UInt32,
    "group": pl.UInt32,  # of launches that were matched together, from 1; 0: no kernel or copy of this profile has the value
    "device": pl.String,
    "name": pl.String,  # of the kernel or copy, or why none has it
    "layer": pl.String,
    "phase": pl.String,
    "matched": pl.String,  # MATCHES
    "here": pl.UInt32,  # launches in this profile
    "there": pl.Float64,  # launches that were counted in the other run
    "covered": pl.Float64,  # the part of their time in which the device was counted
    "cycles": pl.Float64,  # that elapsed meanwhile, for the launches here
    "metric": pl.String,  # as in gpu_counters; cycles as time, too
    "value": pl.Int64,  # for all launches here
    "estimated": pl.Int64,  # the part that was divided by rates
}
"""A row for each group and metric."""
MERGED_LAUNCHES: Mapping[str, type[pl.DataType]] = {
    "process": pl.UInt32,
    "copy": pl.Boolean,
    "group": pl.UInt32,  # 0: not matched
    "weight": pl.UInt32,  # its part of the group's value
}
"""A row for each kernel, then for each copy, in the order of their tables."""
ELSEWHERE = "[kernels of the other run alone]"
"""Counts of launches there that no launch here was matched with."""
_MOST = 1 << 61


def has_another_run(profile: Tables) -> bool:
    return profile.has(VALUES) and profile.has(LAUNCHES)


def metrics_of_another_run(profile: Tables) -> set[str]:
    return set(_values(profile)["metric"].unique()) if has_another_run(profile) else set()


def totals_of_another_run(profile: Tables) -> pl.DataFrame:
    """metric, value: of kernels here, and of nothing here."""
    return _values(profile).group_by("metric").agg(pl.col("value").sum()).sort("metric")


@dataclass(frozen=True, slots=True)
class AnotherRun:
    """Sums by target; otherwise as in `Counts`."""

    values: Mapping[str, Ints]
    estimated: Mapping[str, Ints]
    covered_ns: Floats
    cycles: Floats
    remainder: pl.DataFrame


def of_another_run(profile: Tables, work: Work, target: Ints, targets: int, only: Collection[str]) -> AnotherRun:
    rows = _values(profile)
    rows = rows.filter(pl.col("metric").is_in(list(only))) if only else rows
    launches = _launches(profile, work)
    of_groups = rows.filter(pl.col("group") > 0)
    keys, wanted = _key(of_groups), _key(launches)
    groups, number = np.unique(keys, return_inverse=True)
    nearest = np.searchsorted(groups, wanted)
    matched = np.flatnonzero(np.isin(wanted, groups))
    order = matched[np.argsort(nearest[matched], kind="stable")]
    group, to = nearest[order], target[order]
    weight = np.maximum(launches["weight"].to_numpy().astype(np.int64)[order], 1)

    def divided(column: str, metric: str) -> Ints:
        here = (of_groups["metric"] == metric).to_numpy()
        total = np.zeros(len(groups), dtype=np.int64)
        total[number[here]] = of_groups[column].to_numpy()[here]
        summed = np.zeros(targets, dtype=np.int64)
        np.add.at(summed, to, scaled(group, weight, total[group]))
        return summed

    def of_group(column: str) -> Floats:
        value = np.zeros(len(groups))
        value[number] = of_groups[column].to_numpy()
        return value

    metrics = rows["metric"].unique().sort().to_list()
    took = (work.executions["end_ns"].cast(pl.Int64) - work.executions["start_ns"].cast(pl.Int64)).to_numpy()[order]
    cycles = of_group("cycles") / np.maximum(of_group("here"), 1)
    # A group without a launch: only a damaged profile has some, and loses none of its values.
    lost = of_groups.filter(pl.Series(~np.isin(keys, wanted), dtype=pl.Boolean)).with_columns(name=pl.lit(ELSEWHERE))
    return AnotherRun(
        {metric: divided("value", metric) for metric in metrics},
        {metric: divided("estimated", metric) for metric in metrics},
        np.bincount(to, np.maximum(took, 0) * of_group("covered")[group], targets).astype(np.float64),
        np.bincount(to, cycles[group], targets).astype(np.float64),
        pl.concat([rows.filter(pl.col("group") == 0), lost]).select("process", "device", "metric", "value", why="name"),
    )


def rates_of_another_run(profile: Tables, schema: pl.Schema) -> pl.DataFrame:
    """The rates of kinds there, by the names of devices here."""
    if not profile.has(RATES_THERE):
        return pl.DataFrame(schema=schema)
    return _checked(profile, RATES_THERE, schema)


def _values(profile: Tables) -> pl.DataFrame:
    rows = _checked(profile, VALUES, MERGED_COUNTERS)
    if rows["value"].cast(pl.Float64).abs().sum() > _MOST:
        rows = rows.with_columns(pl.col("value", "estimated").clip(0, _MOST // len(rows)))
    return rows.with_columns(
        pl.col("value").clip(lower_bound=0),
        pl.min_horizontal(pl.col("estimated").clip(lower_bound=0), "value"),
        pl.col("covered").fill_nan(0.0).clip(0.0, 1.0),
        pl.col("cycles").fill_nan(0.0).clip(0.0, float(_MOST)),
    ).unique(["process", "group", "device", "name", "metric"], keep="first", maintain_order=True)


def _launches(profile: Tables, work: Work) -> pl.DataFrame:
    """A row for each of `work.executions`."""
    rows = _checked(profile, LAUNCHES, MERGED_LAUNCHES)
    rows = pl.concat([rows.filter(~pl.col("copy")), rows.filter("copy")])
    if len(rows) != len(work.executions):
        raise AiflameError(f"this profile has {len(work.executions):,} kernels and copies, and counts of another run for {len(rows):,}")
    return rows


def _checked(profile: Tables, name: str, schema: Mapping[str, object]) -> pl.DataFrame:
    """The table without nulls; an error where it has other columns."""
    rows = profile.table(name)
    if not set(schema) <= set(rows.columns):
        raise AiflameError(f"the table {name} lacks {', '.join(sorted(set(schema) - set(rows.columns)))}: merge the recordings again")
    return rows.select(pl.col(column).cast(kind, strict=False) for column, kind in schema.items())  # type: ignore[arg-type]


def _key(rows: pl.DataFrame) -> Ints:
    """process and group; no key of a group with that of unmatched launches."""
    process, group = (rows[name].fill_null(0).to_numpy().astype(np.int64) for name in ("process", "group"))
    return np.where(group > 0, process << 32 | group, -1)

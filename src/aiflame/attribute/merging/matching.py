"""The launches of two runs of a program, matched; and the counts of one run as values of the other's launches.

Each launch here is matched with those launches there that stand at its place: the same kernel in the same layer, phase and place of a step,
else the same in layer and phase, else the same kernel. A group of launches here has the mean of its launches there, times its number; one
that was matched by its kernel alone has their rate, times its time.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Floats, Ints, Mask
from aiflame.attribute.counters.another_run import (
    ELSEWHERE,
    KERNEL,
    LAYER,
    MERGED_COUNTERS,
    MERGED_LAUNCHES,
    NOWHERE,
    PLACE,
)
from aiflame.attribute.counters.counted import RATES, Counts, counts
from aiflame.attribute.merging.places import KERNEL_KEY, LAYER_KEY, PLACE_KEY, UNKNOWN, places, used_devices
from aiflame.errors import AiflameError
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

KEYS = {PLACE: PLACE_KEY, LAYER: LAYER_KEY, KERNEL: KERNEL_KEY}
_ENOUGH = 0.5
"""So many launches of a group must have been counted, parts of launches added up."""
_NEARLY = 0.999
"""A launch of whose time this part was counted, was counted."""
_LONGEST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Matched:
    counters: pl.DataFrame
    """MERGED_COUNTERS"""
    launches: pl.DataFrame
    """MERGED_LAUNCHES"""
    rates: pl.DataFrame
    """RATES"""
    matches: dict[str, int]
    """How many kernels and copies here were matched by each of MATCHES."""
    unmatched: float
    """The part of their time that was not."""
    only_there: int
    """Counted launches there that none here was matched with."""
    scale: float
    """Launches here for each launch that was counted there: counts that no kernel here has are multiplied by it."""


def matched(here: Analysis, there: Analysis) -> Matched:
    """`there` has counters."""
    counted = counts(there)
    those = _counted_places(there, counted)
    these = places(here).with_row_index("row")
    group, levels, used = _groups(these, those)
    has_group = group > 0
    if not has_group.any():
        raise AiflameError("no kernel of the one ran in the other: there is nothing to merge")
    scale = float(has_group.sum()) / max(float(those["counted"].to_numpy()[used].sum()), _ENOUGH)
    devices = _devices(here, there)
    rows = pl.concat([*(_values(level, those, counted) for level in levels), _of_nothing(these, those, counted, used, scale, devices)])
    by_place = np.isin(group, next(level.number for level in levels if level.match == PLACE))
    weight = np.where(by_place, 1, np.clip(these["took"].to_numpy(), 1, _LONGEST))
    launches = these.select("process", copy=pl.col("kind") == int(Kind.GPU_COPY), group=pl.Series(group), weight=pl.Series(weight))
    took = these["took"].clip(lower_bound=0).to_numpy()
    matches = {level.match: int(np.isin(group, level.number).sum()) for level in levels} | {NOWHERE: int((~has_group).sum())}
    return Matched(
        rows.filter(pl.col("value") > 0).select(pl.col(name).cast(kind) for name, kind in MERGED_COUNTERS.items()),
        launches.select(pl.col(name).cast(kind) for name, kind in MERGED_LAUNCHES.items()),
        counted.rates.with_columns(pl.col("device").replace(devices)).cast(RATES),
        matches,
        float(took[~has_group].sum()) / max(float(took.sum()), 1.0),
        int((~used & (those["counted"].to_numpy() > 0)).sum()),
        scale,
    )


def _counted_places(there: Analysis, counted: Counts) -> pl.DataFrame:
    """The places of launches with `counted`: the part of each one's time in which its device was."""
    rows = places(there).with_row_index("row")
    took = rows["took"].to_numpy()
    part = np.divide(counted.covered_ns, took, out=np.zeros(len(took)), where=took > 0)
    return rows.with_columns(counted=pl.Series(np.where(part >= _NEARLY, 1.0, part)))


@dataclass(frozen=True, slots=True)
class _Level:
    """Groups of launches that were matched alike."""

    match: str
    number: Ints
    """Of each group, from 1."""
    rows: pl.DataFrame
    """A row for each group: number, process, device, name, layer, phase, here, there, and `factor`: the counts there are worth so many
    times themselves here."""
    row: Ints
    group: Ints
    """Rows of launches there, and the place of a group in `rows` that each counts for: a launch counts for those of several processes."""


def _groups(these: pl.DataFrame, those: pl.DataFrame) -> tuple[Ints, list[_Level], Mask]:
    """The group of each launch here, 0: none; the groups; and which launches there count for any."""
    group, used = np.zeros(len(these), dtype=np.int64), np.zeros(len(those), dtype=np.bool_)
    levels: list[_Level] = []
    first = 1
    for match, key in KEYS.items():
        usable = pl.col("place") != UNKNOWN if match == PLACE else pl.lit(value=True)
        left = these.filter(pl.Series(group == 0), usable)
        sums = those.filter(usable, pl.col("counted") > 0).group_by(key).agg(there=pl.col("counted").sum(), their=_counted_time().sum())
        joined = left.join(sums.filter(pl.col("there") >= _ENOUGH), on=key)
        of_groups = joined.group_by("process", *key, maintain_order=True).agg(
            pl.col("device", "there", "their").first(),
            pl.col("row"),
            *(pl.lit("").alias(name) for name in ("layer", "phase") if name not in key),
            here=pl.len(),
            our=pl.col("took").sum(),
        )
        by_time = pl.col("our") / pl.col("their").clip(lower_bound=1.0)
        of_groups = of_groups.with_columns(
            number=pl.int_range(pl.len()) + first, factor=by_time if match == KERNEL else pl.col("here") / pl.col("there")
        )
        rows = of_groups.select("row", "number").explode("row").drop_nulls()
        group[rows["row"].to_numpy()] = rows["number"].to_numpy()
        counting = those.filter(usable, pl.col("counted") > 0).select("row", *key)
        pairs = counting.join(of_groups.select(*key, at=pl.int_range(pl.len())), on=key)
        used[pairs["row"].to_numpy()] = True
        levels.append(_Level(match, of_groups["number"].to_numpy(), of_groups.drop("row"), pairs["row"].to_numpy(), pairs["at"].to_numpy()))
        first += len(of_groups)
    return group, levels, used


def _counted_time() -> pl.Expr:
    return pl.col("took") * pl.col("counted")


def _values(level: _Level, those: pl.DataFrame, counted: Counts) -> pl.DataFrame:
    """The rows of MERGED_COUNTERS of a level."""
    groups = level.rows
    factor = groups["factor"].to_numpy()

    def summed(value: Ints | Floats) -> Floats:
        sums: Floats = np.bincount(level.group, value[level.row], len(groups)) * factor
        return sums

    same = groups.select(
        "process", "device", "name", "layer", "phase", "here", "there", group="number", matched=pl.lit(level.match), covered=pl.lit(1.0)
    ).with_columns(cycles=pl.Series(summed(counted.cycles)))
    frames = [pl.DataFrame(schema=dict(MERGED_COUNTERS))]
    for metric, value in counted.values.items():
        columns = {"value": value, "estimated": counted.estimated[metric]}
        whole = {name: pl.Series(np.rint(summed(of)).astype(np.int64)) for name, of in columns.items()}
        frames.append(_cast(same.with_columns(pl.lit(metric).alias("metric"), **whole)))
    return pl.concat(frames)


def _of_nothing(
    these: pl.DataFrame, those: pl.DataFrame, counted: Counts, used: Mask, scale: float,
    devices: dict[str, str],
) -> pl.DataFrame:  # fmt: skip
    """Counts of the other run in which nothing ran, and of its launches that none here was matched with."""
    alone = those.filter(pl.Series(~used)).select("device", "row")
    frames = [counted.remainder.select("device", "metric", "value", name="why")]
    for metric, value in counted.values.items():
        rows = alone.select("device", value=pl.Series(value[alone["row"].to_numpy()]))
        frames.append(rows.select("device", pl.lit(metric).alias("metric"), "value", pl.lit(ELSEWHERE).alias("name")))
    summed = (
        pl.concat(frames).with_columns(pl.col("device").replace(devices)).group_by("device", "metric", "name").agg(pl.col("value").sum())
    )
    process = dict(these.group_by("device").agg(pl.col("process").first()).rows())
    return _cast(
        summed.sort("device", "metric", "name").with_columns(
            pl.col("device").replace_strict(process, default=0, return_dtype=pl.UInt32).alias("process"),
            value=(pl.col("value") * scale).round(),
            here=0,
            there=0.0,
            covered=0.0,
            cycles=0.0,
            estimated=0,
            group=0,
            **{name: pl.lit("") for name in ("layer", "phase", "matched")},
        )
    )


def _cast(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(pl.col(name).cast(kind) for name, kind in MERGED_COUNTERS.items())


def _devices(here: Analysis, there: Analysis) -> dict[str, str]:
    """The device here of each one there, by their order; where there are fewer here, again from the first."""
    ours = used_devices(here)
    return {device: ours[number % len(ours)] for number, device in enumerate(used_devices(there)) if ours}

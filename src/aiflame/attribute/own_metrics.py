"""Metrics that a profile names itself: values of stacks that are no time, from the tables `value_kinds` and `stack_values`.

To all that reads samples of threads, each of them is one more clock (`stacks.samples`).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.metrics import CLOCK, METRIC_ROWS, Compared, MetricRow, is_own_counter, metric_row
from aiflame.attribute.tree import Metric
from aiflame.errors import AiflameError
from aiflame.profile.schema.kinds import CALL_COUNTS
from aiflame.profile.tables.interface import Tables

FIRST_CLOCK = 1 << 8
"""Numbers of clocks from here on stand for own metrics; the column `clock` of samples ends before."""
MOST = 256
"""Own metrics of a profile."""
_RECORD = "import a file that has it"


@once
def own_metrics(profile: Analysis) -> Mapping[str, MetricRow]:
    """By name, the one that the profile means most first. Kinds of several processes with one name and unit are one metric."""
    rows = {}
    for number, (name, unit, label) in enumerate(_kinds(profile).select("metric", "unit", "label").rows()):
        rows[name] = MetricRow(Metric(name, unit, label), _RECORD, clock=FIRST_CLOCK + number, on_devices=False, compared=Compared.CPUS)
    return rows


@once
def own_clocks(profile: Analysis) -> pl.DataFrame:
    """process, kind (row of `value_kinds`), clock"""
    numbers = _kinds(profile).select("name", "unit", clock=pl.int_range(pl.len(), dtype=pl.Int64) + FIRST_CLOCK)
    return _all_kinds(profile).join(numbers, on=["name", "unit"]).select("process", "clock", kind="id")


class _Rows(dict[str, MetricRow]):
    """A counter of the vendor's that a user asked for has a row as well: it is made from its name."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and is_own_counter(name))

    def __missing__(self, name: str) -> MetricRow:
        return metric_row(name)


def metric_rows(profile: Tables) -> Mapping[str, MetricRow]:
    """Every metric that exists for this profile, whether it has values of it or not."""
    return _Rows({**METRIC_ROWS, **own_metrics(profile)})


def clocks(profile: Tables) -> Mapping[str, int]:
    """The metrics of samples of threads and of values of stacks, with the numbers of their clocks."""
    return {**CLOCK, **{name: row.clock for name, row in own_metrics(profile).items() if row.clock is not None}}


def _all_kinds(profile: Tables) -> pl.DataFrame:
    texts = [pl.col(name).fill_null("") for name in ("name", "unit", "label")]
    return profile.table("value_kinds").select("process", "id", *texts).filter(pl.col("name") != CALL_COUNTS)


def _kinds(profile: Tables) -> pl.DataFrame:
    """metric, name, unit, label: each once, in the order of the profile."""
    distinct = _all_kinds(profile).unique(["name", "unit"], keep="first", maintain_order=True)
    if len(distinct) > MOST:
        raise AiflameError(f"the profile has {len(distinct):,} kinds of values; more than {MOST} cannot be read")
    in_use = set(METRIC_ROWS)
    names = []
    for name, unit in distinct.select("name", "unit").rows():
        own = "-".join(name.split()) or "value"
        own = next(one for one in _spellings(own, unit) if one not in in_use)
        in_use.add(own)
        names.append(own)
    label = pl.when(pl.col("label") == "").then(pl.when(pl.col("name") == "").then(pl.lit("values")).otherwise("name")).otherwise("label")
    return distinct.select(metric=pl.Series(names, dtype=pl.String), name="name", unit="unit", label=label)


def _spellings(name: str, unit: str) -> list[str]:
    """A metric's name, and others for where another metric has it."""
    return [name, f"{name}-{unit}", *(f"{name}-{number}" for number in range(2, MOST + 3))]

"""Metrics of stacks that are no time: those of memory, and those that a profile names itself (tables `value_kinds`, `stack_values`).

To all that reads samples of threads, each of them is one more clock (`stacks.samples`).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.memory.metrics import OF_MEMORY, base_name, memory_metrics, memory_row
from aiflame.attribute.metrics import CLOCK, METRIC_ROWS, MOST_OWN, Compared, MetricRow, is_own_counter, metric_row
from aiflame.attribute.tree import Metric
from aiflame.errors import AiflameError
from aiflame.profile.schema.kinds import CALL_COUNTS
from aiflame.profile.tables.interface import Tables

FIRST_CLOCK = 1 << 8
"""Numbers of clocks from here on stand for own metrics; the column `clock` of samples ends before."""
_RECORD = "import a file that has it"


@once
def own_metrics(profile: Analysis) -> Mapping[str, MetricRow]:
    """By name, the one that the profile means most first. Kinds of several processes with one name and unit are one metric."""
    rows = dict(memory_metrics(profile))
    for number, (name, unit, label) in enumerate(_kinds(profile).select("metric", "unit", "label").rows()):
        rows[name] = MetricRow(Metric(name, unit, label), _RECORD, clock=FIRST_CLOCK + number, on_devices=False, compared=Compared.CPUS)
    return rows


@once
def own_clocks(profile: Analysis) -> pl.DataFrame:
    """process, kind (row of `value_kinds`), clock"""
    numbers = _kinds(profile).select("name", "unit", clock=pl.int_range(pl.len(), dtype=pl.Int64) + FIRST_CLOCK)
    return _all_kinds(profile).join(numbers, on=["name", "unit"]).select("process", "clock", kind="id")


class _Rows(dict[str, MetricRow]):
    """The rows of some metrics are made from their names: counters of the vendor's that a user asked for, and bytes at a moment."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and (is_own_counter(name) or base_name(name) != name))

    def __missing__(self, name: str) -> MetricRow:
        return memory_row(name) if base_name(name) != name else metric_row(name)


class _Clocks(dict[str, int]):
    """Metrics of bytes at a moment have clocks, too."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and base_name(name) != name)

    def __missing__(self, name: str) -> int:
        if base_name(name) == name:
            raise KeyError(name)
        return memory_row(name).clock or 0


def metric_rows(profile: Tables) -> Mapping[str, MetricRow]:
    """Every metric that exists for this profile, whether it has values of it or not."""
    return _Rows({**METRIC_ROWS, **{name: memory_row(name) for name in OF_MEMORY}, **own_metrics(profile)})


def clocks(profile: Tables) -> Mapping[str, int]:
    """The metrics of samples of threads and of values of stacks, with the numbers of their clocks."""
    return _Clocks({**CLOCK, **{name: row.clock for name, row in own_metrics(profile).items() if row.clock is not None}})


def _all_kinds(profile: Tables) -> pl.DataFrame:
    texts = [pl.col(name).fill_null("") for name in ("name", "unit", "label")]
    return profile.table("value_kinds").select("process", "id", *texts).filter(pl.col("name") != CALL_COUNTS)


def _kinds(profile: Analysis) -> pl.DataFrame:
    """metric, name, unit, label: each once, in the order of the profile."""
    distinct = _all_kinds(profile).unique(["name", "unit"], keep="first", maintain_order=True)
    if len(distinct) > MOST_OWN:
        raise AiflameError(f"the profile has {len(distinct):,} kinds of values; more than {MOST_OWN} cannot be read")
    in_use = {*METRIC_ROWS, *memory_metrics(profile)}
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
    return [name, f"{name}-{unit}", *(f"{name}-{number}" for number in range(2, MOST_OWN + 3))]

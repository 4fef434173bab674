"""Values of hardware counters, of each kernel and copy.

    counted(profile)            one row for each execution and metric
    counts(profile)             the same as arrays, with times, rates and the remainder
    counts_by(profile, work, target, targets)   sums over executions, for instance by site

Sums are exact: the values of all executions and of `Counts.remainder` add up to the table `gpu_counters`. A profile that was merged with
another run has its counters from there (`another_run`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import polars as pl

from aiflame.attribute.addresses import Addresses
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.apportion import scaled
from aiflame.attribute.arrays.types import Floats, Ints
from aiflame.attribute.counters.another_run import has_another_run, of_another_run, rates_of_another_run
from aiflame.attribute.counters.expected import Kinds, expectations
from aiflame.attribute.counters.fit import Rates
from aiflame.attribute.counters.intervals import MOST_DEVICES, ROWS, counted_values, has_counters, stretches, totals
from aiflame.attribute.counters.names import AS_TIME, CYCLES, NOT_OURS
from aiflame.attribute.counters.shares import Executions, divide
from aiflame.attribute.devices.windows import LATEST
from aiflame.attribute.devices.work import Work, bytes_of, work
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

FRAME = pl.Schema({"execution": pl.UInt32(), "metric": pl.String(), "value": pl.UInt64(), "estimated": pl.UInt64(), "exact": pl.Boolean()})
RATES = pl.Schema(
    {
        "device": pl.String(),
        "name": pl.String(),
        "kind": pl.UInt8(),
        "readable": pl.String(),
        "detailed": pl.String(),
        "metric": pl.String(),
        "rate": pl.Float64(),
        "error": pl.Float64(),
        "told_apart": pl.Boolean(),
    }
)


@dataclass(frozen=True, slots=True)
class Counts:
    values: Mapping[str, Ints]
    """By metric, for each target (an execution, a site …); also cycles as time (AS_TIME)."""
    estimated: Mapping[str, Ints]
    """The part of each value that was divided by rates, because several executions shared an interval."""
    covered_ns: Floats
    """For each target, how long its executions ran while the device was counted."""
    cycles: Floats
    """For each target, the cycles of its device in that time; of executions that ran at the same time, each has all cycles. 0: not
    counted."""
    remainder: pl.DataFrame
    """process (that recorded), device, metric, value, why: the part that belongs to nothing of this program"""
    rates: pl.DataFrame
    """RATES: how much each kind of kernel adds in a nanosecond, with its standard error; `name` is null for idle time and "" for all rare
    kinds together. `told_apart`: false for a kind that always ran together with others."""


def counted(profile: Tables) -> pl.DataFrame:
    """FRAME. `execution`: row of `work(profile, …).executions`, which has kernels in the order of their table, then copies; null for the
    part that belongs to no work of the program. `estimated`: the part of `value` that was divided by rates; `exact`: there is no such part.
    Rows with value 0 are left out. The values of a metric add up to the table's."""
    of = counts(profile)
    frames = [pl.DataFrame(schema=FRAME)]
    for metric, values in of.values.items():
        if metric in AS_TIME.values():
            continue
        at = np.flatnonzero(values)
        estimated = of.estimated[metric][at]
        frames.append(
            pl.DataFrame(
                {"execution": at, "metric": metric, "value": values[at], "estimated": estimated, "exact": estimated == 0}, schema=FRAME
            )
        )
    remainder = of.remainder.filter(pl.col("value") > 0, ~pl.col("metric").is_in(list(AS_TIME.values()))).select(
        "metric", "value", execution=pl.lit(None), estimated=pl.lit(0), exact=pl.lit(True)
    )  # fmt: skip
    return pl.concat([*frames, remainder.select(*FRAME).cast(FRAME)])


@once
def counts(profile: Analysis) -> Counts:
    """As `counted`, by execution."""
    gpu_work = work(profile, None)
    profile.used(work.part(None))
    return counts_by(profile, gpu_work, np.arange(len(gpu_work.executions)), len(gpu_work.executions))


def counts_of_sites(profile: Tables, gpu_work: Work, only: Collection[str] = ()) -> Counts:
    """As `counted`, by row of `gpu_work.sites`."""
    return counts_by(profile, gpu_work, gpu_work.executions["site"].to_numpy().astype(np.int64), len(gpu_work.sites), only)


def counts_by(profile: Tables, gpu_work: Work, target: Ints, targets: int, only: Collection[str] = ()) -> Counts:
    """`target`: where each execution's values are added up, from 0; executions of several devices have no target in common. `only`: these
    counters; (): all."""
    if has_another_run(profile):
        there = of_another_run(profile, gpu_work, target, targets, only)
        rates = rates_of_another_run(profile, RATES)
        return Counts(there.values, there.estimated, there.covered_ns, there.cycles, there.remainder, rates)
    if not has_counters(profile):
        empty = pl.DataFrame(schema={"process": pl.UInt32, **dict.fromkeys(("device", "metric", "why"), pl.String), "value": pl.Int64})
        return Counts({}, {}, np.zeros(targets), np.zeros(targets), empty, pl.DataFrame(schema=RATES))
    addresses = Addresses.of(profile)
    rows = counted_values(profile)
    rows = _keyed(rows.filter(pl.col("metric").is_in(list(only))) if only else rows, addresses)
    in_all = totals(rows).join(rows.select("process", "device", "key").unique(), on=["process", "device"]).sort(ROWS[:-1])
    sites = _keyed(gpu_work.sites.select("process", "device", "name", "kind", "readable", "detailed", "took"), addresses)
    making = _Making(targets)
    start, end = (np.minimum(gpu_work.executions[name].to_numpy(), LATEST).astype(np.int64) for name in ("start_ns", "end_ns"))
    site = gpu_work.executions["site"].to_numpy()
    moved = bytes_of(profile, gpu_work)
    keys = rows["key"].unique().sort().to_list()[:MOST_DEVICES]
    for key in keys:
        here = (sites["key"] == key).to_numpy()
        mine = np.flatnonzero(here[site] & (end > start))
        if not len(mine):
            continue
        own = sites.filter(pl.Series(here))
        kinds = Kinds.of(profile, own)
        number = np.full(len(sites), -1)
        number[here] = kinds.of_site
        kind = number[site[mine]]
        weight = kinds.weights(kind, end[mine] - start[mine], moved[mine])
        executions = Executions(start[mine], end[mine], kind, len(kinds.rows), weight)
        for counted_here in stretches(rows.filter(pl.col("key") == key).drop("key")):
            expected, spread = expectations(counted_here, executions, kinds)
            parts = divide(counted_here, executions, expected, spread, target[mine], targets)
            making.add(key, list(counted_here.values), parts.values, parts.estimated)
            making.timed(parts.covered, parts.cycles, of_cycles=CYCLES in counted_here.values)
            making.rates.append(_named(parts.rates, kinds.rows, own["device"][0], list(counted_here.values)))
    values, estimated, remainder = making.whole(in_all)
    rates = pl.concat([pl.DataFrame(schema=RATES), *making.rates])
    return Counts(values, estimated, making.covered, making.cycles, remainder.with_columns(why=pl.lit(NOT_OURS)), rates)


class _Making:
    """Collects values while devices are added."""

    def __init__(self, targets: int) -> None:
        self.targets = targets
        self.covered, self.cycles = np.zeros(targets), np.zeros(targets)
        self.rates: list[pl.DataFrame] = []
        self._of: dict[tuple[str, str], tuple[Floats, Floats]] = {}

    def add(self, key: str, metrics: list[str], values: Floats, estimated: Floats) -> None:
        for at, metric in enumerate(metrics):
            before = self._of.get((key, metric))
            mine = values[:, at], estimated[:, at]
            self._of[key, metric] = mine if before is None else (before[0] + mine[0], before[1] + mine[1])

    def timed(self, covered: Floats, cycles: Floats, *, of_cycles: bool) -> None:
        """Counters may be counted in turns: the time is that of those that were counted longest."""
        if of_cycles and not self.cycles[covered > 0].any():
            self.cycles += cycles
        self.covered = np.maximum(self.covered, covered)

    def whole(self, in_all: pl.DataFrame) -> tuple[dict[str, Ints], dict[str, Ints], pl.DataFrame]:
        """The values and their estimated parts as whole numbers, and the remainder (process, device, metric, value)."""
        values: dict[str, Ints] = {metric: np.zeros(self.targets, dtype=np.int64) for metric in in_all["metric"].unique().sort()}
        estimated = {metric: np.zeros(self.targets, dtype=np.int64) for metric in values}
        left = []
        for (key, metric), rows in in_all.group_by("key", "metric", maintain_order=True):
            total = int(rows["value"].sum())
            if (str(key), str(metric)) in self._of:
                floats, divided = self._of.pop((str(key), str(metric)))
                whole = _whole(floats, total)
                values[str(metric)] += whole
                estimated[str(metric)] += np.minimum(np.rint(divided).astype(np.int64), whole)
                total -= int(whole.sum())
            parts = scaled(np.zeros(len(rows), dtype=np.int64), rows["value"].to_numpy(), np.full(len(rows), total))
            left.append(rows.select("process", "device", "metric", value=pl.Series(parts, dtype=pl.Int64)))
        return values, estimated, pl.concat([in_all.select(ROWS).clear(), *left])


def _whole(values: Floats, most: int) -> Ints:
    """Whole numbers with the same running sums."""
    reached = np.minimum(np.rint(np.cumsum(values)).astype(np.int64), most)
    whole: Ints = np.diff(reached, prepend=0)
    return whole


def _keyed(rows: pl.DataFrame, addresses: Addresses) -> pl.DataFrame:
    used = rows.select("process", "device").unique(maintain_order=True)
    keys = [addresses.key(process, device) for process, device in used.rows()]
    return rows.join(used.with_columns(key=pl.Series(keys, dtype=pl.String)), on=["process", "device"], how="left", maintain_order="left")


def _named(rates: Rates, kinds: pl.DataFrame, device: str, metrics: list[str]) -> pl.DataFrame:
    """The rates as rows of RATES, idle time last."""
    idle = pl.DataFrame({"name": [None]}, schema={"name": pl.String})
    named = pl.concat([kinds.select("name", "kind", "readable", "detailed"), idle], how="diagonal")
    frames = [
        named.with_columns(
            device=pl.lit(device),
            metric=pl.lit(metric),
            rate=pl.Series(rates.rate[:, at]),
            error=pl.Series(rates.error[:, at]),
            told_apart=pl.Series(rates.separate[:, at]),
        )
        for at, metric in enumerate(metrics)
    ]
    return pl.concat([pl.DataFrame(schema=RATES), *frames], how="diagonal_relaxed").select(*RATES).cast(RATES)

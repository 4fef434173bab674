"""A device that runs slower than it can: its clock while it works, and the power and temperature that limit it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.catalogue import FEW_RECORDS, least
from aiflame.analyze.findings.gpu.facts import Facts
from aiflame.analyze.spans import Spans, union
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.energy.power import places, read_devices
from aiflame.attribute.tree import GPU_TIME

Floats = NDArray[np.float64]
HOT = 83.0
"""°C: NVIDIA's devices slow down from 83 to 90."""
STEADY_POWER = 0.05
"""A share of the mean: a device at its power limit always takes the same power."""
NEAR_ITS_MOST = 0.95
WINDOW_NS = 100_000_000
_SITE = {"process": pl.Int64, "device": pl.String}
GAIN = 0.3
"""Small, because the remedy is outside of the program."""


def slow_clocks(facts: Facts) -> Iterator[Finding]:
    profile = facts.analysis.profile
    if not profile.has("telemetry_series") or not profile.has("telemetry"):
        return
    series = profile.table("telemetry_series").filter(source="nvidia")
    for (name,), of_device in series.partition_by("device", as_dict=True).items():
        busy = _busy(facts, str(name))
        looks = {row["name"]: _looks(facts, row["series"]) for row in of_device.iter_rows(named=True)}
        clock, power, heat = (_at_work(looks.get(what), busy) for what in ("SM clock", "power", "temperature"))
        if len(clock) < FEW_RECORDS or not len(busy):
            continue
        most, usual = float(looks["SM clock"][1].max()), float(np.median(clock))
        lost = 1 - usual / most if most else 0.0
        if lost < least("slow-clocks-power"):
            continue
        says = f"While it computes, {name} runs at {usual:,.0f} MHz, {lost:.0%} below the {most:,.0f} MHz that it reaches"
        view = Evidence("timeline", GPU_TIME.name, "code", "SM clock")
        if len(heat) and np.median(heat) >= HOT:
            yield Finding(f"{says}: it is at {np.median(heat):.0f} °C", lost, view, "slow-clocks-heat", lost * GAIN)
        elif len(power) >= FEW_RECORDS and _at_its_limit(power):
            yield Finding(f"{says}: it takes {np.median(power):.0f} W, its limit", lost, view, "slow-clocks-power", lost * GAIN)


def _busy(facts: Facts, name: str) -> Spans:
    """When the program computed on the device that telemetry has by this name: its clock at other times is another program's, or that of a
    device at rest."""
    used, read = facts.analysis.devices, read_devices(facts.analysis.profile, "nvidia")
    sites = pl.DataFrame({"process": [one.process for one in used], "device": [one.name for one in used]}, schema_overrides=_SITE)
    place = places(facts.analysis.profile, read, sites).tolist()
    mine = [one.computing for one, row in zip(used, place, strict=True) if row >= 0 and read[row].device == name]
    return union(*(np.concatenate([np.zeros(0, dtype=np.int64), *(getattr(one, side) for one in mine)]) for side in ("begin", "end")))


def _looks(facts: Facts, series: int) -> tuple[Ints, Floats]:
    """Times and values of the series."""
    rows = (
        facts.analysis.profile.scan("telemetry")
        .filter((pl.col("series") == series) & pl.col("value").is_finite())
        .select("time_ns", "value")
        .collect()
    )
    return rows["time_ns"].cast(pl.Int64).to_numpy(), rows["value"].to_numpy()


def _at_work(looks: tuple[Ints, Floats] | None, busy: Spans) -> Floats:
    """Values of readings before which the device computed without a pause."""
    if looks is None:
        return np.zeros(0)
    time_ns, value = looks
    return value[busy.within(time_ns - WINDOW_NS, time_ns) >= NEAR_ITS_MOST * WINDOW_NS]


def _at_its_limit(power: Floats) -> bool:
    usual = float(np.median(power))
    varies = float(np.median(abs(power - usual)))
    return usual > 0 and varies <= STEADY_POWER * usual and usual >= NEAR_ITS_MOST * float(np.quantile(power, 0.95))

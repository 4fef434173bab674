"""The recorder's measurements of the machine, for a timeline: counters of the machine below it, in a group for each device, and counters of
processes below the processes."""

from __future__ import annotations

import polars as pl

from aiflame.attribute.addresses import host_of
from aiflame.attribute.timeline.tables import LATEST, Making, Owners, TrackKind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

MACHINE = "Machine"
_GROUPS = {
    "nvidia": "{}",
    "amd": "{}",
    "intel": "{}",
    "cpu": "CPU",
    "rapl": "CPU",
    "memory": "Memory",
    "pressure": "Pressure",
    "cgroup": "Control group",
    "disk": "Disk {}",
    "network": "Network {}",
    "infiniband": "InfiniBand {}",
    "cxi": "Slingshot {}",
}
"""Titles for the devices of a source, in the order in which they are shown."""
_MANY = {"cpu": "CPU cores", "pressure": "Pressure"}
"""If a group has several devices, their names are part of the counters' names."""
_LIMITS = ("usable CPUs",)
"""Values that never change."""


@dataclass(frozen=True, slots=True)
class _Counter:
    order: int
    group: str
    label: str
    unit: str
    series: int
    pid: str = ""
    """the process, "" for the machine"""
    host: str = ""
    """In a profile of several hosts, on which two processes may have one number."""
    grows: bool = False
    """The values are energy in J, shown as power."""


class Groups:
    """The tracks of the machine and of groups of counters below it; each is added at its first use."""

    def __init__(self, making: Making) -> None:
        self._making = making
        self._track: dict[str, int] = {}

    def under(self, title: str) -> int:
        if not self._track:
            self._track[""] = self._making.track(TrackKind.MACHINE, -1, 0, MACHINE)
        if title not in self._track:
            self._track[title] = self._making.track(TrackKind.MACHINE, self._track[""], 0, title)
        return self._track[title]


def telemetry(profile: Tables, making: Making, owners: Owners, groups: Groups) -> None:
    """Adds no track for a profile without telemetry."""
    if not profile.has("telemetry_series") or not profile.has("telemetry"):
        return
    named = profile.table("telemetry_series").select("source", "device", "name", "unit", "series").rows()
    powered = {(source, device) for source, device, name, _, _ in named if name == "power"}
    counters = [_counter(*row) for row in named if not (row[2] == "energy" and row[:2] in powered) and row[2] not in _LIMITS]
    values = profile.scan("telemetry").filter(pl.col("value").is_finite(), pl.col("time_ns") < LATEST)
    by_series = {key[0]: rows for key, rows in values.collect().partition_by("series", as_dict=True).items()}
    processes: dict[str, list[int]] = {}
    for process, pid in profile.table("processes").select("process", "pid").rows():
        processes.setdefault(str(pid), []).append(process)
    for one in sorted(counters, key=lambda one: (one.order, one.group)):
        rows = by_series.get(one.series)
        if rows is None or (one.pid and one.pid not in processes) or not (rows["value"] != 0).any():
            continue  # a counter that stays 0 does not concern this program
        process = processes[one.pid][-1] if one.pid and (not one.host or len(processes[one.pid]) == 1) else None
        if process is not None:
            track = making.track(TrackKind.COUNTER, owners.process(process), process, one.label, unit=one.unit)
        else:
            track = making.track(TrackKind.COUNTER, groups.under(one.group), 0, one.label, unit=one.unit)
        making.points(_points(rows.sort("time_ns"), one).select(pl.lit(track).alias("track"), "time_ns", "value"))


def _counter(source: str, device: str, name: str, unit: str, series: int) -> _Counter:
    order = list(_GROUPS).index(source) if source in _GROUPS else len(_GROUPS)
    host = host_of(device)
    device = device.removeprefix(f"{host}: ")
    before = f"{host}: " if host else ""
    if source == "process":
        return _Counter(order, f"{before}{device}", name, unit, series, device.removeprefix("pid "), host)
    grows = name == "energy"  # a sum since the machine's start is not useful
    name, unit = ("power", "W") if grows else (name, unit)
    several = bool(device) and source in ("cpu", "pressure", "rapl")
    group = _MANY.get(source, "CPU") if several else _GROUPS.get(source, "{}").format(device)
    return _Counter(order + several, f"{before}{group}", f"{device} {name}" if several else name, unit, series, grows=grows)


def _points(rows: pl.DataFrame, counter: _Counter) -> pl.DataFrame:
    """Only changes: a value holds until the next."""
    if counter.grows:
        power = pl.col("value").diff() * 1e9 / pl.col("time_ns").cast(pl.Int64).diff()
        rows = rows.with_columns(value=power.shift(-1)).filter(pl.col("value") >= 0)
    return rows.filter((pl.col("value") != pl.col("value").shift(1)).fill_null(True))

"""Hardware counters of devices, for a timeline: as rates, in the device's group beside its telemetry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from aiflame.attribute.addresses import Addresses, host_of, same_address
from aiflame.attribute.arrays.types import Floats, Ints
from aiflame.attribute.counters.intervals import MOST_DEVICES, Stretches, counted_values, has_counters, stretches
from aiflame.attribute.counters.names import ACTIVE_CYCLES, AS_TIME, DRAM, KNOWN, L2, NVLINK, PCIE, TENSOR_CYCLES
from aiflame.attribute.timeline.tables import Making, Owners, TrackKind
from aiflame.attribute.timeline.telemetry import Groups, telemetry
from aiflame.profile.tables.interface import Tables

MOST_POINTS = 200_000
"""The most points of a counter; if it has more, neighbours are merged."""
_SHOWN: Sequence[tuple[str, str, Sequence[str]]] = (
    ("memory traffic", "bytes/s", DRAM),
    ("L2 traffic", "bytes/s", L2),
    ("PCIe traffic", "bytes/s", PCIE),
    ("NVLink traffic", "bytes/s", NVLINK),
    ("tensor cores", "%", (AS_TIME[TENSOR_CYCLES],)),
    ("multiprocessors with work", "%", (AS_TIME[ACTIVE_CYCLES],)),
)
_OTHERS = "counts/s"
_OF_GPUS = ("nvidia", "amd", "intel")
"""Sources of telemetry whose devices are GPUs."""


def machine_counters(profile: Tables, making: Making, owners: Owners) -> None:
    """Telemetry and hardware counters."""
    groups = Groups(making)
    telemetry(profile, making, owners, groups)
    if not has_counters(profile):
        return
    addresses = Addresses.of(profile)
    rows = counted_values(profile)
    devices = rows.select("process", "device").unique().sort("process", "device")
    keys = [addresses.key(process, device) for process, device in devices.rows()]
    rows = rows.join(devices.with_columns(key=pl.Series(keys, dtype=pl.String)), on=["process", "device"])
    named = {key: _title(profile, addresses, *device) for key, device in reversed(list(zip(keys, devices.rows(), strict=True)))}
    for key in sorted(named, key=lambda key: (named[key], key))[:MOST_DEVICES]:
        _device(making, groups.under(named[key]), list(stretches(rows.filter(pl.col("key") == key))))


def _title(profile: Tables, addresses: Addresses, process: int, device: str) -> str:
    """The name that telemetry has for the device, since it counts the whole machine; otherwise the process's name."""
    address = addresses.address(process, device)
    if address and profile.has("telemetry_series"):
        of_gpus = profile.table("telemetry_series").filter(pl.col("source").is_in(_OF_GPUS))
        for other, identity in of_gpus.select("device", "identity").unique().rows():
            if same_address(identity, address) and host_of(other) == host_of(device):
                return str(other)
    return device


def _device(making: Making, group: int, counted: list[Stretches]) -> None:
    there = {metric for one in counted for metric in one.values}
    others = sorted(there - {*KNOWN, *AS_TIME.values()})
    shown = [*_SHOWN, *((metric, _OTHERS, (metric,)) for metric in others)]
    for label, unit, metrics in shown:
        scale = 1e9 if unit != "%" else 100.0
        for one in counted:
            mine = [metric for metric in metrics if metric in one.values]
            value = sum((one.values[metric] for metric in mine), np.zeros(len(one.begin), dtype=np.int64))
            if not value.any():
                continue  # as for telemetry: a counter that stays 0 does not concern this program
            track = making.track(TrackKind.COUNTER, group, 0, label, unit=unit)
            time, rate = _points(one.begin, one.end, value, scale)
            making.points(pl.DataFrame({"track": np.full(len(time), track), "time_ns": time, "value": rate}))


def _points(begin: Ints, end: Ints, value: Ints, scale: float) -> tuple[Ints, Floats]:
    """The rate of each stretch at its begin, and 0 where a stretch ends without another that follows at once."""
    if len(begin) > MOST_POINTS:
        at = np.arange(0, len(begin), -(-len(begin) // MOST_POINTS))
        length = np.add.reduceat(end - begin, at)
        value, begin = np.add.reduceat(value, at), begin[at]
        end = np.append(end[at[1:] - 1], end[-1])
    else:
        length = end - begin
    rate = value / length * scale
    ends = np.append(begin[1:] > end[:-1], True)
    time = np.concatenate([begin, end[ends]])
    rate = np.concatenate([rate, np.zeros(int(ends.sum()))])
    order = np.argsort(time, kind="stable")
    time, rate = time[order], rate[order]
    changed = np.append(True, rate[1:] != rate[:-1])
    return time[changed], rate[changed]

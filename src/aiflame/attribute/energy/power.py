"""The energy of devices and CPUs from telemetry, as a sum that only grows with time.

A counter of energy is preferred; without one, energy is power times time. A driver may update a counter more rarely than it is read: only
the moments at which it had grown count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.addresses import host_of, same_address
from aiflame.attribute.arrays.types import Ints
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

GPUS = ("nvidia", "amd", "intel")
"""Sources of the devices on which kernels run."""
CPUS = "rapl"
_VENDORS = {
    "nvidia": re.compile("NVIDIA|GeForce|Tesla|Quadro", re.I),
    "amd": re.compile("AMD|gfx|Radeon", re.I),
    "intel": re.compile("Intel"),
}
_NO_GPU = re.compile("cpu|pthread|Xeon|EPYC|Ryzen|Core\\(TM\\)", re.I)
_NUMBERED = re.compile(r"(.*) \[(\d+)\]")
_LATEST = (1 << 62) - 1
_MOST, _MOST_WATTS = 1e11, 1e5
"""More energy and power than any device has: larger values are damaged."""


@dataclass(frozen=True, slots=True)
class Read:
    """A device that telemetry has read, by its names there."""

    source: str
    device: str
    identity: str


@dataclass(frozen=True, slots=True)
class Looks:
    """The readings of one device."""

    source: str
    device: str
    identity: str
    time_ns: Ints
    """At least two, increasing."""
    energy: Ints
    """Energy taken since the first reading, in µJ: begins with 0 and never falls."""
    counted: bool
    """True if the device counted it itself; false for power times time."""


def measured(profile: Tables, *sources: str) -> bool:
    """True if there are values of energy or power."""
    try:
        series = _series(profile, sources)
        return not series.is_empty() and not series.lazy().join(profile.scan("telemetry"), on="series", how="semi").collect().is_empty()
    except AiflameError:
        return False  # building the tree reports the error


def unreadable(profile: Tables, source: str) -> bool:
    """True if there are counters that could not be read."""
    return not _series(profile, (source,)).is_empty() and not measured(profile, source)


def looks(profile: Tables, *sources: str) -> list[Looks]:
    """The readings of each device of these sources. RAPL's parts of a package are included in it (cores) or counted beside it (memory)."""
    series = _series(profile, sources)
    if series.is_empty():
        return []
    devices = []
    sound = pl.col("value").is_finite() & (pl.col("value").abs() < _MOST) & (pl.col("time_ns") < _LATEST)
    values = profile.scan("telemetry").filter(pl.col("series").is_in(series["series"].to_list()) & sound).collect()
    for (source, device, identity), rows in series.group_by("source", "device", "identity", maintain_order=True):
        by_name = dict(rows.select("name", "series").rows())
        for name in ("energy", "power"):
            here = values.filter(pl.col("series") == by_name.get(name, -1)).unique("time_ns", keep="last").sort("time_ns")
            if len(here) > 1:
                time_ns = here["time_ns"].cast(pl.Int64).to_numpy()
                convert = _counted if name == "energy" else _timed
                devices.append(
                    Looks(str(source), str(device), str(identity), *convert(time_ns, here["value"].to_numpy()), name == "energy")
                )
                break
    return devices


def _series(profile: Tables, sources: tuple[str, ...]) -> pl.DataFrame:
    """series, source, device, name, identity"""
    if not profile.has("telemetry_series") or not profile.has("telemetry"):
        return pl.DataFrame(schema={"series": pl.UInt32, **dict.fromkeys(("source", "device", "name", "identity"), pl.String)})
    series = profile.table("telemetry_series").filter(pl.col("source").is_in(sources), pl.col("name").is_in(["energy", "power"]))
    # A package includes its cores, but not its memory.
    return series.filter((pl.col("source") != CPUS) | pl.col("device").str.contains(r"(^|: )package[^ ]*( dram)?$|(^|: )dram$"))


def _counted(time_ns: Ints, joules: NDArray[np.float64]) -> tuple[Ints, Ints]:
    grown = np.rint(np.maximum(np.diff(joules), 0) * 1e6).astype(np.int64)  # after a reset, a counter goes on from there
    energy = np.concatenate([[0], np.cumsum(grown)])
    kept = np.concatenate([[True], grown > 0])
    time_ns, energy, last = time_ns[kept], energy[kept], time_ns[-1]
    if len(time_ns) == 1:
        return np.array([time_ns[0], last]), np.array([0, 0])
    time_ns[-1] = last  # energy after the counter's last update is not recorded
    return time_ns, energy


def _timed(time_ns: Ints, watts: NDArray[np.float64]) -> tuple[Ints, Ints]:
    watts = np.clip(watts, 0, _MOST_WATTS)
    energy = (watts[1:] + watts[:-1]) / 2 * np.diff(time_ns) * 1e-3
    return time_ns, np.concatenate([[0], np.rint(np.cumsum(np.maximum(energy, 0)))]).astype(np.int64)


def read_devices(profile: Tables, *sources: str) -> list[Read]:
    """Every device of which these sources have a series."""
    if not profile.has("telemetry_series"):
        return []
    series = profile.table("telemetry_series").filter(pl.col("source").is_in(sources))
    return [Read(*row) for row in series.select("source", "device", "identity").unique(maintain_order=True).rows()]


def places(profile: Tables, devices: Sequence[Looks | Read], sites: pl.DataFrame) -> Ints:
    """The row in `devices` of each of these sites (process, device); -1: it was not read.

    Devices are identified by their address, since runtimes number only the devices that a program may see, and Linux numbers its cards
    otherwise; without addresses NVIDIA's by name and number, and another vendor's only if it is the vendor's only one."""
    address = {}
    if profile.has("gpu_devices"):
        address = {
            (process, device): pci for process, device, pci in profile.table("gpu_devices").select("process", "device", "address").rows()
        }
    used = sites.select("process", "device").unique(maintain_order=True)
    rows = [_place(devices, device, address.get((process, device), "")) for process, device in used.rows()]
    numbered = used.with_columns(row=pl.Series(rows, dtype=pl.Int64))
    placed = sites.select("process", "device").join(numbered, on=["process", "device"], how="left", maintain_order="left")
    return placed["row"].to_numpy().astype(np.int64)


def _place(devices: Sequence[Looks | Read], device: str, address: str) -> int:
    if address:
        # In a profile of several hosts, their names stand in front of those of devices.
        at = [row for row, one in enumerate(devices) if same_address(one.identity, address) and host_of(one.device) == host_of(device)]
        if at:
            return at[0]
        if any(one.identity and (one.source == "nvidia" or _VENDORS[one.source].search(device)) for one in devices):
            return -1
    numbered = _NUMBERED.fullmatch(device)
    exact = [row for row, one in enumerate(devices) if one.device == device]
    vendor = [row for row, one in enumerate(devices) if _VENDORS[one.source].search(device) and not _NO_GPU.search(device)]
    if len(exact) == 1:
        return exact[0]
    return vendor[0] if len(vendor) == 1 and (not numbered or numbered[2] == "0") else -1

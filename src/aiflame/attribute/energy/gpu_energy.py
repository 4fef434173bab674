"""Divides a device's energy over its kernels and copies.

Two readings of a device give the energy between them. If no recorded execution ran in between, all of it is idle energy; otherwise idle
energy is the device's idle power times the idle part of that time. The remainder is divided over the executions in proportion to their time
between the readings. Values are whole µJ; those of a device add up to its energy from the first reading to the last.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.apportion import scaled
from aiflame.attribute.arrays.runs import sum_until, union
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.work import Work
from aiflame.attribute.energy.power import GPUS, Looks, looks, places
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

IDLE_ENERGY = "[GPU idle energy]"


@dataclass(frozen=True, slots=True)
class Energy:
    sites: Ints
    """The energy of each row of `Work.sites`, in µJ."""
    idle: pl.DataFrame
    """process, device, value (µJ): idle energy of each device that has readings and work"""
    counted: bool
    """True if the devices measured all of it; false if a part is power times time."""
    ran_ns: int
    """Total GPU time, and the part of it for which no energy was measured."""
    unknown_ns: int

    @property
    def label(self) -> str:
        """A suffix for the metric's label, after a comma: how energy was measured, and the part that was not."""
        source = "" if self.counted else ", from power and time"
        part = self.unknown_ns / max(self.ran_ns, 1)
        return f"{source}, without {'<0.1' if part < 0.001 else f'{100 * part:.1f}'}% of GPU time that was not measured" if part else source


def energy(profile: Tables, work: Work) -> Energy:
    devices = looks(profile, *GPUS)
    site = work.executions["site"].to_numpy().astype(np.int64)
    start, end = (work.executions[name].cast(pl.Int64, strict=False).fill_null(0).to_numpy() for name in ("start_ns", "end_ns"))
    of_site = places(profile, devices, work.sites)
    by_site, idle = np.zeros(len(work.sites), dtype=np.int64), []
    took = int((end - start).sum())
    measured_ns = 0
    for row, one in enumerate(devices):
        mine = np.flatnonzero((of_site[site] == row) & (end > start))
        if not len(mine):
            continue
        shared = share_out(one, start[mine], end[mine], site[mine], len(work.sites))
        by_site += shared.sites
        measured_ns += shared.known_ns
        idle.append(_of_processes(work.sites, of_site == row, shared.idle, one.device))
    schema = {"process": pl.UInt32(), "device": pl.String(), "value": pl.Int64()}
    rows = pl.concat(idle) if idle else pl.DataFrame(schema=schema)
    return Energy(by_site, rows, all(devices[row].counted for row in set(of_site.tolist()) - {-1}), took, took - measured_ns)


@dataclass(frozen=True, slots=True)
class Shared:
    sites: Ints
    idle: int
    """µJ"""
    known_ns: int
    """Execution time between readings, for which energy was measured."""


def share_out(device: Looks, start: Ints, end: Ints, site: Ints, sites: int) -> Shared:
    """The energy of one device, divided over its executions."""
    origin = device.time_ns[0]
    edge = device.time_ns - origin
    start, end = start - origin, end - origin
    length, energy = np.diff(edge), np.diff(device.energy)
    run_ns = np.diff(sum_until(edge, start, end))
    busy = np.diff(sum_until(edge, *union(start, end)))
    power = _idle_power(length, energy, busy)
    resting = np.minimum(energy, np.rint(power * (length - busy)).astype(np.int64))
    idle = np.where(busy == 0, energy, resting)
    working = energy - idle
    # Between two readings all executions take the same energy in a nanosecond: an execution's energy is the increase of `reached` while it
    # ran.
    reached = np.concatenate([[0.0], np.cumsum(np.divide(working * length, run_ns, out=np.zeros(len(run_ns)), where=run_ns > 0))])
    each = np.interp(end, edge, reached) - np.interp(start, edge, reached)
    of_sites = np.bincount(site, each, sites)
    whole = int(working.sum())
    shares = np.rint(of_sites * 1e3).astype(np.int64)
    return Shared(scaled(np.zeros(sites, dtype=np.int64), shares, np.array([whole])), int(idle.sum()), int(run_ns.sum()))


def _idle_power(length: Ints, energy: Ints, busy: Ints) -> float:
    """A device's power without work, in µJ a ns: the median over idle time between its first work and its last, otherwise over all idle
    time. 0 if it always had work: then all energy belongs to executions."""
    free = np.flatnonzero((busy == 0) & (length > 0))
    if not len(free):
        return 0.0
    worked = np.flatnonzero(busy > 0)
    between = free[(free > worked[0]) & (free < worked[-1])] if len(worked) else free
    chosen = between if len(between) else free
    power = energy[chosen] / length[chosen]
    order = np.argsort(power, kind="stable")
    upto = np.cumsum(length[chosen][order])
    return float(power[order][np.searchsorted(upto, upto[-1] / 2)])


def _of_processes(sites: pl.DataFrame, here: NDArray[np.bool_], value: int, device: str) -> pl.DataFrame:
    """Divides a device's idle energy over the processes that used it, in proportion to the time of their work."""
    named = sites.filter(pl.Series(here)).group_by("process").agg(pl.col("took").sum(), pl.col("device").first()).sort("process")
    parts = scaled(np.zeros(len(named), dtype=np.int64), named["took"].to_numpy(), np.array([value]))
    return named.select("process", "device", value=pl.Series(parts, dtype=pl.Int64))

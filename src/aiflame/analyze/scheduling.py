"""The kernel's accounts of the recorded processes: threads with and without a CPU, page faults, quota."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.addresses import host_of
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.events import LATEST
from aiflame.values import dataclass

Floats = NDArray[np.float64]
_Values = tuple[Ints, Floats]
"""Moments, and the values read at them."""
PAGE = 4096
MOST_PARTS = 100_000
"""The most parts: in a recording of more than half a day, parts are longer."""
PART_NS = 500_000_000
"""Values of several processes, which are read at different moments, are means over parts of this length."""

LEAST_LOOKS = 20
OWN = 0.5
"""A share of the CPUs: if the program itself uses this much while its threads want a CPU, they wait for one another; if less, other
programs have the CPUs."""
CROWDED = 0.3
"""A share of the time in which a thread could run. Beside four busy programs on two processors a server's shares were up to 7 points off,
with a processor of its own at most 1.5 (benchmarks/cpu/own_clock.py)."""
USUALLY = 0.9
"""A quantile over time."""
SHORT_TURN_S = 0.002
"""Half of a tick with HZ=250. Turns of 5 to 25 ms were sampled correctly; those of threads that only compute end with a tick."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Sums over the recorded processes, for each part of the time."""

    running: Floats
    """The mean number of threads that ran."""
    ready: Floats
    """The mean number of threads that were ready to run, but had no CPU."""
    faults: Floats
    """Page faults a second."""
    from_disk: Floats
    """Page faults a second that had to wait for a disk."""
    kernel: Floats
    """The mean number of threads that ran in the kernel."""
    turns: Floats
    """How often a thread was given a CPU, per second."""
    seconds: float
    """From the first reading to the last."""
    resident: float
    """The most pages of memory that they had."""
    cpus: float
    """The CPUs that the processes may use, by affinity and quota; those of several hosts added up."""
    looks: int
    """The number of readings of the process that was read most often."""


@dataclass(frozen=True, slots=True)
class Quota:
    cpus: float
    used: float
    """The mean number of CPUs used; NaN if unknown."""
    held_up: float
    """The number of CPUs that the quota kept it from using."""
    looks: int


_OF_PROCESSES = {
    "running threads": "running",
    "threads without a CPU": "ready",
    "page faults": "faults",
    "page faults from disk": "from_disk",
    "time in the kernel": "kernel",
    "turns on a CPU": "turns",
}
_CPUS, _RESIDENT = "usable CPUs", "resident memory"


@once
def scheduling(profile: Analysis) -> Scheduling | None:
    """None if the kernel's accounts were not recorded."""
    by_process: dict[str, dict[str, _Values]] = {}
    for (device, name), values in _series(profile, "process", (*_OF_PROCESSES, _CPUS, _RESIDENT)).items():
        by_process.setdefault(device, {})[name] = values
    by_process = {device: of for device, of in by_process.items() if _CPUS in of and len(of[_CPUS][0]) > 1}
    processes = list(by_process.values())
    if not processes:
        return None
    looks = [of[_CPUS][0] for of in processes]
    begin, end = min(int(one[0]) for one in looks), max(int(one[-1]) for one in looks)
    if end <= begin:  # damaged
        return None
    edges = np.linspace(begin, end, min(max((end - begin) // PART_NS, 1), MOST_PARTS) + 1)
    sums = {field: np.zeros(len(edges) - 1) for field in _OF_PROCESSES.values()}
    for of in processes:
        for name, field in _OF_PROCESSES.items():
            sums[field] += _means(edges, of[_CPUS][0], of.get(name))
    hosts: dict[str, list[dict[str, _Values]]] = {}
    for device, of in by_process.items():
        hosts.setdefault(host_of(device), []).append(of)
    cpus, limit = sum(_usable(edges, of_host) for of_host in hosts.values()), quota(profile)
    if limit is not None:
        cpus = min(cpus, max(math.ceil(limit.cpus), 1))
    sums["kernel"] /= 100
    resident = sum(float(of[_RESIDENT][1].max()) for of in processes if _RESIDENT in of) / PAGE
    return Scheduling(**sums, seconds=(end - begin) / 1e9, resident=resident, cpus=cpus, looks=max(map(len, looks)))


def _usable(edges: Floats, processes: Sequence[Mapping[str, _Values]]) -> float:
    """The CPUs that processes of one host may use. Each has its own number of them: where all together ran on more, as ranks that are bound
    to CPUs do, they do not share the same ones."""
    running = sum((_means(edges, of[_CPUS][0], of.get("running threads")) for of in processes), np.zeros(len(edges) - 1))
    return max(*(float(of[_CPUS][1].max()) for of in processes), float(round(np.quantile(running, USUALLY))))


@once
def quota(profile: Analysis) -> Quota | None:
    """None if there is no quota."""
    series = _series(profile, "cgroup", ("limit", "used", "held up"))
    if ("", "limit") not in series or ("", "held up") not in series:
        return None
    moments, limits = series["", "limit"]
    whole = np.array([moments[0], max(moments[-1], moments[0] + 1)], dtype=np.float64)
    used, held = (
        float(_means(whole, moments, series[key])[0]) if (key := ("", name)) in series else np.nan for name in ("used", "held up")
    )
    return Quota(float(limits.max()), used, held, len(moments))


def others_have_cpus(profile: Analysis) -> bool:
    """True if threads were ready to run for a good part of their time, while the program itself used less than half of the CPUs."""
    seen = scheduling(profile)
    if seen is None or seen.looks < LEAST_LOOKS:
        return False
    running, ready = float(seen.running.mean()), float(seen.ready.mean())
    return ready >= CROWDED * (running + ready) and running < OWN * seen.cpus


def ready_share(profile: Analysis) -> float:
    """The part of the time in which a thread was ready to run and had no CPU, in a program that seldom runs more than one thread."""
    seen = scheduling(profile)
    return min(float(seen.ready.mean()), 1.0) if seen is not None else 0.0


def uneven_samples(profile: Analysis) -> str:
    """A note on shares of CPU time for a program that ran in short turns while other programs had the CPUs; "" if the shares are right.

    The kernel checks timers of CPU time when its clock ticks, and that is also when it moves a CPU from one program to another: if turns
    are shorter than a tick, samples hit some parts of them more often than others.
    """
    seen = scheduling(profile)
    if seen is None or seen.looks < LEAST_LOOKS or not seen.turns.any():
        return ""
    running, ready = float(seen.running.mean()), float(seen.ready.mean())
    turn_s = running / float(seen.turns.mean())
    if ready < CROWDED * (running + ready) or turn_s > SHORT_TURN_S:
        return ""
    waited = ready / (running + ready)
    return (
        f"The program ran for {turn_s * 1000:.1f} ms at a time, and was ready for a CPU that others had for {waited:.0%} of its time:"
        " samples are taken at the kernel's clock ticks, so shares of CPU time may be several points off;"
        " record while the machine is less busy"
    )


@once
def memory_pressure(profile: Analysis) -> float:
    """The part of the time in which some program on the machine waited for memory; 0 if unknown."""
    moments, values = _series(profile, "pressure", ("some waited",)).get(("memory", "some waited"), (np.zeros(0), np.zeros(0)))
    lasted = np.diff(moments)
    return float((values[:-1] * lasted).sum() / lasted.sum()) / 100 if lasted.sum() > 0 else 0.0


def by_series(profile: Analysis) -> pl.DataFrame:
    """device, name, unit, mean, most: the kernel's accounts of processes and of their control group."""
    if not profile.has("telemetry_series") or not profile.has("telemetry"):
        return pl.DataFrame()
    series = profile.table("telemetry_series").filter(pl.col("source").is_in(["process", "cgroup"]))
    values = profile.scan("telemetry").filter(pl.col("value").is_finite()).join(series.lazy(), on="series")
    sums = values.group_by("device", "name", "unit").agg(mean=pl.col("value").mean(), most=pl.col("value").max())
    return sums.sort("name", "mean", "device", descending=[False, True, False]).collect()


def _series(profile: Analysis, source: str, names: tuple[str, ...]) -> Mapping[tuple[str, str], _Values]:
    """(device, name) → times and values."""
    if not profile.has("telemetry_series") or not profile.has("telemetry"):
        return {}
    wanted = profile.table("telemetry_series").filter(pl.col("source") == source, pl.col("name").is_in(names))
    here = pl.col("series").is_in(wanted["series"].to_list()) & pl.col("value").is_finite() & (pl.col("time_ns") < LATEST)
    values = profile.scan("telemetry").filter(here).collect().sort("time_ns").partition_by("series", as_dict=True)
    named = {(device, name): values.get((series,)) for device, name, series in wanted.select("device", "name", "series").rows()}
    return {key: (rows["time_ns"].cast(pl.Int64).to_numpy(), rows["value"].to_numpy()) for key, rows in named.items() if rows is not None}


def _means(edges: Floats, looks: Ints, rate: _Values | None) -> Floats:
    """The mean of a rate in each part of the time. A value holds until the next reading."""
    if rate is None or len(looks) < 2:
        return np.zeros(len(edges) - 1)
    value = np.zeros(len(looks))
    at = np.searchsorted(looks, rate[0])
    inside = at < len(looks)
    value[at[inside]] = rate[1][inside]
    grown = np.concatenate([[0.0], np.cumsum(value[:-1] * np.diff(looks))])
    means: Floats = np.diff(np.interp(edges, looks, grown)) / np.diff(edges)
    return means

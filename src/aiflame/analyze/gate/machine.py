"""The machine of a run, and the differences between two sides' machines: models, clocks, power, temperature, other programs' load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import polars as pl

from aiflame.analyze.gate.sentence import Sentence, listed
from aiflame.attribute.energy.power import GPUS, places, read_devices
from aiflame.profile.folder.meta import Meta
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    facts: Mapping[str, tuple[str, ...]]
    """Models and versions, by their labels; a missing one is unknown."""
    readings: Mapping[str, float]
    """Quantiles of telemetry by the labels of READINGS; taken while kernels ran, if any did, of GPUs on which they ran."""


@dataclass(frozen=True, slots=True)
class Reading:
    label: str
    unit: str
    sources: tuple[str, ...]
    names: tuple[str, ...]
    """Names of telemetry series."""
    share: float = 0.0
    """The smallest relative difference that is reported …"""
    least: float = 0.0
    """… and the smallest absolute difference, in its unit."""
    quantile: float = 0.5
    fastest: bool = False
    """Takes the highest value of all devices at each moment: idle cores run slowly."""


_GPUS, _CPUS = GPUS, ("cpu",)
READINGS = (
    Reading("GPU clock", "MHz", _GPUS, ("SM clock", "frequency"), share=0.03),
    Reading("GPU clock in the slowest tenth of the time", "MHz", _GPUS, ("SM clock", "frequency"), share=0.1, quantile=0.1),
    Reading("GPU memory clock", "MHz", _GPUS, ("memory clock",), share=0.03),
    Reading("GPU power", "W", _GPUS, ("power",), share=0.1),
    Reading("GPU temperature", "°C", _GPUS, ("temperature",), least=10),
    Reading("CPU clock", "MHz", _CPUS, ("frequency",), share=0.05, fastest=True),
    Reading("CPU temperature", "°C", _CPUS, ("temperature",), least=10, fastest=True),
    Reading("time that some task waited for a CPU", "%", ("pressure",), ("some waited",), least=5),
)


def machine_of(profile: Tables, meta: Meta) -> Machine:
    devices = profile.table("kernel_shapes")["device"].to_list() if profile.has("kernel_shapes") else []
    python = [f"{version >> 8}.{version & 0xFF}" for version in profile.table("processes")["python"].to_list() if version]
    facts = {
        "CPU": (meta.host.cpu,),
        "cores": (str(meta.host.cores),) if meta.host.cores else (),
        "GPU": tuple(sorted({re.sub(r" \[\d+\]$", "", device) for device in devices})),
        "host": (meta.host.name,),
        "Linux": (meta.host.kernel,),
        "Python": tuple(sorted(set(python))),
        "aiflame": (meta.version,),
    }
    return Machine({label: texts for label, texts in facts.items() if any(texts)}, dict(_readings(profile)))


def _readings(profile: Tables) -> Iterator[tuple[str, float]]:
    if not profile.has("telemetry_series") or not profile.has("telemetry"):
        return
    series = profile.table("telemetry_series").filter(~_of_other_gpus(profile)).select("series", "source", "device", "name")
    readings = profile.table("telemetry").join(series, on="series")
    if profile.has("kernels"):
        begin, end = profile.scan("kernels").select(begin=pl.col("start_ns").min(), end=pl.col("end_ns").max()).collect().row(0)
        meanwhile = readings.filter(pl.col("time_ns").is_between(begin, end) | ~pl.col("source").is_in(list(_GPUS)))
    else:
        meanwhile = readings
    for reading in READINGS:
        chosen = pl.col("source").is_in(list(reading.sources)) & pl.col("name").is_in(list(reading.names))
        if reading.sources == ("pressure",):
            chosen &= pl.col("device") == "cpu"
        rows = meanwhile.filter(chosen & pl.col("value").is_finite())
        if reading.fastest:
            rows = rows.group_by("time_ns").agg(pl.col("value").max())
        if rows.height:
            yield reading.label, float(rows["value"].quantile(reading.quantile, "linear") or 0.0)


def _of_other_gpus(profile: Tables) -> pl.Expr:
    """Series of GPUs on which nothing of the program ran, if it is known on which it ran."""
    read = read_devices(profile, *_GPUS)
    used = profile.table("kernel_shapes").select("process", "device").unique() if profile.has("kernel_shapes") else pl.DataFrame()
    places_read = {read[row].device for row in places(profile, read, used).tolist() if row >= 0} if len(used) else set()
    others = {one.device for one in read} - places_read if places_read else set()
    return pl.col("source").is_in(list(_GPUS)) & pl.col("device").is_in(list(others))


def differences(base: Sequence[Machine], new: Sequence[Machine]) -> list[Sentence]:
    """A line for each fact or reading that differs between the two sides."""
    lines: list[Sentence] = []
    labels = list(dict.fromkeys(label for machine in (*base, *new) for label in machine.facts))
    for label in labels:
        before, after = (sorted({text for machine in side for text in machine.facts.get(label, ())}) for side in (base, new))
        if before and after and before != after:
            lines.append((f"{label}: ", *listed(before), " before, ", *listed(after), " now"))
    for reading in READINGS:
        sides = [[machine.readings[reading.label] for machine in side if reading.label in machine.readings] for side in (base, new)]
        if all(sides):
            was, now = map(median, sides)
            if abs(now - was) > max(reading.share * abs(was), reading.least):
                times = f" ({100 * (now - was) / was:+.0f}%)".replace("-", "−") if reading.share and was else ""
                lines.append((f"{reading.label}: {was:,.0f} {reading.unit} before, {now:,.0f} {reading.unit} now{times}",))
    return lines


def alike(base: Sequence[Machine], new: Sequence[Machine]) -> list[Sentence]:
    """The models that all runs share, and their clocks."""
    lines: list[Sentence] = []
    for label in ("CPU", "GPU"):
        texts = {machine.facts.get(label, ()) for machine in (*base, *new)}
        if len(texts) == 1 and (only := next(iter(texts))):
            lines.append((f"{label}: ", *listed(only), " on both sides"))
    for label in ("GPU clock", "CPU clock"):
        clocks = [machine.readings[label] for machine in (*base, *new) if label in machine.readings]
        lines += [(f"{label}: {_span(clocks)} MHz in all runs",)] if clocks else []
    return lines


def _span(values: Sequence[float]) -> str:
    least, most = f"{min(values):,.0f}", f"{max(values):,.0f}"
    return least if least == most else f"{least} to {most}"


def unequal_models(base: Sequence[Machine], new: Sequence[Machine]) -> Sentence:
    """One sentence if CPUs or GPUs differ between the sides, () if they are equal or unknown."""
    unequal = []
    for label in ("CPU", "GPU"):
        before, after = ({machine.facts[label] for machine in side if label in machine.facts} for side in (base, new))
        if before and after and before != after:
            unequal.append(label)
    return (f"The two sides ran on different models of {' and '.join(unequal)}: times are not comparable.",) if unequal else ()

"""Telemetry of made machines, as the tables of a sealed profile."""

from __future__ import annotations

from collections.abc import Callable

from profiles import Row

S = 1_000_000_000
MS = 1_000_000


def told(*series: tuple[str, str, str, str, dict[int, float]], identity: str = "") -> dict[str, list[Row]]:
    """The tables of series: source, device, name, unit, and the readings by time."""
    rows = [
        {"series": number, "source": source, "device": device, "name": name, "unit": unit, "identity": identity}
        for number, (source, device, name, unit, _) in enumerate(series)
    ]
    values = [
        {"series": number, "time_ns": time_ns, "value": float(value)}
        for number, (*_, read) in enumerate(series)
        for time_ns, value in read.items()
    ]
    return {"telemetry_series": rows, "telemetry": values}


def counter(power: Callable[[int], float], until: int, every: int = 50 * MS, begin: int = 0) -> dict[int, float]:
    """Readings (J) of an energy counter of a device that takes `power` (W) at a moment; the power changes only at readings."""
    read, energy = {}, 1234.0
    for time_ns in range(begin, until + 1, every):
        read[time_ns] = energy
        energy += power(time_ns) * every / S
    return read

"""Checks which telemetry a recording can read on this machine: GPUs, the energy of CPUs."""

from __future__ import annotations

from pathlib import Path

from aiflame.recorder.finding import Finding, State
from aiflame.recorder.sources import sources
from aiflame.recorder.sources.nvidia import is_there

_OPEN = "sudo chmod a+r /sys/class/powercap/intel-rapl*/energy_uj"


def telemetry_findings(root: Path = Path("/"), nvml: str = "libnvidia-ml.so.1") -> list[Finding]:
    readable: dict[str, set[str]] = {}
    unreadable: set[str] = set()
    for source in sources(None, root, nvml):
        header = source.begin()
        if header is None:
            continue
        if header.series:
            readable.setdefault(source.name, set()).update(series.name for series in header.series)
        if header.unreadable:
            unreadable.add(source.name)
        source.end()
    names = ", ".join(name for name in readable if name != "process")
    if not names:
        return [Finding("telemetry", State.ABSENT, "nothing of this machine can be read")]
    return [Finding("telemetry", State.WORKS, f"read every 50 ms while recording: {names}"), _energy(root, readable, unreadable)]


def _energy(root: Path, readable: dict[str, set[str]], unreadable: set[str]) -> Finding:
    with_energy = [source for source in ("nvidia", "intel", "amd", "rapl") if readable.get(source, set()) & {"energy", "power"}]
    if with_energy:
        return Finding("energy", State.WORKS, f"{', '.join(with_energy)}: aiflame top --metric energy")
    if "rapl" in unreadable:
        return Finding("energy", State.LIMITED, "only root may read the energy of the CPUs", _OPEN)
    if is_there(root):
        return Finding("energy", State.LIMITED, "NVIDIA's driver is here, but its NVML reports no power", "nvidia-smi -q -d POWER")
    return Finding("energy", State.ABSENT, "this machine does not report its energy or power")

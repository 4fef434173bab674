"""Checks which data of this machine a recording can read beside the program: GPUs, the energy of CPUs."""

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
            readable.setdefault(source.name, set()).update(one.name for one in header.series)
        if header.unreadable:
            unreadable.add(source.name)
        source.end()
    told = ", ".join(name for name in readable if name != "process")
    if not told:
        return [Finding("telemetry", State.ABSENT, "nothing of this machine can be read")]
    return [Finding("telemetry", State.WORKS, f"read every 50 ms while recording: {told}"), _energy(root, readable, unreadable)]


def _energy(root: Path, readable: dict[str, set[str]], unreadable: set[str]) -> Finding:
    found = [source for source in ("nvidia", "intel", "amd", "rapl") if readable.get(source, set()) & {"energy", "power"}]
    if found:
        return Finding("energy", State.WORKS, f"{', '.join(found)}: aiflame top --metric energy")
    if "rapl" in unreadable:
        return Finding("energy", State.LIMITED, "only root may read what the CPUs take", _OPEN)
    if is_there(root):
        return Finding("energy", State.LIMITED, "NVIDIA's driver is here, and its NVML tells no power", "nvidia-smi -q -d POWER")
    return Finding("energy", State.ABSENT, "this machine does not tell what it takes")

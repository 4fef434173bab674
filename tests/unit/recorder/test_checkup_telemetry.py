"""`aiflame doctor` on telemetry and energy, on made-up machines."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_machine import MEMINFO, fake_nvml, write

from aiflame.recorder.checkup_telemetry import telemetry_findings
from aiflame.recorder.finding import State
from aiflame.recorder.sources import base

ZONE = "sys/class/powercap/intel-rapl:0"


def test_a_machine_that_shows_nothing(tmp_path: Path) -> None:
    (finding,) = [one for one in telemetry_findings(tmp_path) if one.subject == "telemetry"]
    assert "process" not in finding.text


def test_a_machine_without_power(tmp_path: Path) -> None:
    telemetry, energy = telemetry_findings(write(tmp_path, {"proc/meminfo": MEMINFO}))
    assert (telemetry.state, energy.state) == (State.WORKS, State.ABSENT)
    assert "memory" in telemetry.text


def test_cpus_with_readable_energy(tmp_path: Path) -> None:
    _, energy = telemetry_findings(write(tmp_path, {"proc/meminfo": MEMINFO, f"{ZONE}/name": "package-0", f"{ZONE}/energy_uj": 7}))
    assert energy.state is State.WORKS
    assert "rapl" in energy.text


def test_cpus_whose_energy_only_root_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"proc/meminfo": MEMINFO, f"{ZONE}/name": "package-0", f"{ZONE}/energy_uj": 7})

    class Refused(base.OpenFile):
        def __init__(self, path: Path, most: int = 0) -> None:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(base, "OpenFile", Refused)
    _, energy = telemetry_findings(tmp_path)
    assert energy.state is State.LIMITED
    assert "energy_uj" in energy.mend


def test_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    write(tmp_path, {"proc/meminfo": MEMINFO, "dev/nvidiactl": "", "dev/nvidia0": ""})
    _, energy = telemetry_findings(tmp_path, fake_nvml(tmp_path / "library"))
    assert energy.state is State.WORKS
    assert "nvidia" in energy.text


def test_a_driver_without_nvml(tmp_path: Path) -> None:
    write(tmp_path, {"proc/meminfo": MEMINFO, "dev/nvidiactl": "", "dev/nvidia0": ""})
    _, energy = telemetry_findings(tmp_path, "libnothing-of-this-name.so")
    assert energy.state is State.LIMITED

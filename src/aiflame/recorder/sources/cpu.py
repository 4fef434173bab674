"""CPU activity: time in user code, in the system, waiting for disks and idle; frequency and temperature."""

from __future__ import annotations

import os
import time
from pathlib import Path

from aiflame.profile.folder.telemetry_files import Header, Series
from aiflame.recorder.sources.base import Look, OpenFile, SysfsValue, natural, text

_STATES = ("user", "system", "iowait", "idle")
_PACKAGES = ("coretemp", "k10temp", "zenpower")
"""Drivers of the sensors of CPUs."""
_PACKAGE_LABELS = ("Package", "Tctl", "Tdie")


class CpuTimes:
    """/proc/stat: all CPUs together, or each one."""

    name, thread = "cpu", "system"

    def __init__(self, root: Path, cores: bool) -> None:
        self.every = 10 if cores else 2  # a tick is 10 ms: too coarse for intervals of 50 ms, and even more so for a single core
        self._cores, self._path = cores, root / "proc/stat"
        self._file: OpenFile | None = None
        self._names: list[str] = []

    def begin(self) -> Header | None:
        try:
            self._file = OpenFile(self._path, 1 << 18)
        except OSError:
            return None
        lines = self._lines()
        self._names = [line.split(None, 1)[0].decode() for line in lines]
        of_each = 1 if self._cores else max(self._file.read().count(b"\ncpu"), 1)
        scale = 100 / os.sysconf("SC_CLK_TCK") / of_each
        return Header(
            self.name,
            tuple(
                Series(f"core {name.removeprefix('cpu')}" if self._cores else "", state, "%", scale, rate=True, most=100.0)
                for name in self._names
                for state in _STATES
            ),
        )

    def look(self) -> list[Look]:
        now = time.monotonic_ns()
        ticks_of = {}
        for line in self._lines():
            name, *ticks = line.split()
            user, nice, system, idle, iowait, irq, softirq = (float(one) for one in ticks[:7])
            ticks_of[name.decode()] = [user + nice, system + irq + softirq, iowait, idle]
        nothing = [float("nan")] * len(_STATES)
        return [(now, 0, [value for name in self._names for value in ticks_of.get(name, nothing)])]  # a core may have been switched off

    def end(self) -> None:
        if self._file is not None:
            self._file.close()

    def _lines(self) -> list[bytes]:
        assert self._file is not None
        data = self._file.read()
        if not self._cores:
            return [data[: data.find(b"\n")]] if data.startswith(b"cpu ") else []
        return [line for line in data.split(b"\n")[1:] if line.startswith(b"cpu")]


def frequencies(root: Path) -> list[SysfsValue]:
    cores = sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*"), key=natural)
    files = [(core.name.removeprefix("cpu"), core / "cpufreq/scaling_cur_freq") for core in cores]
    return [(Series(f"core {number}", "frequency", "MHz", 1e-3), path) for number, path in files if path.exists()]


def temperatures(root: Path) -> list[SysfsValue]:
    """The temperature of each package, from its sensor's driver."""
    values: list[SysfsValue] = []
    for sensor in sorted((root / "sys/class/hwmon").glob("hwmon*"), key=natural):
        if text(sensor / "name") not in _PACKAGES:
            continue
        for label in sorted(sensor.glob("temp*_label"), key=natural):
            if text(label).startswith(_PACKAGE_LABELS):
                path = label.with_name(label.name.replace("_label", "_input"))
                values.append((Series(text(label), "temperature", "°C", 1e-3), path))
    return values

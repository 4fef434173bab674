"""NVIDIA GPUs, through NVML. It is loaded only if the driver's device nodes exist, and called in its own threads: calls may take long, or
hang if a device has fallen off its bus.

Energy and power are read often, by a source of their own. Other values are read less often, and link traffic in another thread.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.telemetry_files import MEMORY_ON, Header, Series
from aiflame.recorder.numbers import OURS, Numbers
from aiflame.recorder.sources.base import Look
from aiflame.recorder.sources.nvml import LIBRARY, Clock, Device, Field, Nvml
from aiflame.recorder.sources.processes import Recorded

Value = Callable[[], float]
_WRAPS = 2.0**32


def is_there(root: Path) -> bool:
    """True if NVIDIA's driver is loaded; under WSL the node belongs to Windows."""
    return any((root / "dev" / node).exists() for node in ("nvidiactl", "dxg"))


class Shared:
    """NVML, initialized once, by the first thread that needs it."""

    def __init__(self, library: str = LIBRARY) -> None:
        self._library, self._lock = library, Lock()
        self._nvml: Nvml | None = None
        self._devices: list[Device] | None = None

    def device(self, index: int) -> Device | None:
        with self._lock:
            if self._devices is None:
                try:
                    self._nvml = Nvml(self._library)
                    self._devices = self._nvml.devices()
                except (OSError, AttributeError):
                    self._devices = []
        return next((device for device in self._devices if device.index == index), None)


@dataclass(slots=True)
class Nvidia:
    """Some values of one device. NVML is never shut down: the process ends soon, and another thread may hang in it."""

    shared: Shared
    index: int
    asked: Callable[[Device], list[tuple[Series, Value]]]
    every: int
    thread: str
    name: str = "nvidia"
    _values: list[Value] | None = None

    def begin(self) -> Header | None:
        device = self.shared.device(self.index)
        if device is None:
            return None
        answered = [(series, value) for series, value in self.asked(device) if not math.isnan(value())]
        self._values = [value for _, value in answered]
        called = {"device": f"{device.name} [{device.index}]", "identity": f"{device.uuid} {device.pci()}"}
        return Header(self.name, tuple(_called(series, **called) for series, _ in answered)) if answered else None

    def look(self) -> list[Look]:
        before = time.monotonic_ns()
        values = [value() for value in self._values or ()]
        # `before` is the time of the energy counter, which is read first, because reading the other values may take long.
        return [(before, 0, values)]

    def end(self) -> None:
        pass


@dataclass(slots=True)
class ProcessMemory:
    """The memory of one device that each recorded process uses."""

    shared: Shared
    index: int
    recorded: Recorded
    every: int = 20
    name: str = "process"
    thread: str = "nvidia links"
    _device: Device | None = None

    def begin(self) -> Header | None:
        device = self._device = self.shared.device(self.index)
        if device is None or device.processes() is None:
            return None
        identity = f"{device.uuid} {device.pci()}"
        return Header(self.name, (Series("pid {}", f"{MEMORY_ON}{device.name} [{device.index}]", "bytes", identity=identity),), keyed=True)

    def look(self) -> list[Look]:
        pids, before = {self.recorded.here(pid): int(pid) for pid in self.recorded.pids()}, time.monotonic_ns()
        used = self._device.processes() if self._device else None
        return [(before, pids[str(pid)], [size]) for pid, size in (used or {}).items() if str(pid) in pids]

    def end(self) -> None:
        pass


def nvidia_memory(root: Path, spool: Folder | None, library: str = LIBRARY, numbers: Numbers = OURS) -> list[ProcessMemory]:
    """The sources of the memory of processes on all devices. Does not call NVML yet."""
    shared = Shared(library)
    return [ProcessMemory(shared, index, Recorded(spool, numbers)) for index in range(_count(root))]


def nvidia_gpus(root: Path, library: str = LIBRARY) -> list[Nvidia]:
    """The sources of all devices. Does not call NVML yet."""
    shared = Shared(library)
    return [
        Nvidia(shared, index, asked, every, thread)
        for asked, every, thread in ((_power, 1, "nvidia"), (_state, 4, "nvidia"), (_links, 2, "nvidia links"))
        for index in range(_count(root))
    ]


def _count(root: Path) -> int:
    if not is_there(root):
        return 0
    nodes = [node.name.removeprefix("nvidia") for node in (root / "dev").glob("nvidia[0-9]*")]
    return max(sum(node.isdecimal() for node in nodes), 1)


def _called(series: Series, device: str, identity: str) -> Series:
    return Series(device, series.name, series.unit, series.scale, series.rate, series.wraps, series.most, identity)


def _power(device: Device) -> list[tuple[Series, Value]]:
    instant = not math.isnan(device.fields([Field.POWER_INSTANT])[0][0])
    power: Value = (lambda: device.fields([Field.POWER_INSTANT])[0][0]) if instant else device.power
    return [
        (Series("", "energy", "J", 1e-3), device.energy),
        (Series("", "power", "W", 1e-3), power),
        (Series("", "utilization", "%"), lambda: device.utilization()[0]),
    ]


def _state(device: Device) -> list[tuple[Series, Value]]:
    return [
        (Series("", "memory used", "bytes"), device.memory_used),
        (Series("", "memory utilization", "%"), lambda: device.utilization()[1]),
        (Series("", "temperature", "°C"), device.temperature),
        (Series("", "SM clock", "MHz"), partial(device.clock, Clock.SM)),
        (Series("", "memory clock", "MHz"), partial(device.clock, Clock.MEMORY)),
    ]


def _links(device: Device) -> list[tuple[Series, Value]]:
    def counted(name: str, field: Field, scale: float) -> tuple[Series, Value]:
        _, wraps = device.fields([field])[0]
        series = Series("", name, "bytes/s", scale, rate=True, wraps=_WRAPS if wraps else 0.0)
        return series, lambda: device.fields([field])[0][0]

    return [
        counted("PCIe sent", Field.PCIE_SENT, 1.0),
        counted("PCIe received", Field.PCIE_RECEIVED, 1.0),
        counted("NVLink sent", Field.NVLINK_SENT, 1024.0),
        counted("NVLink received", Field.NVLINK_RECEIVED, 1024.0),
    ]

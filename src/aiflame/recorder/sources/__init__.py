"""Sources of telemetry, a file each. A new source is one file, and one row here.

`root` is the folder with /proc, /sys and /dev: tests use folders of their own.
"""

from __future__ import annotations

from pathlib import Path

from aiflame.profile.folder.door import Folder
from aiflame.recorder.numbers import OURS, Numbers
from aiflame.recorder.sources import cpu, vendors
from aiflame.recorder.sources.base import Source, SysfsSource
from aiflame.recorder.sources.memory import Memory
from aiflame.recorder.sources.nvidia import nvidia_gpus, nvidia_memory
from aiflame.recorder.sources.nvml import LIBRARY
from aiflame.recorder.sources.processes import Processes, Scheduling
from aiflame.recorder.sources.quota import Quota
from aiflame.recorder.sources.system import Disks, Networks, Pressure

SLOW = 20
"""Number of intervals between readings of values that change slowly."""


def sources(
    spool: Folder | None, root: Path = Path("/"), nvml: str = LIBRARY, gpu_memory: bool = False, numbers: Numbers = OURS
) -> list[Source]:
    """`spool`: its folders are named after the recorded processes, by these numbers; None: there are none yet. `gpu_memory`: with the
    memory of each process on each GPU."""
    return [
        cpu.CpuTimes(root, cores=False),
        cpu.CpuTimes(root, cores=True),
        Memory(root),
        Processes(root, spool, numbers),
        Scheduling(root, spool, numbers),
        Quota(root),
        Disks(root),
        Networks(root),
        Pressure(root),
        SysfsSource("cpu", cpu.frequencies(root), SLOW),
        SysfsSource("cpu", cpu.temperatures(root), SLOW),
        SysfsSource("rapl", vendors.rapl(root), thread="system"),
        SysfsSource("intel", vendors.intel_gpus(root), 2, thread="intel"),
        SysfsSource("amd", vendors.amd_gpus(root), 2, thread="amd"),
        SysfsSource("infiniband", vendors.infiniband(root), 2),
        SysfsSource("cxi", vendors.slingshot(root), 4),
        *nvidia_gpus(root, nvml),
        *(nvidia_memory(root, spool, nvml, numbers) if gpu_memory else ()),
    ]

"""The GPUs of this machine, their drivers and the vendors' libraries, from files of the system alone."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

_VENDORS = {0x10DE: "NVIDIA", 0x8086: "Intel", 0x1002: "AMD"}
_LIBRARIES = re.compile(
    r"lib(?:cuda|cupti|nvidia-ml|ze_loader|ze_intel_gpu|ze_tracing_layer|igc|igdrcl|amdhip64|hsa-runtime64|rocprofiler-sdk|OpenCL)\.so[.\d]*"
)
_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/lib", "/opt/rocm/lib", "/usr/local/cuda/lib64")
_MODULES = ("nvidia", "xe", "i915", "amdgpu")


def system() -> dict[str, str | int]:
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "cpu": _cpu(),
        "cores": os.cpu_count() or 0,
    }


def gpus(devices: Path = Path("/sys/bus/pci/devices")) -> list[dict[str, str]]:
    """Display and accelerator devices on the PCI bus: vendor, the ids that name the model, and the driver that has it."""
    return [gpu for entry in _entries(devices) if (gpu := _gpu(entry))]


def drivers(modules: Path = Path("/sys/module")) -> dict[str, str]:
    """The GPU drivers in the kernel, each with its version; "" if it has the kernel's."""
    return {name: _read(modules / name / "version") for name in _MODULES if (modules / name).is_dir()}


def libraries() -> list[str]:
    """Names of the vendors' libraries, whose ends are their versions."""
    entries = (entry for folder in _FOLDERS for entry in _entries(Path(folder)))
    return sorted({path.name for entry in entries if _LIBRARIES.fullmatch(entry.name) for path in (entry, entry.resolve())})


def _gpu(device: Path) -> dict[str, str] | None:
    try:
        kind, vendor = int(_read(device / "class"), 16) >> 16, int(_read(device / "vendor"), 16)
    except ValueError:
        return None
    if kind not in (0x03, 0x12) or vendor not in _VENDORS:
        return None
    driver = device / "driver"
    ids = f"{_read(device / 'vendor')}:{_read(device / 'device')} revision {_read(device / 'revision')}"
    return {"vendor": _VENDORS[vendor], "ids": ids, "driver": driver.resolve().name if driver.exists() else ""}


def _cpu() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return ""


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.iterdir())
    except OSError:
        return


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""

"""Checks of CUDA on this machine: driver, CUPTI, permission to sample, disassembler. They only look at files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aiflame.recorder.finding import Finding, State

VARIABLE = "CUDA_INJECTION64_PATH"

_OLDEST_DRIVER = 525
"""The first driver of CUDA 12.0."""
_DRIVER_OF_CUDA_13 = 580
_PERFMON_DRIVER = 565
"""From this version on the driver accepts CAP_PERFMON instead of CAP_SYS_ADMIN."""
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
_OLDEST_CUPTI = 18
_CUPTI_OF_CUDA_13 = 130000
_CUPTI_VERSIONS = {18: "12.0", 19: "12.1", 20: "12.2", 21: "12.3", 22: "12.4", 23: "12.5", 24: "12.6", 26: "12.8", 27: "12.9", 28: "12.9"}
"""CUPTI_API_VERSION → CUDA; since 13.0 the number contains the version. 12.0's cupti_version.h lists 19, but defines 18."""
_CUPTI_FILES = ("libcupti.so.13", "libcupti.so.12")
_SYSTEM_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "lib64", "usr/local/nvidia/lib64", "usr/lib/wsl/lib")
_WITH_GPUS = "docker run --gpus all …"


def cupti_version(library: Path) -> int:
    """CUPTI_API_VERSION of a library, 0 if it cannot be loaded. Loads it in a separate process: foreign code may crash."""
    code = "import ctypes, sys; n = ctypes.c_uint32(); ctypes.CDLL(sys.argv[1]).cuptiGetVersion(ctypes.byref(n)); print(n.value)"
    try:
        child = subprocess.run([sys.executable, "-c", code, str(library)], capture_output=True, text=True, check=True, timeout=20)
        return int(child.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0


@dataclass(frozen=True, slots=True)
class Machine:
    """The paths and variables that the checks read; tests pass a directory tree of their own."""

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    packages: tuple[Path, ...] = field(default_factory=lambda: tuple(Path(folder) for folder in sys.path if folder))
    """Folders of Python packages."""
    agent: str = ""
    """The path of our agent library, as CUDA_INJECTION64_PATH would have it."""
    version_of: Callable[[Path], int] = cupti_version

    def text(self, path: str) -> str:
        try:
            return (self.root / path).read_text(errors="replace")
        except OSError:
            return ""


def cuda_findings(machine: Machine) -> list[Finding]:
    """A single finding if there is no NVIDIA GPU; otherwise one for each thing that recording CUDA needs, the most important first."""
    if not (present := _present(machine)):
        return [Finding("NVIDIA GPU", State.ABSENT, "none on this machine")]
    if present is not _HAS_DRIVER:
        return [present]
    driver = _driver_version(machine)
    return [_driver(machine, driver), _cupti(machine, driver), _samples(machine, driver), _disassembler(machine), _injection(machine)]


_HAS_DRIVER = Finding("NVIDIA GPU", State.WORKS, "")


def _present(machine: Machine) -> Finding | None:
    """`_HAS_DRIVER` if the driver is loaded, None without a GPU; a finding if there is a GPU but no driver."""
    root = machine.root
    if (root / "proc/driver/nvidia/version").exists() or (root / "usr/lib/wsl/lib/libcuda.so.1").exists():
        return _HAS_DRIVER
    if not any(_is_gpu(folder) for folder in sorted(root.glob("sys/bus/pci/devices/*"))):
        return None
    if _in_container(machine):
        return Finding("NVIDIA GPU", State.LIMITED, "the machine has one, this container was not given it", _WITH_GPUS)
    return Finding("NVIDIA GPU", State.LIMITED, "no driver is loaded", "sudo modprobe nvidia (or install NVIDIA's driver)")


def _is_gpu(device: Path) -> bool:
    try:
        vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text().strip()
    except OSError:
        return False
    return vendor == "0x10de" and kind.startswith("0x03")  # a display controller, 3D ones included


def _driver_version(machine: Machine) -> tuple[int, ...]:
    """() if the version is not shown, as in WSL."""
    # NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build …
    match = re.search(r"\b(\d{3,4}(?:\.\d+)+)\b", machine.text("proc/driver/nvidia/version"))
    return tuple(map(int, match[1].split("."))) if match else ()


def _driver(machine: Machine, version: tuple[int, ...]) -> Finding:
    name = f"driver {_dotted(version)}" if version else "driver of unknown version"
    if models := _models(machine):
        name = f"{', '.join(models)}, {name}"
    if version and version[0] < _OLDEST_DRIVER:
        text = f"{name}: CUDA 12.0 needs {_OLDEST_DRIVER} or newer; GPU kernels are not recorded"
        return Finding("NVIDIA GPU", State.LIMITED, text, f"sudo apt-get install nvidia-driver-{_DRIVER_OF_CUDA_13}")
    if not _libcuda(machine):
        mend = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …" if _in_container(machine) else "sudo ldconfig"
        return Finding("NVIDIA GPU", State.LIMITED, f"{name}: libcuda.so.1 was not found: no program can use CUDA", mend)
    wsl = (machine.root / "dev/dxg").exists()
    if not wsl and not any(machine.root.glob("dev/nvidia[0-9]*")):
        mend = _WITH_GPUS if _in_container(machine) else "nvidia-smi"
        return Finding("NVIDIA GPU", State.LIMITED, f"{name}: there is no device file (/dev/nvidia0)", mend)
    return Finding("NVIDIA GPU", State.WORKS, name)


def _models(machine: Machine) -> list[str]:
    texts = [machine.text(str(file.relative_to(machine.root))) for file in machine.root.glob("proc/driver/nvidia/gpus/*/information")]
    models = sorted(match[1] for text in texts if (match := re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE)))
    return [model if models.count(model) == 1 else f"{models.count(model)} × {model}" for model in dict.fromkeys(models)]


def _libcuda(machine: Machine) -> bool:
    folders = [*(machine.root / folder for folder in _SYSTEM_FOLDERS), machine.root / "usr/local/cuda/compat", *_library_path(machine)]
    if any((folder / "libcuda.so.1").exists() for folder in folders):
        return True
    return "libcuda.so.1" in machine.text("etc/ld.so.cache")


def _cupti(machine: Machine, driver: tuple[int, ...]) -> Finding:
    """Looks for CUPTI where the collector does. (The collector prefers a CUPTI that the program itself has loaded.)"""
    newer = not driver or driver[0] >= _DRIVER_OF_CUDA_13
    wheel = "pip install nvidia-cuda-cupti" if newer else "pip install nvidia-cuda-cupti-cu12"
    library = next((path for path in _cupti_places(machine) if path.is_file()), None)
    if library is None:
        return Finding("CUPTI", State.LIMITED, "not found: GPU kernels are recorded only of programs that bring it along", wheel)
    version = machine.version_of(library)
    if not version:
        return Finding("CUPTI", State.LIMITED, f"{library} cannot be loaded", wheel)
    name = f"{library}, of CUDA {_cuda_of(version)}"
    if version < _OLDEST_CUPTI:
        return Finding("CUPTI", State.LIMITED, f"{name}: older than 12.0; GPU kernels are not recorded", wheel)
    if version >= _CUPTI_OF_CUDA_13 and not newer:
        text = f"{name}: it needs driver {_DRIVER_OF_CUDA_13} or newer, this one is {_dotted(driver)}"
        return Finding("CUPTI", State.LIMITED, text, wheel)
    return Finding("CUPTI", State.WORKS, name)


def _cupti_places(machine: Machine) -> Iterator[Path]:
    if chosen := machine.environment.get("AIFLAME_CUPTI"):
        yield Path(chosen)
        return
    for file in _CUPTI_FILES:
        for packages in machine.packages:
            yield packages / "nvidia" / f"cu{file.rpartition('.')[2]}" / "lib" / file
            yield packages / "nvidia/cuda_cupti/lib" / file
            yield packages / "triton/backends/nvidia/lib/cupti" / file
        for home in _toolkits(machine):
            yield home / "extras/CUPTI/lib64" / file
        for folder in [*_library_path(machine), *(machine.root / folder for folder in _SYSTEM_FOLDERS)]:
            yield folder / file
        yield machine.root / "usr/local/cuda/extras/CUPTI/lib64" / file


def _samples(machine: Machine, driver: tuple[int, ...]) -> Finding:
    params = machine.text("proc/driver/nvidia/params")
    restricted = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", params, re.MULTILINE)
    if not restricted:
        return Finding("stall samples", State.WORKS, "the driver does not show whether all users may sample; a recording will")
    if restricted[1] == "0":
        return Finding("stall samples", State.WORKS, "the driver lets all users sample GPU instructions")
    capabilities = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", machine.text("proc/self/status"), re.MULTILINE)
    held = int(capabilities[1], 16) if capabilities else 0
    enough = [_CAP_SYS_ADMIN, *([_CAP_PERFMON] if driver and driver[0] >= _PERFMON_DRIVER else [])]
    if any(held >> capability & 1 for capability in enough):
        return Finding("stall samples", State.WORKS, "the driver lets administrators sample GPU instructions: this user is one")
    text = (
        "the driver lets administrators alone sample GPU instructions (RmProfilingAdminOnly: 1): kernels are recorded, their stalls are not"
    )
    if _in_container(machine):
        return Finding("stall samples", State.LIMITED, text, "docker run --gpus all --cap-add SYS_ADMIN …")
    mend = "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf, then reboot"
    return Finding("stall samples", State.LIMITED, text, mend)


def _disassembler(machine: Machine) -> Finding:
    for path in _nvdisasm_places(machine):
        if path.is_file() and os.access(path, os.X_OK):
            return Finding("SASS", State.WORKS, str(path))
    text = "nvdisasm was not found: samples have source lines but no instructions"
    return Finding("SASS", State.LIMITED, text, "pip install nvidia-cuda-nvdisasm")


def _nvdisasm_places(machine: Machine) -> Iterator[Path]:
    """The places where `resolve` looks for nvdisasm, in its order."""
    for packages in machine.packages:
        yield from sorted(packages.glob("nvidia/*/bin/nvdisasm"), reverse=True)
    for home in _toolkits(machine):
        yield home / "bin/nvdisasm"
    for folder in machine.environment.get("PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder) / "nvdisasm"
    yield machine.root / "usr/local/cuda/bin/nvdisasm"
    yield from sorted(machine.root.glob("usr/local/cuda-*/bin/nvdisasm"), reverse=True)
    for packages in machine.packages:
        yield packages / "triton/backends/nvidia/bin/nvdisasm"


def _injection(machine: Machine) -> Finding:
    library = machine.environment.get(VARIABLE, "")
    if library and library != machine.agent:
        text = f"{VARIABLE} is set to {library}: it stays, and GPU kernels are not recorded"
        return Finding("CUDA hook", State.LIMITED, text, f"unset {VARIABLE}")
    return Finding("CUDA hook", State.WORKS, f"{VARIABLE} is free")


def _toolkits(machine: Machine) -> list[Path]:
    return [Path(home) for variable in ("CUDA_HOME", "CUDA_PATH") if (home := machine.environment.get(variable))]


def _library_path(machine: Machine) -> list[Path]:
    return [Path(folder) for folder in machine.environment.get("LD_LIBRARY_PATH", "").split(":") if folder]


def _in_container(machine: Machine) -> bool:
    marks = (machine.root / ".dockerenv").exists() or (machine.root / "run/.containerenv").exists()
    return marks or "KUBERNETES_SERVICE_HOST" in machine.environment


def _cuda_of(version: int) -> str:
    if version >= _CUPTI_OF_CUDA_13:
        return f"{version // 10000}.{version // 100 % 100}"
    return _CUPTI_VERSIONS.get(version, f"12 (API {version})" if version > _OLDEST_CUPTI else f"11 or older (API {version})")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(f"{part:02}" if place == 2 else str(part) for place, part in enumerate(version))

"""Checks of ROCm on this machine: GPUs of AMD, permission, rocprofiler-sdk, sampling, disassembler. They only look at files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from aiflame.recorder.checkup_cuda import Machine
from aiflame.recorder.finding import Finding, State

SAMPLING = "ROCPROFILER_PC_SAMPLING_BETA_ENABLED"
_SDK = "librocprofiler-sdk.so"
_SYSTEM = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib")
_IN_PACKAGES = ("_rocm_sdk_core/lib", "torch/lib")
_OBJDUMP = ("lib/llvm/bin/llvm-objdump", "llvm/bin/llvm-objdump")
_ON = ("on", "1", "true", "yes")


def rocm_findings(machine: Machine) -> list[Finding]:
    """None without a GPU of AMD; otherwise one for each thing that recording it needs, the most important first."""
    gpus = sum(_is_gpu(file) for file in machine.root.glob("sys/class/kfd/kfd/topology/nodes/*/properties"))
    if not gpus:
        return []
    return [_permission(machine, gpus), _sdk(machine), _sampling(machine), _disassembler(machine)]


def _is_gpu(properties: Path) -> bool:
    try:
        lines = properties.read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.split() != ["simd_count", "0"] for line in lines if line.startswith("simd_count "))


def _permission(machine: Machine, gpus: int) -> Finding:
    device = machine.root / "dev/kfd"
    name = f"{gpus} GPU{'s' * (gpus > 1)} of AMD"
    if not device.exists():
        return Finding("AMD GPU", State.LIMITED, f"{name}: there is no /dev/kfd", "docker run --device /dev/kfd --device /dev/dri …")
    if not os.access(device, os.R_OK | os.W_OK):
        return Finding("AMD GPU", State.LIMITED, f"{name}: no permission for /dev/kfd", "sudo usermod -aG render,video $USER")
    return Finding("AMD GPU", State.WORKS, name)


def _sdk(machine: Machine) -> Finding:
    for folder in _libraries(machine):
        if (folder / _SDK).exists() or (folder / f"{_SDK}.1").exists():
            return Finding("AMD kernels", State.WORKS, f"{folder / _SDK}; not yet run on hardware by aiflame's authors")
    text = f"{_SDK} was not found: kernels are not recorded"
    return Finding("AMD kernels", State.LIMITED, text, "sudo apt-get install rocprofiler-sdk")


def _sampling(machine: Machine) -> Finding:
    if machine.environment.get(SAMPLING, "").lower() in _ON:
        return Finding("AMD stalls", State.WORKS, f"{SAMPLING} is set")
    text = f"{SAMPLING} is not set: no stalls. AMD warns that its sampling may hang the machine (docs/amd.md)"
    return Finding("AMD stalls", State.LIMITED, text, f"export {SAMPLING}=on")


def _disassembler(machine: Machine) -> Finding:
    for root in _roots(machine):
        for place in _OBJDUMP:
            if (root / place).is_file():
                return Finding("AMD instructions", State.WORKS, str(root / place))
    path = shutil.which("llvm-objdump", path=machine.environment.get("PATH", ""))
    if path:
        return Finding("AMD instructions", State.WORKS, f"{path}, if it knows this GPU")
    text = "llvm-objdump was not found: samples have source lines but no instructions"
    return Finding("AMD instructions", State.LIMITED, text, "sudo apt-get install rocm-llvm")


def _roots(machine: Machine) -> Iterator[Path]:
    yield from (Path(root) for variable in ("ROCM_PATH", "ROCM_HOME") if (root := machine.environment.get(variable)))
    yield machine.root / "opt/rocm"
    yield from sorted(machine.root.glob("opt/rocm-*"), reverse=True)


def _libraries(machine: Machine) -> Iterator[Path]:
    yield from (Path(folder) for folder in machine.environment.get("LD_LIBRARY_PATH", "").split(":") if folder)
    yield from (root / "lib" for root in _roots(machine))
    yield from (machine.root / folder for folder in _SYSTEM)
    yield from (packages / folder for packages in machine.packages for folder in _IN_PACKAGES)

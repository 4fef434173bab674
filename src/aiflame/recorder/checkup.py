"""Checks whether programs can be recorded on this machine, and which data a recording will hold."""

from __future__ import annotations

import ctypes.util
import os
import platform
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.recorder.checkup_cuda import Machine, cuda_findings
from aiflame.recorder.checkup_intel import intel_findings
from aiflame.recorder.checkup_rocm import rocm_findings
from aiflame.recorder.checkup_telemetry import telemetry_findings
from aiflame.recorder.finding import Finding, State
from aiflame.recorder.library import agent, collector
from aiflame.recorder.options import RecordOptions
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.run import run


def checkup() -> list[Finding]:
    """All findings, the necessary things first."""
    gpus = [*_cuda(), *intel_findings(), *rocm_findings(Machine())]
    return [*(check() for check in _NECESSARY), *gpus, *telemetry_findings(), *(check() for check in _USEFUL)]


def _machine() -> Finding:
    name = f"{platform.system()} {platform.release()}, {platform.machine()}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}"
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return Finding("machine", State.BROKEN, f"{name}: recording needs Linux on x86-64", "open profiles here, record them there")
    return Finding("machine", State.WORKS, name)


def _library() -> Finding:
    try:
        return Finding("collector", State.WORKS, str(collector()))
    except AiflameError as error:
        return Finding("collector", State.BROKEN, str(error), "pip install --force-reinstall aiflame")


def _recording() -> Finding:
    """Records a child process that computes for 0.3 s, and expects samples."""
    program = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "checkup.aiflame"
        try:
            run([sys.executable, "-c", program], ProfileLocation(profile, profile), RecordOptions(cpu_rate=999))
        except AiflameError as error:
            return Finding("CPU samples", State.BROKEN, str(error))
        tables = [entry for entry in Folder.open(profile).walk() if entry.name == "cpu_samples.table"]
    if not tables:
        return Finding(
            "CPU samples",
            State.BROKEN,
            "a recorded program left no samples",
            "run it outside of the sandbox that strips LD_PRELOAD",
        )
    return Finding("CPU samples", State.WORKS, "recorded a child process: Python and native stacks, no privileges needed")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.implementation.name != "cpython" or not (3, 10) <= sys.version_info[:2] <= (3, 14):
        text = f"{sys.implementation.name} {version}: its Python frames are not read (CPython 3.10 to 3.14 are); native frames are"
        return Finding("Python frames", State.LIMITED, text)
    return Finding("Python frames", State.WORKS, f"CPython {version}")


def _cuda() -> list[Finding]:
    try:
        ours = str(agent())
    except AiflameError:
        ours = ""  # `_library` reports it
    return cuda_findings(Machine(agent=ours))


def _regions() -> Finding:
    occupied = [name for name in ("NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64") if os.environ.get(name)]
    if occupied:
        settings = " and ".join(f"{name} names {os.environ[name]}" for name in occupied)
        return Finding(
            "regions", State.LIMITED, f"{settings}: regions go to that tool, aiflame cannot record them", f"unset {' '.join(occupied)}"
        )
    return Finding("regions", State.WORKS, "regions marked by NVTX, ITT and aiflame.region() are recorded")


def _opencl() -> Finding:
    library = ctypes.util.find_library("OpenCL")
    vendors = sorted(Path("/etc/OpenCL/vendors").glob("*.icd")) if Path("/etc/OpenCL/vendors").is_dir() else []
    if library and vendors:
        return Finding("OpenCL", State.WORKS, f"{library}, drivers: {', '.join(vendor.stem for vendor in vendors)}")
    missing = "no loader (libOpenCL)" if not library else "no driver in /etc/OpenCL/vendors"
    return Finding("OpenCL", State.ABSENT, missing, "apt-get install pocl-opencl-icd, for OpenCL on the CPU")


def _debug_files() -> Finding:
    folder = Path("/usr/lib/debug/.build-id")
    if folder.is_dir():
        return Finding("debug files", State.WORKS, f"{folder}: system libraries have source lines")
    return Finding("debug files", State.ABSENT, "system libraries show functions, without source lines", "apt-get install libc6-dbg")


def _tables() -> Finding:
    missing = [name for name in ("polars", "numpy", "symbolic", "capstone", "rich") if not _importable(name)]
    if missing:
        return Finding("reading profiles", State.LIMITED, f"missing: {', '.join(missing)}; recording works", "pip install aiflame")
    return Finding("reading profiles", State.WORKS, "all libraries are installed")


def _importable(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def _disk() -> Finding:
    free = shutil.disk_usage(".").free
    writable = os.access(".", os.W_OK)
    if not writable:
        return Finding("this folder", State.LIMITED, "it is read-only", "aiflame record -o /some/other/place …")
    return Finding("this folder", State.WORKS if free > 1 << 30 else State.LIMITED, f"writable, {free / 1e9:.1f} GB free")


def _debugger() -> Finding:
    """ptrace_scope decides whether the system calls of waiting threads, and deleted libraries through /proc/PID/map_files, can be read."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    text = f"ptrace_scope {scope.read_text().strip()}" if scope.exists() else "no restriction"
    if scope.exists() and int(scope.read_text()) >= 2 and os.geteuid() != 0:
        text += ": waits are not seen (--wall sees them), and deleted libraries are not kept"
        return Finding("looking into processes", State.LIMITED, text, "sudo sysctl kernel.yama.ptrace_scope=1")
    return Finding("looking into processes", State.WORKS, f"{text}: waits can be seen, and deleted libraries kept")


def _container() -> Finding:
    inside = Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    text = "in a container" if inside else "on the host"
    if limit != resource.RLIM_INFINITY:
        text += f", address space limited to {limit >> 10} kB"
    return Finding("surroundings", State.WORKS, text)


_NECESSARY: tuple[Callable[[], Finding], ...] = (_machine, _library, _recording, _python)
_USEFUL: tuple[Callable[[], Finding], ...] = (
    _opencl,
    _regions,
    _tables,
    _debug_files,
    _disk,
    _debugger,
    _container,
)

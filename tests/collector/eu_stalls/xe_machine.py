"""A machine with Intel GPUs of the xe driver, as programs see it under `programs/xe_kernel.c`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
RECORD = (
    "-c",
    "import sys; from aiflame.recorder.eu_stalls import loop; loop.SHARE = 9; from aiflame.cli.main import main; sys.exit(main())",
    "record",
)
"""`aiflame record`, which reads samples however much of a core that takes: those of a pause would be missing. To be given to Python."""
REASONS = ("active", "tdr", "other", "control", "pipestall", "send", "dist_acc", "sbid", "sync", "inst_fetch")


class _Stalls(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint8) for name in REASONS]


@dataclass(frozen=True)
class Gpu:
    node: str = "renderD128"
    address: str = "0000:03:00.0"
    version: tuple[int, int] = (20, 4)
    units: int = 1
    cores: int = 4
    records: int = 1024
    """the size of a core's buffer"""
    driver: str = "xe"
    """the name that the kernel gives it; the calls are those of xe"""


@dataclass
class XeMachine:
    root: Path
    library: Path
    gpus: tuple[Gpu, ...] = field(default_factory=lambda: (Gpu(),))

    def __post_init__(self) -> None:
        (self.root / "dev/dri").mkdir(parents=True)
        lines = [f"{one.node} {one.version[0]} {one.version[1]} {one.units} {one.cores} {one.records}" for one in self.gpus]
        (self.root / "gpus").write_text("\n".join(lines) + "\n")
        for one in self.gpus:
            (self.root / "dev/dri" / one.node).touch()
            by_path = self.root / "dev/dri/by-path"
            by_path.mkdir(exist_ok=True)
            (by_path / f"pci-{one.address.lower()}-render").symlink_to(f"../{one.node}")
            device = self.root / "sys/class/drm" / one.node / "device"
            device.mkdir(parents=True)
            (device / "uevent").write_text(f"DRIVER={one.driver}\nPCI_CLASS=30000\nPCI_ID=8086:0BD5\nPCI_SLOT_NAME={one.address}\n")
        self._paranoid = self.root / "proc/sys/dev/xe/observation_paranoid"
        self._paranoid.parent.mkdir(parents=True)
        self.allow()

    def allow(self, everybody: bool = True) -> None:
        self._paranoid.write_text("0\n" if everybody else "1\n")

    @property
    def environment(self) -> dict[str, str]:
        """Of a program on this machine."""
        return {"LD_PRELOAD": str(self.library), "FAKE_XE_ROOT": str(self.root)}


class Device:
    """The hardware: it samples."""

    def __init__(self, machine: XeMachine) -> None:
        own = machine.root / "device.so"  # another file for each machine: a library is loaded once
        if not own.exists():
            shutil.copy(machine.library, own)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAKE_XE_ROOT", str(machine.root))
            self._library = ctypes.CDLL(str(own))
        self._library.fake_xe_sample.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(_Stalls)]

    def sample(self, address: int, node: str = "renderD128", unit: int = 0, core: int = 0, **counts: int) -> int:
        """1: a record was written; 0: nobody samples; -1: the buffer was full."""
        return int(self._library.fake_xe_sample(node.encode(), unit, core, address, ctypes.byref(_Stalls(**counts))))

    def enabled(self, node: str = "renderD128", unit: int = 0) -> bool:
        return bool(self._library.fake_xe_enabled(node.encode(), unit))


def build_kernel(folder: Path) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = folder / "xe_kernel.so"
    subprocess.run(
        [
            compiler,
            "-O1",
            "-Wall",
            "-Werror",
            "-Wno-maybe-uninitialized",
            "-shared",
            "-fPIC",
            *map(str, sorted(PROGRAMS.glob("xe_*.c"))),
            "-o",
            str(library),
            "-ldl",
        ],
        check=True,
    )
    return library


def until(true: Callable[[], bool]) -> None:
    """Waits for it."""
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)

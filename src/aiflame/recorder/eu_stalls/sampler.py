"""Samples the Intel GPUs that a recorded program uses, from its first device code to its end.

A stream wakes its GPU, so none is opened before a process of the recording has loaded code for a Level Zero or OpenCL device. A thread of
the recorder reads all streams (loop.py): those of the kernel's driver xe, and where that is another, or gives records of an unknown layout,
those of the vendor's own driver (level_zero_stream.py).
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from pathlib import Path

from aiflame.imported_with import ONE_BLAS_THREAD, imported_with
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import Header
from aiflame.profile.schema.control_schema import GpuSampling
from aiflame.recorder.eu_stalls.devices import Gpu, Sampling, Unit, gpus, older_gpus, sampling, units
from aiflame.recorder.eu_stalls.loop import Decoded, Loop, NotBegun
from aiflame.recorder.eu_stalls.unknown import Unknown
from aiflame.recorder.eu_stalls.xe_stream import XeStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.recorder.eu_stalls.level_zero_stream import LevelZeroStream
    from aiflame.recorder.eu_stalls.loop import Reader

CODE_TABLE = "code_loads.table"
"""A process that has loaded code for a Level Zero or OpenCL device has this file."""
_LOOK_S, _LOOK_SHARE = 0.05, 0.001
"""Seconds between two looks for device code at least, and the share of a core that looks may take."""
_FULL = 4
"""A poll returns when a core's buffer may be full to this part."""
_PATIENCE_S = 1.0
PARTS = 20
"""Of the window of a flight recorder, which removes files as a whole."""
_SHORTEST_PART_NS = 1_000_000_000
_TILES = 2
"""Of Ponte Vecchio at most: each is a unit."""
_SHORT_ADDRESS, _LONG_ADDRESS, _LONG_SINCE = 32, 64, 35
"""Bits of an instruction's address, and the first generation that reports all."""
_LOADED = re.compile(r"(/.*/libze_loader\.so[.\d]*)$", re.MULTILINE)
PARANOID = "sudo sysctl dev.xe.observation_paranoid=0"


class EuStalls:
    """Samples from `start` to `finish`. No error in it ends the recording."""

    def __init__(
        self, profile: Folder, page: ControlPage, choice: int = GpuSampling.AUTO, root: Path = Path("/"), last_ns: int = 0
    ) -> None:
        """`last_ns`: of a flight recorder, whose files are in parts; else 0."""
        self._part_ns = max(last_ns // PARTS, _SHORTEST_PART_NS) if last_ns else 0
        self._profile, self._page, self._choice, self._root = profile, page, choice, root
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="EU stalls", daemon=True)
        self._notes: list[str] = []
        self._readers: list[Reader] = []

    def start(self) -> None:
        """Does nothing on a machine without such a GPU."""
        if self._choice != GpuSampling.OFF and (gpus(self._root) or older_gpus(self._root)):
            self._thread.start()

    def finish(self) -> list[str]:
        """Reads the last samples; returns notes for the user."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            return [*self._notes, "stall samples of the Intel GPU are cut short: a read of them does not end"]
        return self._notes

    def _run(self) -> None:
        try:
            if self._code_was_loaded():
                with imported_with(ONE_BLAS_THREAD):
                    import aiflame.recorder.eu_stalls.records  # noqa: F401
                self._open_all()
                loop = Loop(self._readers, self._page, self._over)
                try:
                    loop.run()
                finally:
                    self._notes += loop.notes
        except Exception as error:  # the recording goes on
            self._notes.append(f"stall samples of the Intel GPU ended: {getattr(error, 'strerror', None) or error}")
        finally:
            for one in self._readers:
                one.close()

    def _code_was_loaded(self) -> bool:
        spool, pause_s = self._profile.folder("spool"), _LOOK_S
        while not self._over.wait(pause_s):
            began_ns = time.thread_time_ns()
            if any(spool.has_file(name, CODE_TABLE) for name in spool.names() if "." in name and not name.endswith(".table")):
                return True
            pause_s = max((time.thread_time_ns() - began_ns) / 1e9 / _LOOK_SHARE, _LOOK_S)
        return False

    def _open_all(self) -> None:
        for gpu in gpus(self._root):
            self._open(gpu)
        for gpu in older_gpus(self._root):
            for unit in range(_TILES):
                self._begin_by_vendor(gpu, self._vendors_stream(gpu, unit, _SHORT_ADDRESS))

    def _open(self, gpu: Gpu) -> None:
        try:
            self._open_units(gpu)
        except OSError as error:
            self._notes.append(_refusal(gpu, error))

    def _open_units(self, gpu: Gpu) -> None:
        device = os.open(gpu.node, os.O_RDWR | os.O_CLOEXEC)
        try:
            offered = sampling(device)
            if offered is None or not offered.rates:
                self._notes.append(
                    f"stalls of the Intel GPU {gpu.address} are not sampled: this kernel's xe driver cannot (Linux 6.15 can)"
                )
                return
            for unit in units(device):
                self._open_unit(gpu, device, unit, offered)
        finally:
            os.close(device)

    def _open_unit(self, gpu: Gpu, device: int, unit: Unit, offered: Sampling) -> None:
        from aiflame.recorder.eu_stalls.records import RECORD_BYTES, layout_of

        layout = layout_of(unit.version)
        if offered.record_bytes != RECORD_BYTES:
            layout = None
        if layout is None and self._is_begun_by_vendor(gpu, unit):
            return
        period = chosen_period(self._choice, offered.rates)
        stream = XeStream(device, unit.number, period, max(offered.buffer_bytes // RECORD_BYTES // _FULL, 1), layout)
        if layout is None:
            version = ".".join(map(str, unit.version))
            self._notes.append(f"stalls of the Intel GPU {gpu.address} are not shown: its generation ({version}) is not known")
            self._begin(Unknown(gpu, unit, offered, period, stream, self._profile))
        else:
            header = Header(gpu.address, unit.number, period, layout.address_bits, layout.reasons)
            self._begin(Decoded(gpu, lambda: header, stream, self._profile, self._part_ns))

    def _is_begun_by_vendor(self, gpu: Gpu, unit: Unit) -> bool:
        address_bits = _LONG_ADDRESS if unit.version[0] >= _LONG_SINCE else _SHORT_ADDRESS
        stream = self._vendors_stream(gpu, unit.number, address_bits)
        try:
            stream.wait()
        except NotBegun:
            stream.close()
            return False
        self._begin_by_vendor(gpu, stream)
        return True

    def _begin_by_vendor(self, gpu: Gpu, stream: LevelZeroStream) -> None:
        self._begin(Decoded(gpu, stream.header, stream, self._profile, self._part_ns))

    def _vendors_stream(self, gpu: Gpu, unit: int, address_bits: int) -> LevelZeroStream:
        from aiflame.recorder.eu_stalls.level_zero_stream import LOADER, LevelZeroStream

        log2_cycles = 0 if self._choice == GpuSampling.AUTO else self._choice
        return LevelZeroStream(self._loader() or LOADER, gpu, unit, log2_cycles, address_bits)

    def _begin(self, reader: Reader) -> None:
        self._readers.append(reader)
        reader.begin()

    def _loader(self) -> str:
        """The loader of Level Zero that the program has loaded; "" where it is another user's, or none."""
        for name in self._profile.folder("spool").names():
            pid = name.partition(".")[0]
            if not pid.isdecimal():
                continue
            process = Path("/proc", pid)
            try:
                if process.stat().st_uid == os.geteuid() and (loader := _LOADED.search((process / "maps").read_text())):
                    return loader[1]
            except (OSError, UnicodeDecodeError):
                continue
        return ""


def chosen_period(choice: int, rates: tuple[int, ...]) -> int:
    """The longest period that the driver offers; or the one nearest to 2^`choice` cycles."""
    if choice == GpuSampling.AUTO:
        return max(rates)
    return min(rates, key=lambda rate: abs(rate - (1 << choice)))


def _refusal(gpu: Gpu, error: OSError) -> str:
    name = f"stalls of the Intel GPU {gpu.address} are not sampled"
    if error.filename:
        return f"{name}: {error.filename}: {error.strerror}"
    if error.errno == errno.EACCES:
        return f"{name}: its driver lets administrators alone do so: {PARANOID}"
    if error.errno == errno.EBUSY:
        return f"{name}: another program samples them, perhaps another rank of this job"
    return f"{name}: {error.strerror}"

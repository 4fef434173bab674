"""Samples the Intel GPUs that a recorded program uses, from its first device code to its end.

A stream wakes its GPU, so none is opened before a process of the recording has loaded code for a Level Zero or OpenCL device. A thread of
the recorder reads all streams; each fifth of a second is a block of `profile/folder/eu_stall_files.py`. If the reading takes more than a
tenth of a core, sampling pauses between blocks, and a note says for which part of the time the GPU was sampled.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from io import FileIO
from pathlib import Path

from aiflame.imported_with import ONE_BLAS_THREAD, imported_with
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import SUFFIX, Block, Header, pack_block, pack_header, part_name
from aiflame.profile.folder.telemetry_files import FOLDER
from aiflame.profile.schema.control_schema import GpuSampling, StopReason
from aiflame.recorder.eu_stalls.devices import Gpu, Sampling, Unit, gpus, sampling, units
from aiflame.recorder.eu_stalls.stream import POLL_S, Stream
from aiflame.recorder.eu_stalls.unknown import Unknown
from aiflame.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.recorder.eu_stalls.records import Counts, Layout

CODE_TABLE = "code_loads.table"
"""A process that has loaded code for a Level Zero or OpenCL device has this file."""
SHARE = 0.1
"""The share of a core for the reading."""
WINDOW_S = 0.2
_LOOK_S, _LOOK_SHARE = 0.05, 0.001
"""Seconds between two looks for device code at least, and the share of a core that looks may take."""
_READ_S = 0.05
_LATE_NS = 2 * int(POLL_S * 1e9)
"""Samples may be so old when they are read, so a block begins so much before the end of the one before it."""
_FULL = 4
"""A poll returns when a core's buffer may be full to this part."""
_WORTH_SAYING = 0.9
_PATIENCE_S = 1.0
PARTS = 20
"""Of the window of a flight recorder, which removes files as a whole."""
_SHORTEST_PART_NS = 1_000_000_000
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
        self._streams: list[_Read | Unknown] = []
        self._resting = False

    def start(self) -> None:
        """Does nothing on a machine without such a GPU."""
        if self._choice != GpuSampling.OFF and gpus(self._root):
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
                self._sample()
        except Exception as error:  # the recording goes on
            self._notes.append(f"stall samples of the Intel GPU ended: {getattr(error, 'strerror', None) or error}")
        finally:
            for one in self._streams:
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
        period = chosen_period(self._choice, offered.rates)
        stream = Stream(device, unit.number, period, max(offered.buffer_bytes // RECORD_BYTES // _FULL, 1))
        if layout is None or offered.record_bytes != RECORD_BYTES:
            version = ".".join(map(str, unit.version))
            self._notes.append(f"stalls of the Intel GPU {gpu.address} are not shown: its generation ({version}) is not known")
            self._streams.append(Unknown(gpu, unit, offered, period, stream, self._profile))
        else:
            header = Header(gpu.address, unit.number, period, layout.address_bits, layout.reasons)
            self._streams.append(_Read(gpu, header, stream, layout, self._profile, self._part_ns))
        self._streams[-1].begin()

    def _sample(self) -> None:
        poll = select.poll()
        for one in self._streams:
            poll.register(one.stream, select.POLLIN)
        began_ns, rested_ns = time.monotonic_ns(), 0
        while self._streams and not self._over.is_set() and self._page.stop_reason is StopReason.NONE:
            window_ns, used_ns = time.monotonic_ns(), time.thread_time_ns()
            self._fill_window(poll, window_ns + int(WINDOW_S * 1e9))
            if not self._write_window():
                return
            window_ns, used_ns = time.monotonic_ns() - window_ns, time.thread_time_ns() - used_ns
            if used_ns > SHARE * window_ns and not self._over.is_set():
                rested_ns += self._rest(int(used_ns / SHARE) - window_ns)
        if self._streams and not self._resting:
            time.sleep(2 * POLL_S)  # until the driver has looked at the GPU's buffers once more
            self._read_all()
            self._write_window()
        part = 1 - rested_ns / max(time.monotonic_ns() - began_ns, 1)
        if part < _WORTH_SAYING:
            self._notes.append(f"stalls of the Intel GPU were sampled for {part:.0%} of the time: there were too many to read them all")

    def _fill_window(self, poll: select.poll, until_ns: int) -> None:
        while (left_ns := until_ns - time.monotonic_ns()) > 0 and not self._over.is_set():
            poll.poll(min(left_ns / 1e6, _READ_S * 1e3))
            self._read_all(poll)

    def _read_all(self, poll: select.poll | None = None) -> None:
        for one in list(self._streams):
            self._read(one, poll)

    def _read(self, one: _Read | Unknown, poll: select.poll | None) -> None:
        try:
            one.read()
        except OSError as error:
            self._notes.append(f"stall samples of the Intel GPU {one.gpu.address} ended: {error.strerror}")
            one.write_window(self._page)
            if poll is not None:
                poll.unregister(one.stream)
            self._streams.remove(one)
            one.close()

    def _write_window(self) -> bool:
        there_is_room = True
        for one in self._streams:
            there_is_room = one.write_window(self._page) and there_is_room
        return there_is_room

    def _rest(self, pause_ns: int) -> int:
        """Returns for how long it was."""
        self._read_all()
        self._write_window()
        began_ns, self._resting = time.monotonic_ns(), True
        for one in self._streams:
            one.stream.disable()
        if not self._over.wait(pause_ns / 1e9):
            self._resting = False
            for one in self._streams:
                one.begin()
        return time.monotonic_ns() - began_ns


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


@dataclass(slots=True)
class _Read:
    """A stream, and the samples of its present window that were read."""

    gpu: Gpu
    header: Header
    stream: Stream
    layout: Layout
    profile: Folder
    part_ns: int
    """how long a file goes on; 0: to the end of the recording"""
    file: FileIO | None = None
    file_begun_ns: int = 0
    parts: list[Counts] = field(default_factory=list)
    lost: int = 0
    begun_ns: int = 0
    read_ns: int = 0

    def begin(self) -> None:
        self.begun_ns = self.read_ns = time.monotonic_ns()
        self.stream.enable()

    def read(self) -> None:
        from aiflame.recorder.eu_stalls.records import decode

        records, lost = self.stream.read()
        self.read_ns = time.monotonic_ns()
        self.lost += lost
        if records:
            self.parts.append(decode(records, self.layout))

    def write_window(self, page: ControlPage) -> bool:
        """Writes the window, if anything was sampled in it, and begins the next. False: there is no room any more."""
        from aiflame.recorder.eu_stalls.records import together

        begun_ns, parts, lost = self.begun_ns, self.parts, self.lost
        self.begun_ns, self.parts, self.lost = max(self.read_ns - _LATE_NS, begun_ns), [], 0
        if not parts and not lost:
            return True
        counts = together(parts) if parts else None
        rows, overflows = (counts.rows(), counts.overflows) if counts else (b"", 0)
        return self._write(Block(begun_ns, self.read_ns, lost + overflows, rows), page)

    def _write(self, block: Block, page: ControlPage) -> bool:
        data = pack_block(block)
        if self.file is not None and self.part_ns and block.begin_ns - self.file_begun_ns >= self.part_ns:
            self.file.close()
            self.file = None
        if self.file is None:
            data = pack_header(self.header) + data
        if not page.take(len(data)):
            return False
        if self.file is None:
            stream = f"{self.header.address.replace(':', '-')}-{self.header.unit}"
            name = part_name(stream, block.begin_ns) if self.part_ns else f"{stream}{SUFFIX}"
            self.file, self.file_begun_ns = self.profile.make_folder(FOLDER).new_file(name), block.begin_ns
        return self.file.write(data) == len(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.stream.close()
        if self.file is not None:
            self.file.close()

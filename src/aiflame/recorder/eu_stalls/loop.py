"""Reads all streams of stall samples, and writes each fifth of a second as a block of `profile/folder/eu_stall_files.py`.

If the reading takes more than a tenth of a core, sampling pauses between blocks, and a note says for which part of the time the GPU was
sampled.
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
from io import FileIO

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import SUFFIX, Block, Header, pack_block, pack_header, part_name
from aiflame.profile.folder.telemetry_files import FOLDER
from aiflame.profile.schema.control_schema import StopReason
from aiflame.recorder.eu_stalls.devices import Gpu
from aiflame.values import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from aiflame.recorder.eu_stalls.records import Counts

    class Stream(Protocol):
        """One graphics unit's samples."""

        late_ns: int
        """Samples may be so old when they are read, so a block begins so much before the end of the one before it."""

        def fileno(self) -> int: ...
        def enable(self) -> None: ...
        def disable(self) -> None: ...
        def read(self) -> tuple[bytes, int]:
            """All samples that are there, and how often the GPU had no room for more."""

        def decode(self, samples: bytes) -> Counts: ...
        def drain(self) -> None:
            """Waits until the next read, the last one, has all samples."""

        def used_ns(self) -> int:
            """The CPU time that a process of the stream's own has taken since the last call."""

        def close(self) -> None: ...

    class Reader(Protocol):
        """A stream, and its samples of the present window."""

        gpu: Gpu

        @property
        def stream(self) -> Stream: ...
        def begin(self) -> None: ...
        def read(self) -> None: ...
        def write_window(self, page: ControlPage) -> bool:
            """Writes the window, if anything was sampled in it, and begins the next. False: there is no room any more."""

        def close(self) -> None: ...


SHARE = 0.1
"""The share of a core for the reading."""
WINDOW_S = 0.2
_READ_S = 0.05
_WORTH_SAYING = 0.9


class NotBegun(OSError):
    """A stream does not begin. Its text is the whole note; without one, none is needed."""


class Loop:
    def __init__(self, readers: list[Reader], page: ControlPage, over: threading.Event) -> None:
        self._readers, self._page, self._over = readers, page, over
        self._resting = False
        self.notes: list[str] = []

    def run(self) -> None:
        poll = select.poll()
        for one in self._readers:
            poll.register(one.stream, select.POLLIN)
        began_ns, rested_ns = time.monotonic_ns(), 0
        while self._readers and not self._over.is_set() and self._page.stop_reason is StopReason.NONE:
            window_ns, used_ns = time.monotonic_ns(), time.thread_time_ns()
            self._fill_window(poll, window_ns + int(WINDOW_S * 1e9))
            if not self._write_window():
                return
            window_ns, used_ns = time.monotonic_ns() - window_ns, time.thread_time_ns() - used_ns
            used_ns += sum(one.stream.used_ns() for one in self._readers)
            if used_ns > SHARE * window_ns and not self._over.is_set():
                rested_ns += self._rest(int(used_ns / SHARE) - window_ns)
        if self._readers and not self._resting:
            for one in self._readers:
                one.stream.drain()
            self._read_all()
            self._write_window()
        part = 1 - rested_ns / max(time.monotonic_ns() - began_ns, 1)
        if part < _WORTH_SAYING:
            self.notes.append(f"stalls of the Intel GPU were sampled for {part:.0%} of the time: there were too many to read them all")

    def _fill_window(self, poll: select.poll, until_ns: int) -> None:
        while (left_ns := until_ns - time.monotonic_ns()) > 0 and not self._over.is_set():
            poll.poll(min(left_ns / 1e6, _READ_S * 1e3))
            self._read_all(poll)

    def _read_all(self, poll: select.poll | None = None) -> None:
        for one in list(self._readers):
            self._read(one, poll)

    def _read(self, one: Reader, poll: select.poll | None) -> None:
        try:
            one.read()
        except OSError as error:
            ended = f"stall samples of the Intel GPU {one.gpu.address} ended: {error.strerror}"
            if note := str(error) if isinstance(error, NotBegun) else ended:
                self.notes.append(note)
            one.write_window(self._page)
            if poll is not None:
                poll.unregister(one.stream)
            self._readers.remove(one)
            one.close()

    def _write_window(self) -> bool:
        there_is_room = True
        for one in self._readers:
            there_is_room = one.write_window(self._page) and there_is_room
        return there_is_room

    def _rest(self, pause_ns: int) -> int:
        """Returns for how long it was."""
        self._read_all()
        self._write_window()
        began_ns, self._resting = time.monotonic_ns(), True
        for one in self._readers:
            one.stream.disable()
        if not self._over.wait(pause_ns / 1e9):
            self._resting = False
            for one in self._readers:
                one.begin()
        return time.monotonic_ns() - began_ns


@dataclass(slots=True)
class Decoded:
    """A reader of samples whose layout is known."""

    gpu: Gpu
    header: Callable[[], Header]
    """of a stream that has begun"""
    stream: Stream
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
        samples, lost = self.stream.read()
        self.read_ns = time.monotonic_ns()
        self.lost += lost
        if samples:
            self.parts.append(self.stream.decode(samples))

    def write_window(self, page: ControlPage) -> bool:
        from aiflame.recorder.eu_stalls.records import together

        begun_ns, parts, lost = self.begun_ns, self.parts, self.lost
        self.begun_ns, self.parts, self.lost = max(self.read_ns - self.stream.late_ns, begun_ns), [], 0
        if not parts and not lost:
            return True
        counts = together(parts) if parts else None
        rows, overflows = (counts.rows(), counts.overflows) if counts else (b"", 0)
        return self._write(Block(begun_ns, self.read_ns, lost + overflows, rows), page)

    def _write(self, block: Block, page: ControlPage) -> bool:
        data, header = pack_block(block), self.header()
        if self.file is not None and self.part_ns and block.begin_ns - self.file_begun_ns >= self.part_ns:
            self.file.close()
            self.file = None
        if self.file is None:
            data = pack_header(header) + data
        if not page.take(len(data)):
            return False
        if self.file is None:
            stream = f"{header.address.replace(':', '-')}-{header.unit}"
            name = part_name(stream, block.begin_ns) if self.part_ns else f"{stream}{SUFFIX}"
            self.file, self.file_begun_ns = self.profile.make_folder(FOLDER).new_file(name), block.begin_ns
        return self.file.write(data) == len(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.stream.close()
        if self.file is not None:
            self.file.close()

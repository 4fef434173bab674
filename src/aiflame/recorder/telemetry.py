"""Reads telemetry of the machine while a program is recorded, and appends the values to `PROFILE/telemetry/`.

Each group of sources has a thread, since a driver may take long or hang. All threads together take at most a twentieth of a core: expensive
sources are read less often, until reading them is cheap again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import FileIO

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.telemetry_files import FOLDER, SUFFIX, Packer, pack_header
from aiflame.profile.schema.control_schema import Feature, StopReason
from aiflame.recorder.numbers import OURS, Numbers
from aiflame.recorder.options import INTERVAL_MS
from aiflame.recorder.sources import sources
from aiflame.recorder.sources.base import Source

SHARE = 0.05
"""The share of a core for all readings. Reading a driver takes 1 to 3 ms, which is fine every 50 ms beside a program on other cores."""
_ROOM = 0.8
"""A source is read more often again only if all readings then take at most this part of the share, so that intervals do not oscillate."""
_JUDGED_NS = 1_000_000_000
_LONGEST_NS = 10_000_000_000
_WORTH_SAYING = 4
"""A note is written for a source that was read this many times less often than intended, and less often than every `_SAID_NS`."""
_SAID_NS = 200_000_000
_TAKEN = 16 << 10
"""Bytes of --max-size that a file reserves at a time."""
_PATIENCE_S = 1.0
"""Seconds that the end of a recording waits for a reading that hangs."""


class Telemetry:
    """Reads all sources from `start` to `finish`. No error in it ends the recording."""

    def __init__(
        self,
        profile: Folder,
        page: ControlPage,
        interval_ms: int = INTERVAL_MS,
        chosen_sources: Sequence[Source] | None = None,
        share: float = SHARE,
        numbers: Numbers = OURS,
    ) -> None:
        self._profile = profile
        chosen = chosen_sources if chosen_sources is not None else _sources(profile.folder("spool"), page, numbers)
        self._over = threading.Event()
        self._budget = _Budget(interval_ms * 1_000_000, share)
        folder = profile.folder(FOLDER)
        scheduled = [_Scheduled(source, folder, f"{number:02}-{source.name}{SUFFIX}") for number, source in enumerate(chosen)]
        self._lookers = [
            _Looker(name, [one for one in scheduled if one.source.thread == name], page, self._over, self._budget)
            for name in dict.fromkeys(source.thread for source in chosen)
        ]

    def start(self) -> None:
        """Starts the threads. Call it after the program has been started: it must not inherit our threads' locks, nor they its signals."""
        try:
            self._profile.make_folder(FOLDER)
        except OSError:
            return
        for looker in self._lookers:
            looker.start()

    def finish(self) -> list[str]:
        """Reads all sources once more; returns notes for the user."""
        self._over.set()
        until = time.monotonic() + _PATIENCE_S
        notes = []
        for looker in self._lookers:
            if looker.looking:  # does not wait for a driver that is still starting
                looker.join(max(until - time.monotonic(), 0.05))
                if looker.is_alive():
                    notes.append(f"telemetry of {looker.name} is cut short: a look at it does not end")
            looker.closed = True
            notes += looker.notes
        return notes + self._budget.notes()


def _sources(spool: Folder, page: ControlPage, numbers: Numbers) -> list[Source]:
    return sources(spool, gpu_memory=bool(page.features & Feature.GPU_MEMORY), numbers=numbers)


@dataclass(slots=True, eq=False)
class _Scheduled:
    """A source, its file, and when it is due."""

    source: Source
    folder: Folder
    name: str
    interval_ns: int = 0
    due_ns: int = 0
    spent_ns: int = 0
    looks: int = 0
    """Number of readings since the budget was last judged; `spent_ns`: their CPU time."""
    last_ns: int = 0
    """CPU time of the last reading."""
    cost_ns: float = 0.0
    """Mean CPU time of a reading when the budget was last judged."""
    _file: FileIO | None = None
    _packer: Packer = field(default_factory=lambda: Packer(0))
    _room: int = 0

    def begin(self, page: ControlPage) -> bool:
        """False: the source has no values."""
        header = self.source.begin()
        if header is None:
            return False
        self._file = self.folder.new_file(self.name)
        self._packer = Packer(len(header.series))
        return self._write(pack_header(header), page) and bool(header.series)

    def look(self, page: ControlPage) -> bool:
        """False: there is no room any more."""
        began = time.thread_time_ns()
        data = b"".join(self._packer.pack(*one) for one in self.source.look())
        written = self._write(data, page)
        self.last_ns = time.thread_time_ns() - began
        self.spent_ns += self.last_ns
        self.looks += 1
        return written

    def end(self) -> None:
        if self._file is not None:
            self._file.close()
            self.source.end()

    def _write(self, data: bytes, page: ControlPage) -> bool:
        while self._room < len(data):
            if not page.take(_TAKEN):
                return False
            self._room += _TAKEN
        self._room -= len(data)
        assert self._file is not None
        return not data or self._file.write(data) == len(data)


class _Looker(threading.Thread):
    """A thread that reads its sources, each when it is due."""

    def __init__(self, name: str, of: list[_Scheduled], page: ControlPage, over: threading.Event, budget: _Budget) -> None:
        super().__init__(name=name, daemon=True)  # a hanging thread must not keep the process alive
        self.notes: list[str] = []
        self.looking = False
        self.closed = False
        """True when this thread may no longer write to the profile."""
        self._of, self._page, self._over, self._budget = of, page, over, budget

    def run(self) -> None:
        there = [one for one in self._of if self._tried(one, one.begin)]
        self._budget.add(there)
        self.looking = bool(there)
        woken = time.thread_time_ns()
        while there and not self._over.wait(_until_due(there)):
            if self._page.stop_reason is not StopReason.NONE:
                break
            now = time.monotonic_ns()
            due = [one for one in there if one.due_ns <= now]
            for one in due:
                if not self._tried(one, one.look):
                    there.remove(one)
                one.due_ns = max(one.due_ns + one.interval_ns, now)
            # Waking up costs time, too: it is added to the first reading that was due.
            used = time.thread_time_ns() - woken
            if due:
                due[0].spent_ns += max(used - sum(one.last_ns for one in due), 0)
                woken += used
            self._budget.judge(time.monotonic_ns())
        for one in there:
            self._tried(one, one.look)
        for one in self._of:
            one.end()

    def _tried(self, one: _Scheduled, action: Callable[[ControlPage], bool]) -> bool:
        try:
            return not self.closed and action(self._page)
        except Exception as error:  # a source may fail in any way; the recording goes on
            self.notes.append(f"telemetry of {one.source.name} ended: {getattr(error, 'strerror', None) or error}")
            return False


def _until_due(there: list[_Scheduled]) -> float:
    return max(min(one.due_ns for one in there) - time.monotonic_ns(), 0) / 1e9


class _Budget:
    """Lengthens intervals until all readings together fit into their share of a core, and shortens them when readings become cheap."""

    def __init__(self, interval_ns: int, share: float) -> None:
        self._interval_ns, self._share = interval_ns, share
        self._lock = threading.Lock()
        self._all: list[_Scheduled] = []
        self._next_ns = time.monotonic_ns() + _JUDGED_NS

    def add(self, some: list[_Scheduled]) -> None:
        with self._lock:
            for one in some:
                one.interval_ns = self._meant(one)
                one.due_ns = time.monotonic_ns()
            self._all += some

    def judge(self, now_ns: int) -> None:
        """Adapts the intervals, at most once a second."""
        if now_ns < self._next_ns:
            return
        with self._lock:
            self._next_ns = now_ns + _JUDGED_NS
            for one in self._all:
                if one.looks:
                    one.cost_ns, one.spent_ns, one.looks = one.spent_ns / one.looks, 0, 0
            self._slow_down()
            self._speed_up(now_ns)

    def _slow_down(self) -> None:
        """Halves how often the most expensive source is read, until all together fit into the share."""
        while sum(map(_load, self._all)) > self._share:
            heaviest = max(self._all, key=_load)
            if heaviest.interval_ns >= _LONGEST_NS:
                break
            heaviest.interval_ns *= 2

    def _speed_up(self, now_ns: int) -> None:
        """Brings slowed-down sources back towards their intended interval, as far as the share allows."""
        for one in sorted(self._all, key=_load):
            while one.interval_ns > self._meant(one) and sum(map(_load, self._all)) + _load(one) <= _ROOM * self._share:
                one.interval_ns //= 2
                one.due_ns = min(one.due_ns, now_ns + one.interval_ns)

    def _meant(self, one: _Scheduled) -> int:
        return self._interval_ns * one.source.every

    def notes(self) -> list[str]:
        """Notes on sources that were read much less often than intended. (The profile has the time of every reading.)"""
        return [
            f"telemetry of {one.source.name} was read every {one.interval_ns / 1e6:.0f} ms only, as a look at it took"
            f" {one.cost_ns / 1e6:.1f} ms"
            for one in self._all
            if one.interval_ns > max(_WORTH_SAYING * self._meant(one), _SAID_NS)
        ]


def _load(one: _Scheduled) -> float:
    return one.cost_ns / one.interval_ns

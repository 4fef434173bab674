"""The tracks of a trace, and which process and thread each belongs to."""

from __future__ import annotations

import re

from aiflame.exchange.readers.protobuf import Value, fields, message, signed, text, unsigned
from aiflame.values import dataclass, field

LANES = 1 << 40
"""Tracks that are no threads are numbered from here on, where threads have their tid."""
NO_TRACK = 0
"""The uuid of events that belong to no track."""
UNKNOWN = -1
"""The process of tracks that belong to none."""
_MOST_PARENTS = 64
_OTHER_HOST = 1 << 33
_UNITS = {1: "ns", 3: "bytes"}
_CHROME_PROCESSES = {1: "Browser", 2: "Renderer", 3: "Utility", 4: "Zygote", 5: "Sandbox helper", 6: "GPU", 7: "Plugin", 8: "Plugin broker"}
_IPROF = re.compile(r"(Hostname|Process|Thread|Device|SubDevice) (.+)", re.DOTALL)


@dataclass(slots=True)
class Counter:
    name: str
    unit: str
    factor: int
    incremental: bool
    derived: bool
    """It is one of those that Perfetto's SDK takes of a thread beside its slices."""


@dataclass(slots=True)
class Track:
    uuid: int
    name: str = ""
    description: str = ""
    parent: int = 0
    pid: int = -1
    tid: int = -1
    writer: int = -1
    """The process that wrote the descriptor."""
    counter: Counter | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where the slices of a track belong."""

    pid: int
    tid: int
    """that of a thread, or a number from LANES on"""
    path: tuple[str, ...]
    """names of the track and of those around it, outermost first, without processes and threads"""
    device: str = ""
    """of iprof: the device that did the work of the track"""
    stream: int = 0

    @property
    def is_thread(self) -> bool:
        return self.tid < LANES


@dataclass(slots=True)
class Tracks:
    all: dict[int, Track] = field(default_factory=dict)
    of_sequences: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The thread that writes a sequence, in older traces."""
    references: dict[int, int] = field(default_factory=dict)
    """The moment in microseconds from which the sequence of a thread counts, in older traces."""
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    _places: dict[int, Place] = field(default_factory=dict)
    _hosts: dict[str, int] = field(default_factory=dict)

    def add(self, data: bytes, writer: int) -> None:
        """A track's descriptor; later ones add to earlier ones of the same track."""
        given = list(fields(data))
        uuid = next((unsigned(value) for number, value in given if number == 1), NO_TRACK)
        track = self.all.setdefault(uuid, Track(uuid, writer=writer or -1))
        for number, value in given:
            if number in (2, 10, 13):
                track.name = text(value) or track.name
            elif number == 14:
                track.description = text(value)
            elif number == 5:
                track.parent = unsigned(value)
            elif number == 3:
                track.pid = self.add_process(message(value))
            elif number == 4:
                track.pid, track.tid = self.add_thread(message(value))
            elif number == 8:
                track.counter = _counter(message(value))
            elif number == 6 and track.pid >= 0:
                kind = dict(fields(message(value))).get(1, 0)
                self.processes.setdefault(track.pid, _CHROME_PROCESSES.get(unsigned(kind), ""))

    def add_process(self, data: Value) -> int:
        given = list(fields(message(data)))
        pid = next((signed(value) for number, value in given if number == 1), 0)
        name = next((text(value) for number, value in given if number == 6), "")
        line = "\0".join(text(value) for number, value in given if number == 2)
        self.processes[pid] = line or name or self.processes.get(pid, "")
        return pid

    def add_thread(self, data: Value) -> tuple[int, int]:
        given = dict(fields(message(data)))
        key = signed(given.get(1, 0)), signed(given.get(2, 0))
        self.threads[key] = text(given[5]) if 5 in given else self.threads.get(key, "")
        return key

    def add_thread_of_sequence(self, sequence: int, data: bytes) -> None:
        self.of_sequences[sequence] = self.add_thread(memoryview(data))
        self.references[sequence] = signed(dict(fields(data)).get(6, 0))

    def add_process_tree(self, data: bytes) -> None:
        for number, value in fields(data):
            given = dict(fields(message(value))) if number in (1, 2) else {}
            if number == 1 and 3 in given:
                self.processes.setdefault(signed(given.get(1, 0)), text(given[3]))
            elif number == 2 and 2 in given:
                self.threads.setdefault((signed(given.get(3, 0)), signed(given.get(1, 0))), text(given[2]))

    def place(self, uuid: int) -> Place:
        """Where a track belongs; one without a descriptor is a lane of its own."""
        place = self._places.get(uuid)
        if place is None:
            place = self._places[uuid] = self._find(uuid)
            if not place.is_thread:
                self.threads.setdefault((place.pid, place.tid), " / ".join(place.path))
        return place

    def ancestors(self, uuid: int) -> list[Track]:
        """The track and those around it, innermost first."""
        around: list[Track] = []
        while uuid in self.all and len(around) < _MOST_PARENTS:
            track = self.all[uuid]
            around.append(track)
            if not track.parent or track.parent == uuid:
                break
            uuid = track.parent
        return around

    def _find(self, uuid: int) -> Place:
        around = self.ancestors(uuid)
        if around and around[0].tid >= 0:
            return Place(around[0].pid, around[0].tid, ())
        path = tuple(one.name for one in reversed(around) if one.tid < 0 and one.pid < 0 and one.name)
        if path and (iprof := self._of_iprof(path)) is not None:
            return iprof
        pid = next((one.pid for one in around if one.pid >= 0), -1)
        if pid < 0:
            pid = next((one.writer for one in around if one.writer >= 0), UNKNOWN)
        thread = next((self.threads.get((one.pid, one.tid), "") for one in around if one.tid >= 0), "")
        named = path or ("[no name]",)
        return Place(pid, LANES + len(self._places), (thread, *named) if thread else named)

    def _of_iprof(self, path: tuple[str, ...]) -> Place | None:
        """iprof names processes and threads by tracks around each other: Hostname, Process, Thread, and for work of devices Device."""
        matches = [_IPROF.fullmatch(one) for one in path]
        if len(path) < 3 or not all(matches) or not path[0].startswith("Hostname "):
            return None
        given = {one[1]: one[2] for one in matches if one is not None}
        pid, tid = given.get("Process", ""), given.get("Thread", "")
        if not (pid.isdecimal() and tid.isdecimal() and len(pid) < 11 and len(tid) < 20):
            return None
        host = self._hosts.setdefault(given["Hostname"], len(self._hosts))
        own = int(pid) + host * _OTHER_HOST
        self.processes.setdefault(own, f"{given['Hostname']}: process {pid}")
        device, part = given.get("Device", ""), given.get("SubDevice", "")
        if not device:
            return Place(own, min(int(tid), LANES - 1), ())
        stream = int(part) if part.isdecimal() and len(part) < 9 else 0
        return Place(own, LANES + len(self._places), path, f"device {device}", stream)


def _counter(data: Value) -> Counter:
    given = dict(fields(message(data)))
    unit = text(given[6]) if 6 in given else _UNITS.get(unsigned(given.get(3, 0)), "")
    factor = signed(given.get(4, 0)) or 1
    return Counter("", unit, factor, unsigned(given.get(5, 0)) > 0, unsigned(given.get(1, 0)) > 0)

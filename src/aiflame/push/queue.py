"""Bodies that wait to be sent to one destination, in the user's state folder. Standard library alone.

A body appears whole by its renaming. A body that arrived, was refused or let go is renamed first and counted after that, so a process that
is killed anywhere between loses no count and counts nothing twice (`_fold`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.user_state import state_folder
from aiflame.push.destination import Destination
from aiflame.values import asdict, dataclass, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.profile.folder.below import Entry

MOST_BYTES = 256 << 20
"""The most bytes that wait for one destination; beyond that the oldest bodies are let go."""
_FOLDER, _DESTINATION, _COUNTS, _CHANGING, _SENDING = "push", "destination", "counts", "changing", "sending"
_BODY = re.compile(r"(\d{20})-([0-9a-f]{32})\.(body|arrived|gone|refused)")
_PARTIAL = re.compile(r"(\d{20}-|counts\.).*\.partial")
"""Names of files that a killed process left half written. All are written under the lock."""
_LARGEST = 1 << 20
_LARGEST_BODY = 1 << 31
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Body:
    id: str
    """The same for the same content, so that a receiver can know a body again that it was sent twice."""
    data: bytes
    type: str
    encoding: str = ""
    query: str = ""
    profile: str = ""
    """The name of the profile, for people."""


@dataclass(frozen=True, slots=True)
class Waiting:
    name: str
    id: str
    bytes: int
    tried_ns: int
    """When it was put in, or could not be sent, for the last time."""


@dataclass(frozen=True, slots=True)
class Counts:
    arrived: int = 0
    let_go: int = 0
    """Bodies that were removed unsent, because they would have taken more disk than allowed, or the disk was full."""
    refused: int = 0
    """Bodies that the receiver will never take."""
    reason: str = ""
    """Why the last attempt failed; "": it did not."""


class Queue:
    def __init__(self, folder: Folder, destination: Destination, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self.destination, self._most = folder, destination, most_bytes

    @staticmethod
    def to(destination: Destination, most_bytes: int = MOST_BYTES) -> Queue:
        """The queue of a destination, which is made if it is missing."""
        try:
            folder = state_folder(_FOLDER).make_folder(destination.key).held()
            with folder.locked(_CHANGING):
                if folder.read(_DESTINATION, limit=_LARGEST) != destination.text():
                    folder.put(_DESTINATION, destination.text())
        except OSError as error:
            reason = error.strerror or str(error)
            reason = f"{reason[:1].lower()}{reason[1:]}{f': {error.filename}' if error.filename else ''}"
            raise AiflameError(f"nothing can wait to be sent in the state folder of this user: {reason}: set XDG_STATE_HOME") from None
        queue = Queue(folder, destination, most_bytes)
        queue._take_over()
        return queue

    @staticmethod
    def called(key: str) -> Queue | None:
        with contextlib.suppress(OSError, AiflameError):
            queue = Queue._in(state_folder(_FOLDER), key)
            return queue if queue is not None and queue.destination.key == key else None
        return None

    @staticmethod
    def all() -> list[Queue]:
        """Of all destinations that were ever used."""
        queues = []
        with contextlib.suppress(OSError):
            folder = state_folder(_FOLDER)
            queues = [queue for name in sorted(folder.names()) if (queue := Queue._in(folder, name)) is not None]
        return queues

    @staticmethod
    def _in(folder: Folder, name: str) -> Queue | None:
        """None where that is no queue."""
        with contextlib.suppress(ValueError, AiflameError, OSError):
            here = folder.folder(name).held()
            return Queue(here, Destination.parse(here.read(_DESTINATION, limit=_LARGEST) or b""))
        return None

    def _take_over(self) -> None:
        """Takes the bodies that wait for the same receiver with the same headers, or without any: pushed again with headers, a profile must
        not wait for ever because it was first pushed without them. Those with other headers may belong to another team."""
        mine = self.destination
        for other in Queue.all():
            its = other.destination
            if its.key == mine.key or (its.url, its.format) != (mine.url, mine.format) or its.headers not in ("", mine.headers):
                continue
            with contextlib.suppress(OSError, AiflameError), other.sending() as alone:
                for waiting in other.waiting() if alone else ():
                    with contextlib.suppress(FileNotFoundError):
                        other._folder.move(waiting.name, self._folder, waiting.name)

    def put(self, body: Body) -> bool:
        """Adds a body; the oldest ones are let go where there is no room. False: it could not be kept, and is counted as let go."""
        facts = {"id": body.id, "type": body.type, "encoding": body.encoding, "query": body.query, "profile": body.profile}
        data = json.dumps(facts).encode() + b"\n" + body.data
        with self._folder.locked(_CHANGING):
            self._remove_partial()
            waiting = self.waiting()
            if any(one.id == body.id for one in waiting):
                return True
            # Where it would not fit on an empty disk either, nothing is let go for it.
            room = len(data) <= min(self._most, self._folder.free_bytes() + sum(one.bytes for one in waiting))
            while room and waiting and sum(one.bytes for one in waiting) + len(data) > self._most:
                self._end(waiting.pop(0), "gone")
            newest = int(waiting[-1].name[:20]) if waiting else 0
            name = f"{max(time.time_ns(), newest + 1):020}-{body.id}.body"
            kept = room and self._write(name, data, waiting)
            if not kept:
                with contextlib.suppress(OSError):
                    self._folder.put(name.replace(".body", ".gone"), b"")
            self._fold()
            return kept

    def _write(self, name: str, data: bytes, waiting: list[Waiting]) -> bool:
        """False if the disk is full, also without the bodies that waited."""
        while not self._written(name, data):
            if not waiting:
                return False
            self._end(waiting.pop(0), "gone")
        return True

    def _written(self, name: str, data: bytes) -> bool:
        """False if the disk is full."""
        try:
            self._folder.write(name, data)
        except OSError as error:
            if error.errno in _FULL:
                return False
            raise
        return True

    def waiting(self) -> list[Waiting]:
        """The oldest first."""
        return [
            Waiting(entry.name, match[2], entry.size, entry.status.st_mtime_ns) for entry, match in self._bodies() if match[3] == "body"
        ]

    def tried(self, waiting: Waiting) -> None:
        """It could not be sent now: others come first the next time, also in another process."""
        with contextlib.suppress(OSError):
            self._folder.touch_file(waiting.name)

    def read(self, waiting: Waiting) -> Body | None:
        """None if it is not there any more."""
        data = self._folder.read(waiting.name, limit=_LARGEST_BODY)
        if data is None:
            return None
        head, _, content = data.partition(b"\n")
        try:
            facts = json.loads(head)
            return Body(facts["id"], content, facts["type"], facts["encoding"], facts["query"], facts["profile"])
        except (ValueError, KeyError, TypeError):
            return None

    def arrived(self, waiting: Waiting) -> None:
        with self._folder.locked(_CHANGING):
            self._end(waiting, "arrived")
            self._fold("")

    def refused(self, waiting: Waiting, reason: str) -> None:
        """The receiver will never take it."""
        with self._folder.locked(_CHANGING):
            self._end(waiting, "refused")
            self._fold(reason)

    def lost(self, reason: str) -> None:
        """A profile that should have been put in, and could not be, is counted as let go."""
        with self._folder.locked(_CHANGING):
            self._count(lambda counts: replace(counts, let_go=counts.let_go + 1, reason=reason))

    def drop(self) -> int:
        """Lets all bodies go that wait. Their number."""
        with self._folder.locked(_CHANGING):
            waiting = self.waiting()
            for one in waiting:
                self._end(one, "gone")
            self._fold("")
        return len(waiting)

    def failed(self, reason: str) -> None:
        with self._folder.locked(_CHANGING):
            self._count(lambda counts: replace(counts, reason=reason))

    def counts(self) -> Counts:
        with self._folder.locked(_CHANGING):
            self._fold()
            return self._read_counts()[0]

    @contextlib.contextmanager
    def sending(self) -> Iterator[bool]:
        """True for the one process that may send; False where another does it already."""
        descriptor = self._folder.lock_file(_SENDING)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def _bodies(self) -> Iterator[tuple[Entry, re.Match[str]]]:
        for entry in self._folder.entries():
            if entry.is_file and (match := _BODY.fullmatch(entry.name)):
                yield entry, match

    def _remove_partial(self) -> None:
        for name in self._folder.names():
            if _PARTIAL.fullmatch(name):
                self._folder.remove(name)

    def _end(self, waiting: Waiting, how: str) -> None:
        """Its room on the disk is free at once; its name stays until it is counted."""
        name = waiting.name.replace(".body", f".{how}")
        with contextlib.suppress(FileNotFoundError):
            self._folder.rename(waiting.name, name)
        with contextlib.suppress(OSError), self._folder.existing(name) as file:
            if file is not None:
                file.truncate(0)

    def _fold(self, reason: str | None = None) -> None:
        """Counts the bodies that arrived, were let go or refused, and removes them. Those that the counts name already are only removed.
        `reason`: the new one."""
        there = {entry.name: match[3] for entry, match in self._bodies() if match[3] != "body"}
        if not there and reason is None:
            return
        counts, counted = self._read_counts()
        new = [kind for name, kind in there.items() if name not in counted]
        counts = Counts(
            counts.arrived + new.count("arrived"),
            counts.let_go + new.count("gone"),
            counts.refused + new.count("refused"),
            counts.reason if reason is None else reason,
        )
        try:
            self._write_counts(counts, sorted(there))
        except OSError:  # a full disk: they are counted the next time
            return
        for name in there:
            self._folder.remove(name)

    def _count(self, change: Callable[[Counts], Counts]) -> None:
        counts, counted = self._read_counts()
        with contextlib.suppress(OSError):
            self._write_counts(change(counts), counted)

    def _read_counts(self) -> tuple[Counts, list[str]]:
        with contextlib.suppress(ValueError, KeyError, TypeError, AiflameError):  # AiflameError: larger than any of ours
            values = json.loads(self._folder.read(_COUNTS, limit=_LARGEST) or b"{}")
            return Counts(**values["counts"]), list(values["counted"])
        return Counts(), []

    def _write_counts(self, counts: Counts, counted: list[str]) -> None:
        self._folder.write(_COUNTS, json.dumps({"counts": asdict(counts), "counted": counted}).encode())

"""The processes that one `aiflame attach` records: those asked for, and their children, also those that start another program meanwhile."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.recorder.attach.family import descendants
from aiflame.recorder.attach.member import Member, RecordedAlreadyError
from aiflame.recorder.attach.sending import Parcel
from aiflame.recorder.attach.target import Image, has_collector, image
from aiflame.recorder.looks.kernel import read
from aiflame.recorder.supervise import asked_to_end
from aiflame.values import dataclass, replace

_SEEK_S = 0.25
"""Seconds between two looks for new children: one that has lived through two looks is recorded."""
_RESTS = 50
"""So many times as long as such a look took: each thread of each process is asked for its children."""
_TRIES, _PATIENCE_S, _MOST_NAMED, _AT_ONCE = 3, 2.0, 3, 8
_A = TypeVar("_A")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _New:
    """A child without the collector, the number of times that attaching to it failed, and why the last time."""

    image: Image
    tries: int = 0
    why: str = ""


class Group:
    def __init__(self, first: Member, library: Path, profile: Path, *, children: bool) -> None:
        self._first, self._members = first, [first]
        self._library, self._profile, self._children = library, profile, children
        self._asked_for: dict[int, Image] = {}
        """Processes that were asked for, as they were then."""
        self._met: dict[int, Image] = {}
        """Programs that need nothing more."""
        self._new: dict[int, _New] = {}
        self._next_seek = 0.0
        self._count, self._longest_s = 0, 0.0
        self._parcel: Parcel | None = None
        self._making = threading.Lock()
        self._refused: list[str] = []

    def __len__(self) -> int:
        """How many processes the collector was brought into."""
        return self._count

    @property
    def longest_s(self) -> float:
        return max([self._longest_s, *(member.longest_s for member in self._members)])

    @property
    def pids(self) -> list[int]:
        """The processes that have the collector now."""
        return [member.pid for member in self._members if member.is_recorded()]

    def begin(self, others: Iterable[int]) -> float:
        """Begins with the first, whose refusal is raised, then with the others of its job and with all children. Returns the time at which
        the first had begun."""
        pids = [self._first.pid, *(pid for pid in others if pid != self._first.pid)]
        self._asked_for = {pid: seen for pid in pids if (seen := image(pid)) is not None}
        self._first.begin(self._profile, self.parcel, gives_up=asked_to_end)
        began = time.monotonic()
        self._count = 1
        self._met = {pid: seen for pid, seen in self._asked_for.items() if pid == self._first.pid}
        self._attach(pids[1:])
        if self._children:
            self._attach(child for child in descendants(pids) if child not in pids)
        return began

    def wait(self, seconds: float) -> bool:
        """Waits for so long, or until a process that was asked for ends. True when all of them have ended."""
        living = [member for member in self._members if member.pid in self._asked_for and member.lives()]
        if not living:
            return True
        ended = select.poll()
        for member in living:
            ended.register(member.process.pidfd, select.POLLIN)
        ended.poll(seconds * 1000)
        return False

    def look(self) -> None:
        for member in self._members:
            if member.is_recorded():
                member.look()
        now = time.monotonic()
        if now >= self._next_seek:
            self._forget_ended()
            self._seek()
            self._next_seek = now + max(_SEEK_S, _RESTS * (time.monotonic() - now))

    def leave(self) -> list[str]:
        """Takes the collector out of all that live; returns notes."""
        left = _at_once(Member.leave, [member for member in self._members if member.is_recorded()])
        return [note for notes in left for note in notes] + self._notes()

    def close(self) -> None:
        for member in self._members:
            member.close()
        if self._parcel is not None:
            self._parcel.close()

    @property
    def has_apart(self) -> bool:
        """Whether a program did not find the profile."""
        return self._parcel is not None

    def held(self) -> dict[str, int]:
        """The collector that was sent, for the names of its functions, as INODE-DEVICE → open descriptor, which the caller closes."""
        if self._parcel is None:
            return {}
        descriptor = self._parcel.library()
        status = os.fstat(descriptor)
        return {f"{status.st_ino}-{status.st_dev}": descriptor}

    def parcel(self) -> Parcel:
        """For programs that do not find the profile."""
        with self._making:
            if self._parcel is None:
                self._parcel = Parcel(self._library, Folder.open(self._profile))
            return self._parcel

    def _forget_ended(self) -> None:
        """A program may start thousands of children: each that is kept takes two file descriptors."""
        for member in [member for member in self._members if member.pid not in self._asked_for and not member.is_recorded()]:
            self._longest_s = max(self._longest_s, member.longest_s)
            self._members.remove(member)
            member.close()

    def _seek(self) -> None:
        """Attaches to processes that have started another program, and to children that one without the collector has forked."""
        roots = [pid for pid, asked in self._asked_for.items() if _is_one(pid, asked)]
        seen = {pid: now for pid in (*roots, *(descendants(roots) if self._children else ())) if (now := image(pid)) is not None}
        self._met = {pid: program for pid, program in self._met.items() if seen.get(pid) == program}
        before, self._new = self._new, {}
        ready = []
        for pid, now in seen.items():
            new = before.get(pid)
            if pid in self._met:
                continue
            if new is None or new.image != now:
                self._new[pid] = _New(now)
            elif has_collector(pid):
                self._met[pid] = now
            else:
                self._new[pid] = new
                ready.append(pid)
        self._attach(ready)

    def _attach(self, pids: Iterable[int]) -> None:
        _at_once(self._try, list(pids))

    def _try(self, pid: int) -> None:
        now = image(pid)
        if now is None:
            return
        new = self._new.pop(pid, _New(now))
        try:
            self._bring_into(pid)
        except AiflameError as error:
            failed = replace(new, tries=new.tries + 1, why=f"{_name(pid)} is not recorded: {error}")
            if failed.tries < _TRIES:
                self._new[pid] = failed
                return
            self._refused.append(failed.why)
        self._met[pid] = now

    def _bring_into(self, pid: int) -> None:
        member = Member(pid, self._library, self._first.numbers)
        try:
            member.begin(self._profile, self.parcel, _PATIENCE_S)
        except RecordedAlreadyError:  # forked by a process that is recorded
            member.close()
            return
        except BaseException:
            member.close()
            raise
        self._members.append(member)
        self._count += 1

    def _notes(self) -> list[str]:
        refused = self._refused + [new.why for pid, new in self._new.items() if new.why and image(pid) == new.image]
        more = len(refused) - _MOST_NAMED
        return refused[:_MOST_NAMED] + ([f"{more} more processes could not be recorded"] if more > 0 else [])


def _is_one(pid: int, asked: Image) -> bool:
    """Whether it is the process that was asked for, whatever program it runs, and no later one with its number."""
    now = image(pid)
    return now is not None and now[0] == asked[0]


def _name(pid: int) -> str:
    try:
        return f"process {pid} ({read(f'/proc/{pid}/comm').decode(errors='replace').strip()})"
    except OSError:
        return f"process {pid}"


def _at_once(work: Callable[[_A], _T], items: list[_A]) -> list[_T]:
    """Several at a time: most of it is waiting."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, items))

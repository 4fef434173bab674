"""Chooses the waiting threads that are looked at, and when."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.spool.open_lives import Reader
from aiflame.recorder.looks.kernel import Thread, parse_call, ready_ns
from aiflame.recorder.looks.memory import UnreadableError
from aiflame.recorder.looks.process import Process
from aiflame.recorder.numbers import OURS, Numbers
from aiflame.values import dataclass

OFTEN_S, MANY, SELDOM_S = 0.1, 40, 0.33
"""Mean seconds between two looks: OFTEN_S for the first MANY looks, SELDOM_S after them."""
FIRST_SHARE, SHARE = 0.01, 0.0015
"""The share of a core that looks may take, for the first MANY and after them: expensive looks are made less often. The median of `_JUDGED`
looks counts, since the first look at a process costs more."""
MOST_PART = 0.05
"""A pause is no longer than this part of the recording so far: the time after the last look counts for no wait."""
_JUDGED = 9
_PROCESSES, _OTHERS, _TRIED = 3, 1, 4
"""The most in a look: processes, sleeping threads of each besides its main thread, and threads that are tried to find these. Each thread is
looked at in turn; a look stands for all the time for which the thread has slept since the previous one."""
_FIND_S, _FIND_SELDOM_S = 0.4, 4.0
"""Seconds between two searches for processes: at first, and at most."""
_MOST_OPEN, _MOST_THREADS = 64, 256
"""The most processes and threads whose files are open."""
REFUSED = "waiting threads were not looked at: the system hides their calls from us (kernel.yama.ptrace_scope): record with --wall"
_MOST_US = (1 << 32) - 1


@dataclass(slots=True)
class _Seen:
    """A thread, as it was at the last look."""

    thread: Thread
    number: int
    """The thread's for the program itself."""
    time_ns: int = 0
    ready_ns: int = 0
    """The time in which it ran or was ready to run."""
    off_ns: int = 0
    """The time for which it waited since its last row of `waits`."""
    place: tuple[bytes, bytes] = (b"", b"")
    """Its times and its system call."""
    stack: int = 0
    """The stack in that call."""
    call: int = 0
    """The number of that system call."""


def _leave_thread(process: Process | None, seen: _Seen) -> None:
    """Where it ran at the last looks, the time for which it waited between them counts for its last wait."""
    seen.thread.close()
    if process is not None and seen.stack and seen.off_ns:
        process.writer.add("waits", seen.number, seen.stack, seen.time_ns, min(seen.off_ns // 1000, _MOST_US), seen.call)


def pause(looks: int, cost_s: float, elapsed_s: float) -> float:
    """Mean seconds until the next look, where one takes `cost_s` of CPU time."""
    least_s, share = (OFTEN_S, FIRST_SHARE) if looks < MANY else (SELDOM_S, SHARE)
    return min(max(least_s, cost_s / share), max(least_s, MOST_PART * elapsed_s))


class Waits:
    """Looks at threads from `start` to `finish`. No error in it ends the recording."""

    def __init__(self, spool: Folder, page: ControlPage, numbers: Numbers = OURS) -> None:
        self._spool, self._page, self._numbers = spool, page, numbers
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waits", daemon=True)
        self._lives = Reader()
        self._begun: dict[int, int] = {}
        """Recorded processes, the first one first, and when they began."""
        self._open: dict[int, Process] = {}
        self._seen: dict[tuple[int, int], _Seen] = {}
        self._random = random.Random()
        self._next_find, self._find_s = 0.0, _FIND_S
        self.looks = self.seen = 0
        self.cpu_ns = 0
        self._refused = False

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> list[str]:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        if not self._thread.is_alive():
            self._leave_all()
        return [REFUSED] if self._refused and not self.seen else []

    def _run(self) -> None:
        began, pause_s, costs = time.monotonic(), OFTEN_S, list[int]()
        while not self._over.wait(self._random.uniform(0.5, 1.5) * pause_s):
            before_ns = self.cpu_ns
            with contextlib.suppress(Exception):
                self.look()
            self.cpu_ns = time.thread_time_ns()
            costs = [*costs[1 - _JUDGED :], self.cpu_ns - before_ns]
            pause_s = pause(self.looks, sorted(costs)[len(costs) // 2] / 1e9, time.monotonic() - began)
        self._leave_all()

    def look(self) -> None:
        if time.monotonic() >= self._next_find:
            self._next_find = time.monotonic() + self._find_s
            self._find_s = min(1.5 * self._find_s, _FIND_SELDOM_S)
            self._find_processes()
        self.looks += 1
        first, *others = self._begun or [0]
        for pid in [first, *self._random.sample(others, min(_PROCESSES - 1, len(others)))]:
            with contextlib.suppress(OSError, ValueError):
                if (process := self._opened(pid)) is not None:
                    self._look_at(process)

    def _find_processes(self) -> None:
        for pid, start_ns in self._lives.unfinished(self._spool):
            if self._begun.get(pid, start_ns) != start_ns:
                self._leave(pid)
            self._begun[pid] = start_ns
        if len(self._begun) > 1:
            alive = set(os.listdir("/proc"))  # noqa: PTH208
            for pid in [pid for pid in self._begun if str(self._numbers.here(pid)) not in alive]:
                self._forget(pid)

    def _forget(self, pid: int) -> None:
        self._leave(pid)
        self._begun.pop(pid, None)

    def _opened(self, pid: int) -> Process | None:
        """None if nothing of it can be read. Such a process is not tried again."""
        if pid in self._open or pid not in self._begun or len(self._open) >= _MOST_OPEN:
            return self._open.get(pid)
        try:
            here = self._numbers.here(pid)
            if here is None:
                raise ProcessLookupError
            self._open[pid] = Process(pid, self._begun[pid], self._spool, self._page, here)
        except PermissionError:
            self._refused = True
            return None
        except (OSError, UnreadableError):
            self._forget(pid)
            return None
        return self._open[pid]

    def _leave_all(self) -> None:
        for pid in list(self._open):
            self._leave(pid)

    def _leave(self, pid: int) -> None:
        process = self._open.pop(pid, None)
        for key in [key for key in self._seen if key[0] == pid]:
            _leave_thread(process, self._seen.pop(key))
        if process is not None:
            with contextlib.suppress(OSError):
                process.writer.write()
            process.close()

    def _look_at(self, process: Process) -> None:
        with os.scandir(f"/proc/{process.here}/task") as tasks:
            workers = [tid for task in tasks if (tid := int(task.name)) != process.here]
        self._visit(process, process.here)
        asleep = 0
        for tid in self._random.sample(workers, min(_TRIED, len(workers))):
            asleep += self._visit(process, tid)
            if asleep == _OTHERS:
                break
        process.writer.write_sometimes()
        if not process.is_same():
            self._forget(process.pid)

    def _visit(self, process: Process, tid: int) -> bool:
        """True if it slept all the while."""
        try:
            return self._saw_asleep(process, tid)
        except PermissionError:
            self._refused = True
        except (OSError, ValueError):  # the thread has ended
            if (seen := self._seen.pop((process.pid, tid), None)) is not None:
                _leave_thread(process, seen)
        return False

    def _saw_asleep(self, process: Process, tid: int) -> bool:
        seen = self._seen.get((process.pid, tid))
        if seen is None:
            if len(self._seen) >= _MOST_THREADS:
                self._seen.pop(self._random.choice(list(self._seen))).thread.close()
            number = self._numbers.thread_inside(process.here, tid)
            seen = self._seen[process.pid, tid] = _Seen(Thread(process.here, tid), number)
        thread = seen.thread
        now, times = time.monotonic_ns(), thread.times()
        ready = ready_ns(times)
        if seen.time_ns:
            seen.off_ns += max(now - seen.time_ns - max(ready - seen.ready_ns, 0), 0)
        seen.time_ns, seen.ready_ns = now, ready
        line = thread.call()
        call = parse_call(line)
        if call is None:
            return False
        if seen.place == (times, line):
            if thread.is_stopped():
                seen.off_ns = 0
                return False
        else:
            try:
                stack = process.stack(seen.number, call)
            except UnreadableError:
                stack = 0
            if (thread.times(), thread.call()) != (times, line):
                return False  # it has run meanwhile: its stack may belong to two moments
            seen.place, seen.stack, seen.call = (times, line), stack, call.number
        off_us = min(seen.off_ns // 1000, _MOST_US)
        seen.off_ns = 0  # also if its stack cannot be read: that time must not count for other waits
        if seen.stack:
            process.writer.add("waits", seen.number, seen.stack, now, off_us, call.number)
            self.seen += 1
        return True

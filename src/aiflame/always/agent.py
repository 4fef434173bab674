"""The agent's loop: finds processes, records windows of them in children, and has these added to the store. Standard library alone."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from aiflame.always.adding import SEEN, add_waiting, has_parts_to_merge, merge_past, write_processes
from aiflame.always.children import HANDLED, Child, Ended, end_of, start
from aiflame.always.discovery import Discovery, Filters, Found, cpu_s
from aiflame.always.facts import Facts, facts_of
from aiflame.always.lines import tell
from aiflame.always.schedule import Budget, Turns
from aiflame.always.window import Settings, close_left, complete, left_behind, record
from aiflame.store.layout import make_store, remove_partial, take
from aiflame.store.retention import Retention
from aiflame.values import dataclass, field

_LOOK_S = 1.0
_TRY_AGAIN_S = (60.0, 3600.0)
"""A process that could not be recorded is tried again after so long, after the first time and the second; then no more."""
_PATIENCE_S = 120.0
"""A window may take so much longer than it should: attaching and leaving have 32 s each. Then its child is killed, maybe while it has
borrowed a thread."""
_ADD_S = 600.0
_MOST_WAITING = 64
"""Windows that wait are added as soon as there are so many."""
_SELDOM_S = 30.0
"""But no more often than this."""
_LEAVE_S = 100.0
"""Windows end by themselves within so much time."""
SAMPLE_S, ENTRY_S = 40e-6, 0.03
"""Costs for the program of a sample, and of a window without its samples: estimates, for the budget."""
_RESERVED = ("add", "merge", "left")


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Options:
    store: Path
    filters: Filters = field(default_factory=Filters)
    settings: Settings = field(default_factory=Settings)
    budget: float = 0.01
    """The share of the machine's processors."""
    every_s: float = 300.0
    write_every_s: float = 300.0
    keep_s: float = 7 * 86_400.0
    max_bytes: int = 2 << 30


class Agent:
    def __init__(self, options: Options, started_s: float | None = None) -> None:
        """`started_s`: processor time of this process that does not come out of the budget; by default all that it has used so far."""
        self._options = options
        self._store = make_store(options.store)
        self._lock = take(self._store)
        remove_partial(self._store)
        now = time.monotonic()
        self._discovery = Discovery(options.filters)
        self._budget = Budget(options.budget * (os.cpu_count() or 1), now)
        self._turns = Turns(options.every_s, random.Random())
        self._retention = Retention(self._store, options.keep_s, options.max_bytes, tell)
        self._children: list[Child] = []
        self._pids: dict[str, int] = {}
        """The process of each turn's key."""
        self._facts: dict[str, Facts] = {}
        self._own_s = time.process_time() if started_s is None else started_s
        self._next_look, self._next_write = now, now + min(options.write_every_s, 60.0)
        self._last_write = now
        self._waiting = complete(self._store)
        self._since_added_s = 0.0
        self._windows_since = 0
        self._room = True
        self._failure = ""
        self.counts = {"processes": 0, "windows": 0, "failed": 0, "added": 0}

    def run(self) -> None:
        """Until SIGTERM, SIGINT or SIGHUP."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        child_action = signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            self._in_spite_of_failures(self._close_left)
            while not self._signal(self._in_spite_of_failures(lambda: self.turn(time.monotonic())) or _LOOK_S):
                pass
            self._in_spite_of_failures(self._leave)
        finally:
            signal.signal(signal.SIGCHLD, child_action)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(self._lock)

    def _in_spite_of_failures(self, work: Callable[[], _T]) -> _T | None:
        """The system lacks something for a while: space on the disk, processes, open files. One line says so, and the work is tried again
        when it is due."""
        try:
            return work()
        except OSError as error:
            text = error.strerror or str(error)
            if text != self._failure:
                tell(f"some work failed and is tried again: {text.lower()}")
            self._failure = text
            return None

    def turn(self, now: float) -> float:
        """Does the work that is due; the seconds until more may be due."""
        self._reap(now)
        self._budget.earn(now)
        used = time.process_time()
        self._budget.spend(used - self._own_s)
        self._own_s = used
        if now >= self._next_look:
            self._next_look = now + _LOOK_S
            self._look(now)
        self._begin_windows(now)
        if now >= self._next_write or (self._waiting >= _MOST_WAITING and now >= self._last_write + _SELDOM_S):
            self._write(now)
        return max(min(self._next_look, self._next_write) - time.monotonic(), 0.01)

    @property
    def spent_s(self) -> float:
        """Processor time so far: of the agent, of its children, and an estimate of their work in the programs."""
        return self._budget.spent_s

    @staticmethod
    def _signal(seconds: float) -> bool:
        """True: the agent is to end."""
        received = signal.sigtimedwait(HANDLED, seconds)
        return received is not None and received.si_signo != signal.SIGCHLD

    def _look(self, now: float) -> None:
        new = self._discovery.look(now)
        for process in self._discovery.ended:
            self._turns.remove(process.key)
        for process in new:
            self.counts["processes"] += 1
            self._pids[process.key] = process.pid
            self._turns.add(process.key, now)
            if (facts := facts_of(process.pid)) is not None:
                self._facts[process.key] = facts

    def _begin_windows(self, now: float) -> None:
        windows = [child for child in self._children if child.key not in _RESERVED]
        while len(windows) < max(os.cpu_count() or 1, 2) and self._budget.allows(len(windows)):
            key = self._turns.take(now)
            if key is None:
                return
            process = self._discovery.found.get(self._pids.get(key, 0))
            if process is None or process.key != key or any(child.key == key for child in windows):
                continue
            if not self._discovery.is_there(process, now):
                continue
            if not self._has_room():
                return
            process.cpu_at_window_s = cpu_s(process.pid) or 0.0
            try:
                child = self._start_window(process)
            except OSError:
                self._turns.later(key, now, _TRY_AGAIN_S[0])
                raise
            windows.append(child)
            self._children.append(child)

    def _start_window(self, process: Found) -> Child:
        name, settings, store = f"{process.key}.{time.monotonic_ns()}", self._options.settings, self._store
        pid, ticks = process.pid, process.start_ticks
        longest_s = settings.seconds + _PATIENCE_S
        return start(process.key, lambda: record(store, name, pid, ticks, settings), longest_s, close=(self._lock,), attaches=True)

    def _has_room(self) -> bool:
        room = self._retention.make_room()
        if not room and self._room:
            tell("the disk is nearly full: nothing is recorded until there is room")
        self._room = room
        return room

    def _reap(self, now: float) -> None:
        for child in list(self._children):
            ended = end_of(child, now)
            if ended is None:
                continue
            self._children.remove(child)
            self._budget.spend(ended.cpu_s)
            self._since_added_s += ended.cpu_s
            if child.key in _RESERVED:
                self._after_writing(ended, now)
            else:
                self._after_window(ended, now)

    def _after_window(self, ended: Ended, now: float) -> None:
        process = self._discovery.found.get(self._pids.get(ended.child.key, 0))
        self._spend_in_program(ENTRY_S)
        if ended.problem:
            self.counts["failed"] += 1
            if process is not None:
                process.failures += 1
                process.obstacle = ended.problem
                self._turns.later(process.key, now, (*_TRY_AGAIN_S, float("inf"))[min(process.failures, 3) - 1])
            return
        self.counts["windows"] += 1
        self._waiting += 1
        self._windows_since += 1
        if process is not None:
            process.windows += 1
            process.failures, process.obstacle = 0, ""
            used = max((cpu_s(process.pid) or process.cpu_at_window_s) - process.cpu_at_window_s, 0.0)
            self._spend_in_program(used * self._options.settings.cpu_rate * SAMPLE_S)

    def _spend_in_program(self, seconds: float) -> None:
        self._budget.spend(seconds)
        self._since_added_s += seconds

    def _after_writing(self, ended: Ended, now: float) -> None:
        if ended.problem:
            tell(f"windows could not be added to the store, and wait: {ended.problem}")
        if ended.child.key != "add":
            return
        before, self._waiting = self._waiting, complete(self._store)
        self.counts["added"] += max(before - self._waiting, 0)
        if self._windows_since:
            self._budget.learn(self._since_added_s / self._windows_since)
        self._since_added_s, self._windows_since = 0.0, 0
        self._retention.look()
        if has_parts_to_merge(self._store):
            self._start_one("merge", lambda: merge_past(self._store))

    def _write(self, now: float) -> None:
        self._next_write, self._last_write = now + self._options.write_every_s, now
        if any(child.key in _RESERVED for child in self._children):
            return
        self._discovery.refresh(now)
        self._close_left()
        self._write_processes()
        self._start_one("add", lambda: add_waiting(self._store))

    def _write_processes(self) -> None:
        """Where it fails, those that have ended are kept for the next time."""
        rows = [self._row(process) for process in (*self._discovery.found.values(), *self._discovery.ended)]
        try:
            write_processes(self._store, rows)
        except OSError as error:
            tell(f"the list of processes could not be written, and is tried again: {(error.strerror or str(error)).lower()}")
            return
        for process in self._discovery.ended:
            self._turns.remove(process.key)
            self._pids.pop(process.key, None)
            self._facts.pop(process.key, None)
        self._discovery.ended.clear()

    def _close_left(self) -> None:
        """Ends the recordings of children that were killed, those of an earlier agent among them."""
        ours = {child.key for child in self._children}
        if left := [name for name in left_behind(self._store) if name.rpartition(".")[0] not in ours and not name.startswith(SEEN)]:
            self._start_one("left", lambda: close_left(self._store, left))

    def _start_one(self, key: str, work: Callable[[], None]) -> None:
        self._children.append(start(key, work, _ADD_S, close=(self._lock,), quiet=False, attaches=key == "left"))

    def _row(self, process: Found) -> dict[str, object]:
        facts = self._facts.get(process.key) or Facts(process.pid, process.start_ticks)
        return {
            "process": facts.number,
            "pid": process.pid,
            "begin_ns": facts.begin_ns,
            "found_ns": process.found_ns,
            "seen_ns": time.time_ns() - int((time.monotonic() - process.last_s) * 1e9),
            "command": facts.command,
            "cgroup": facts.cgroup,
            "rank": facts.rank,
            "cpu_ns": int(process.cpu_s * 1e9),
            "windows": process.windows,
            "obstacle": process.obstacle,
        }

    def _leave(self) -> None:
        """Ends the windows, and has all of them added."""
        for child in self._children:
            if child.key not in _RESERVED:
                os.kill(child.pid, signal.SIGTERM)
        until = time.monotonic() + _LEAVE_S
        while self._children and time.monotonic() < until:
            self._reap(time.monotonic())
            signal.sigtimedwait((signal.SIGCHLD,), 0.1)
        self._write(time.monotonic())
        until = time.monotonic() + _ADD_S
        while self._children and time.monotonic() < until:
            self._reap(time.monotonic())
            signal.sigtimedwait((signal.SIGCHLD,), 0.1)

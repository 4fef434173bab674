"""Looks at a running tree of processes from outside: how long it runs, its peak memory, the CPU time of each process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

_EVERY = 0.1
_FIRST_LOOK = 0.002
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Seen:
    """A process by its id and its start, in ticks since boot: ids are used again."""

    pid: int
    start: int


@dataclass(slots=True)
class Watch:
    """Watches the tree below the process `root`; where that is a recorder, below the command that it starts (`of_recorder`)."""

    root: int
    of_recorder: bool
    began: float | None = None
    """When the command was first seen, on the monotonic clock."""
    ended: float | None = None
    peak_bytes: int = 0
    """Most memory that the tree held at one look; pages that are shared with other processes are divided among them."""
    cpu_ns: dict[Seen, int] = field(default_factory=dict)
    """CPU time of each process as last seen: that of its last tenth of a second may lack."""
    inner_pids: dict[Seen, int] = field(default_factory=dict)
    """The process id of each inside its own namespace."""
    _thread: threading.Thread | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The command is over, or is to be forgotten."""
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def wait_for_rest(self, seconds: float) -> None:
        """Until nothing is left of the tree, or so long."""
        over = time.monotonic() + seconds
        with contextlib.suppress(FileNotFoundError):
            self._look()
        while time.monotonic() < over and any(_start_of(seen.pid) == seen.start for seen in self.cpu_ns):
            time.sleep(_EVERY)

    def kill_what_is_left(self) -> list[Seen]:
        """Ends the rest of the tree: daemons, and everything when time is out. Returns the processes that it ended."""
        ended = []
        with contextlib.suppress(FileNotFoundError):
            self._look()
        for seen in self.cpu_ns:
            if _start_of(seen.pid) == seen.start:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(seen.pid, signal.SIGKILL)
                    ended.append(seen)
        return ended

    def _run(self) -> None:
        command = self._command()
        if command is None:
            return
        self.began = time.monotonic()
        start = _start_of(command)
        if start is None:
            self.ended = self.began
            return
        self.cpu_ns[Seen(command, start)] = 0
        try:
            descriptor = os.pidfd_open(command)
        except ProcessLookupError:
            self.ended = self.began
            return
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        while not poller.poll(_EVERY * 1000) and not self._over.is_set():
            self._look()
        if not self._over.is_set() or poller.poll(0):
            self.ended = time.monotonic()
        os.close(descriptor)

    def _command(self) -> int | None:
        """The process that runs the command: a recorder's child that has the recorder's variables."""
        if not self.of_recorder:
            return self.root
        while not self._over.is_set():
            for child in _children(self.root):
                with contextlib.suppress(OSError):
                    if b"AIFLAME_PROFILE=" in Path(f"/proc/{child}/environ").read_bytes():
                        return child
            self._over.wait(_FIRST_LOOK)
        return None

    def _look(self) -> None:
        table = {}
        for name in os.listdir("/proc"):
            if name.isdecimal() and (fields := _stat(int(name))):
                table[Seen(int(name), int(fields[19]))] = fields
        pids = {seen.pid for seen in self.cpu_ns if seen in table}
        grown = True
        while grown:
            new = {seen.pid for seen, fields in table.items() if seen.pid not in pids and int(fields[1]) in pids}
            pids |= new
            grown = bool(new)
        total = 0
        for seen, fields in table.items():
            if seen.pid in pids:
                self.cpu_ns[seen] = (int(fields[11]) + int(fields[12])) * _TICK_NS
                total += _memory(seen.pid)
                self.inner_pids.setdefault(seen, _inner_pid(seen.pid))
        self.peak_bytes = max(self.peak_bytes, total)


def _children(pid: int) -> list[int]:
    try:
        return [
            int(word) for task in os.listdir(f"/proc/{pid}/task") for word in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        ]
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(") ")[2].split()


def _start_of(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def _inner_pid(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return pid


def _memory(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:")), 0)

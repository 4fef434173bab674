"""The properties that a program can see of itself: descriptors, limits, signals, scheduling, inherited settings. `face.py` prints its own.

The kernel's list of caught signals is not among it: three of the recorder's handlers are in it, and stay hidden from `sigaction` alone.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_OURS = 1 << 30 | 1 << 26 | 1 << 10 | 1 << 6
"""SIGSYS, SIGPROF, SIGSEGV, SIGBUS: a recorder's handlers are in their place, and answer `sigaction` and `sigpending` as the program expects."""
_STATUS = (
    "SigPnd",
    "ShdPnd",
    "SigBlk",
    "SigIgn",
    "Threads",
    "NoNewPrivs",
    "Seccomp",
    "CapEff",
    "CapAmb",
    "Cpus_allowed_list",
    "Umask",
    "Uid",
    "Gid",
)
_SETTINGS = ("oom_score_adj", "coredump_filter", "personality", "timerslack_ns", "cgroup", "ns/mnt", "ns/user", "ns/pid")


def seen_from_outside(pid: int | str) -> Iterator[str]:
    """The entries in /proc of a process that stands still."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    for name in _STATUS:
        if name in status:
            yield f"{name}: {int(status[name], 16) & ~_OURS:016x}" if name in ("SigIgn", "SigPnd", "ShdPnd") else f"{name}: {status[name]}"
    yield f"descriptors: {' '.join(descriptors(pid))}"
    yield Path(f"/proc/{pid}/limits").read_text().rstrip()


def settled(pid: int) -> list[str]:
    """The same, as soon as two looks a moment apart agree: a server may still be closing connections that it has answered."""
    before: list[str] = []
    for _ in range(100):
        now = list(seen_from_outside(pid))
        if now == before:
            break
        before = now
        time.sleep(0.05)
    return before


def descriptors(pid: int | str) -> list[str]:
    open_files = []
    for name in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue  # that of the listing itself
        if not target.startswith(f"/proc/{os.getpid()}/fd"):
            open_files.append(f"{name}={target.partition(':')[0] if ':[' in target else Path(target).suffix or target}")
    return open_files


def own() -> Iterator[str]:
    yield from seen_from_outside("self")
    yield f"limits: {[resource.getrlimit(limit) for limit in range(16)]}"
    for name in _SETTINGS:
        path = Path("/proc/self") / name
        yield f"{name}: {os.readlink(path) if path.is_symlink() else path.read_text().strip()}"
    yield f"scheduling: {os.getpriority(os.PRIO_PROCESS, 0)} {os.sched_getscheduler(0)} {sorted(os.sched_getaffinity(0))}"
    yield f"timers: {[signal.getitimer(kind) for kind in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)]}"
    yield f"blocked: {sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))}, pending: {sorted(signal.sigpending())}"
    for number in sorted(signal.valid_signals()):
        yield f"signal {number}: {signal.getsignal(number)}"


if __name__ == "__main__":
    print(*own(), sep="\n", file=sys.stdout)

"""Samples that perf took, as rows of a profile, for its files and for the text of `perf script`."""

from __future__ import annotations

from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.samples import CPU, NO_TIME, Sampled

_CLOCKS = ("cpu-clock", "task-clock")
_IDLE = "swapper"


class PerfRows:
    def __init__(self, making: Making) -> None:
        self.making = making
        self.rows = Sampled(making)
        self._kinds: dict[tuple[str, bool], int | None] = {}
        self._mains: set[int] = set()
        self._idle = False

    def owner(self, comm: str, pid: int, tid: int) -> tuple[int, int]:
        """Process and thread. A process has the name of its main thread, else that of the thread that comes first."""
        pid, tid = max(pid, 0), max(tid, 0)
        main = pid == tid
        if main:
            self._mains.add(pid)
        process = self.rows.process(pid, comm if main or pid not in self._mains else "")
        return process, self.rows.thread(process, tid, comm)

    def add(self, process: int, thread: int, call: int, event: str, period: int | None, at: int = NO_TIME, *, idle: bool = False) -> None:
        """A sample. `period`: how many events it stands for; None where the file does not say so. `idle`: of the idle task."""
        kind = self._kind(event, counted=period is not None)
        if kind is None:
            self._idle |= idle
            self.rows.time(process, thread, call, CPU, period or 0, at, waits=idle)
        else:
            self.rows.value(process, thread, call, kind, 1 if period is None else period, at)

    def finish(self) -> None:
        if self._idle:
            self.making.note(f"time of {_IDLE} is time in which a processor was idle: it is shown as waiting")
        self.rows.finish()

    def _kind(self, event: str, *, counted: bool) -> int | None:
        """The kind of values that samples of an event are; None: they are CPU time."""
        key = event, counted
        if key not in self._kinds:
            base = event.partition(":")[0] if event.partition(":")[2].isalpha() else event
            if counted and base in _CLOCKS:
                self._kinds[key] = None
            else:
                self._kinds[key] = self.rows.kind(event, base if counted else "samples", event if counted else f"samples of {event}")
        return self._kinds[key]


def is_idle(comm: str, tid: int) -> bool:
    """Whether a thread is the idle task of a processor."""
    return comm == _IDLE and tid == 0

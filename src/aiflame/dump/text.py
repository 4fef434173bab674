"""A dump as text for people, and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .deadlocks import deadlocks
from .described import Described, Frame, Thread
from .ranks import compared

_MOST_NAMES = 4


def as_text(processes: Sequence[Described], *, native: bool) -> Iterator[str]:
    """`native`: also the frames of the interpreter and of the C library."""
    yield from compared(processes)
    if len(processes) > 1:
        yield ""
    for number, process in enumerate(processes):
        if number:
            yield ""
        yield from _process(process, native)


def _process(process: Described, native: bool) -> Iterator[str]:
    rank = f"rank {process.rank}, " if process.rank is not None else ""
    python = f"Python {process.python}, " if process.python else ""
    count = len(process.threads)
    yield f"process {process.pid}: {process.command or process.name} ({rank}{python}{count} thread{'s' * (count > 1)})"
    yield from deadlocks(process)
    for note in process.notes:
        yield f"note: {note}"
    for threads in _grouped(process, native):
        yield ""
        yield _head(process, threads)
        for frame in _shown(threads[0], native):
            place = f"{frame.file}:{frame.line}" if frame.python else frame.file.rpartition("/")[2]
            yield f"    {frame.function}  {place}"
        if threads[0].note:
            yield f"    note: {threads[0].note}"


def _grouped(process: Described, native: bool) -> list[list[Thread]]:
    """Threads that do the same at the same place."""
    groups: dict[object, list[Thread]] = {}
    for thread in process.threads:
        key = (wait_text(process, thread), thread.holds_gil, tuple(_shown(thread, native)), thread.note)
        groups.setdefault(key, []).append(thread)
    return list(groups.values())


def _head(process: Described, threads: list[Thread]) -> str:
    first = threads[0]
    names = ", ".join(f"{thread.name} ({thread.tid})" for thread in threads[:_MOST_NAMES])
    more = f" and {len(threads) - _MOST_NAMES} more" if len(threads) > _MOST_NAMES else ""
    count = f"{len(threads)} threads: " if len(threads) > 1 else ""
    text = wait_text(process, first)
    if len(threads) > 1:
        text = "each " + text
    collective = f"; in the collective operation {first.collective}" if first.collective else ""
    return f"{count}{names}{more}: {text}{collective}{', and holds the GIL' if first.holds_gil else ''}"


def wait_text(process: Described, thread: Thread) -> str:
    """The reason of its wait, and its holder."""
    wait = thread.wait
    holder = process.thread(wait.holder)
    if holder is None:
        return wait.text
    who = "it" if holder is thread else f"{holder.name} ({holder.tid})"
    place = holder.place()
    if wait.kind == "thread":
        return f"waits for the end of thread {who}" + (f", which is {place}" if place else "")
    itself = " itself" if holder is thread else ""
    joint = ", which" if wait.kind == "gil" else " that"
    return f"{wait.text}{joint} {who} holds{itself}" + (f", {place}" if place and not itself else "")


def _shown(thread: Thread, native: bool) -> list[Frame]:
    if native or not any(frame.python for frame in thread.frames):
        return thread.frames
    return [frame for frame in thread.frames if not frame.inside]


def document(processes: Sequence[Described]) -> dict[str, object]:
    return {
        "ranks": compared(processes),
        "processes": [
            {
                "pid": process.pid,
                "name": process.name,
                "command": process.command,
                "python": process.python,
                "rank": process.rank,
                "notes": process.notes,
                "deadlocks": deadlocks(process),
                "threads": [_thread(process, thread) for thread in process.threads],
            }
            for process in processes
        ],
    }


def _thread(process: Described, thread: Thread) -> dict[str, object]:
    return {
        "tid": thread.tid,
        "name": thread.name,
        "state": thread.state,
        "waits": {"kind": thread.wait.kind, "text": wait_text(process, thread), "holder": thread.wait.holder},
        "holds_gil": thread.holds_gil,
        "collective": thread.collective,
        "stopped_us": thread.stopped_us,
        "note": thread.note,
        "frames": [{"function": frame.function, "file": frame.file, "line": frame.line, "python": frame.python} for frame in thread.frames],
    }

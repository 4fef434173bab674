"""Finds threads that wait for one another in a circle."""

from __future__ import annotations

from .described import Described, Thread

_WHAT = {"lock": "the lock that {} holds", "gil": "the GIL that {} holds", "thread": "the end of {}"}


def deadlocks(process: Described) -> list[str]:
    """A sentence for each circle."""
    waits = {thread.tid: thread.wait.holder for thread in process.threads if thread.wait.holder is not None and thread.wait.kind in _WHAT}
    seen, sentences = set[int](), list[str]()
    for start in waits:
        path: list[int] = []
        tid: int | None = start
        while tid is not None and tid not in path and tid not in seen:
            path.append(tid)
            tid = waits.get(tid)
        if tid in path:
            sentences.append(_sentence(process, path[path.index(tid) :]))
        seen.update(path)
    return sentences


def _sentence(process: Described, circle: list[int]) -> str:
    threads = [thread for tid in circle if (thread := process.thread(tid)) is not None]
    if len(threads) == 1:
        return f"deadlock: {_named(threads[0])} waits for {_what(threads[0], 'it')} itself"
    steps = [f"{_named(threads[0])} waits for {_what(threads[0], _named(threads[1]))}"]
    for number in range(1, len(threads)):
        after = threads[(number + 1) % len(threads)]
        steps.append(f"which waits for {_what(threads[number], _named(after))}")
    return f"deadlock: {', '.join(steps)}"


def _what(thread: Thread, who: str) -> str:
    return _WHAT[thread.wait.kind].format(who)


def _named(thread: Thread) -> str:
    return f"{thread.name} ({thread.tid})"

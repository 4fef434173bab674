"""Each thread's stack: native and Python frames merged, as the collector merges them.

A thread that sleeps is not touched: it is read, and then the kernel says that it has not run. One that runs is stopped for as long as its
registers and stack are copied. So no sleeping call is interrupted (`epoll_wait` would end with EINTR)."""

from __future__ import annotations

import time

from aiflame.recorder.looks import kernel
from aiflame.recorder.looks.interpreter import Call, PythonFrame
from aiflame.recorder.looks.memory import UnreadableError
from aiflame.values import dataclass, field

from .native_frames import CopiedStack, LiveStack, NativeFrame, NativeStack, unwind
from .python_frames import Python
from .stopping import NotStoppedError, Registers, stopped
from .target import Target, Task

_TRIES = 8
"""Looks at a thread that begins or ends to sleep meanwhile."""
_RAN = "it ran while it was read: its frames may come from different moments"
_COPIED, _BELOW = 256 << 10, 128
"""Bytes of a stack that are copied while its thread is stopped, and below the stack pointer."""
_SEARCHED = 4 << 10
"""Bytes of a stack in which a frame pointer is searched."""
_GOES_ON = frozenset((7, 23, 34, 35, 61, 130, 202, 230, 247, 270, 271))
"""poll, select, pause, nanosleep, wait4, sigsuspend, futex, clock_nanosleep, waitid, pselect6, ppoll: the kernel continues them after a
stop, whatever the program asked for. Others may end with EINTR."""


@dataclass(slots=True)
class Captured:
    task: Task
    call: kernel.Call | None = None
    """The system call in which it sleeps."""
    native: NativeStack = field(default_factory=lambda: NativeStack([], False, False))
    python: list[Call] = field(default_factory=list)
    stopped_us: int = 0
    """How long it was stopped; 0: not at all."""
    note: str = ""
    """Why its stack is not whole."""

    def merged(self) -> list[NativeFrame | PythonFrame]:
        """Innermost first; the Python frames of a call of the evaluator take the place of the evaluator's own frame."""
        merged: list[NativeFrame | PythonFrame] = []
        calls = list(self.python)
        for frame in self.native.frames:
            evaluates = False
            while calls and calls[0].evaluator < frame.high:
                evaluates = calls[0].evaluator >= frame.low
                merged += calls.pop(0).frames
            if not evaluates:
                merged.append(frame)
        for call in calls:
            merged += call.frames
        return merged


def capture(target: Target, python: Python | None) -> list[Captured]:
    return [one for task in target.tasks() if (one := _thread(target, python, task)) is not None]


def _thread(target: Target, python: Python | None, task: Task) -> Captured | None:
    """None if it has ended."""
    try:
        thread = kernel.Thread(target.pid, task.tid)
    except OSError:
        return None
    try:
        asleep = None
        for _ in range(_TRIES):
            before = thread.times(), thread.call()
            now = _asleep(target, python, task, before[1])
            if now is None:
                if (seen := _by_stopping(target, python, thread, task, None)) is not None:
                    return seen
                continue
            asleep = now
            may_stop = asleep.native.needs_bp and _goes_on(before[1])
            if asleep.native.needs_bp and not may_stop:
                _search(target, asleep)
            if (thread.times(), thread.call()) == before:
                return (_by_stopping(target, python, thread, task, asleep.call) if may_stop else None) or asleep
        if asleep is None:
            return _running(target, python, task)
        asleep.note = _RAN
        return asleep
    except OSError:
        return None
    finally:
        thread.close()


def _goes_on(line: bytes) -> bool:
    """Whether the kernel continues the thread after a stop as if there had been none."""
    call = kernel.parse_call(line)
    return line.startswith(b"running") or (call is not None and call.number in _GOES_ON)


def _asleep(target: Target, python: Python | None, task: Task, line: bytes) -> Captured | None:
    """None if it runs."""
    call = kernel.parse_call(line)
    words = line.split()
    if call is not None:
        registers = Registers(call.pc, call.sp, None)
    elif len(words) == 3:  # in the kernel, but not by a call: a page that is read from a disk, or a stop
        registers = Registers(int(words[2], 16), int(words[1], 16), None)
    else:
        return None
    captured = Captured(task, call)
    try:
        captured.native = unwind(registers, LiveStack(target.memory, registers.sp).word, target.memory, target.modules)
    except UnreadableError:
        captured.note = "its stack cannot be read"
    captured.python = python.calls(task.inner_tid) if python is not None else []
    return captured


def _search(target: Target, asleep: Captured) -> None:
    """Searches the stack for the frame pointer, which the kernel does not show: one that leads to the thread's first function."""
    innermost, last = asleep.native.frames[0], asleep.native.frames[-1]
    asleep.note = "its outer frames are missing: the kernel does not show its frame pointer, and a stop could end its system call"
    try:
        stack = LiveStack(target.memory, innermost.low)
        for slot in range(last.low, last.low + _SEARCHED, 8):
            if target.modules.known(stack.word(slot + 8)) and not 0 < stack.word(slot) <= slot:
                native = unwind(Registers(innermost.pc, innermost.low, slot), stack.word, target.memory, target.modules)
                if native.whole:
                    asleep.native, asleep.note = native, "its outer frames were found by a search of its stack"
                    return
    except UnreadableError:
        return


def _by_stopping(target: Target, python: Python | None, thread: kernel.Thread, task: Task, call: kernel.Call | None) -> Captured | None:
    """None if it cannot be stopped."""
    captured = Captured(task, call)
    try:
        with stopped(task.tid, lambda: _goes_on(thread.call())) as registers:
            begun = time.perf_counter_ns()
            low = registers.sp - _BELOW
            data = target.memory.read_some(low, _COPIED)
            captured.python = python.calls(task.inner_tid) if python is not None else []
    except (NotStoppedError, UnreadableError):
        return None
    captured.stopped_us = max((time.perf_counter_ns() - begun) // 1000, 1)
    captured.native = unwind(registers, CopiedStack(low, data).word, target.memory, target.modules)
    return captured


def _running(target: Target, python: Python | None, task: Task) -> Captured:
    """Without its registers: Python frames alone, read while it runs."""
    calls = python.calls(task.inner_tid) if python is not None else []
    return Captured(task, python=calls, note=f"{_RAN}, and native ones are missing")

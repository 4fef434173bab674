"""The wait of a thread in a system call, other than for a lock: a file, a socket, time, a child process."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

from aiflame.recorder.looks.kernel import Call, read
from aiflame.recorder.looks.memory import UnreadableError
from aiflame.values import dataclass

from .sockets import socket_name
from .target import Target, comm

_READS = {0: "read", 17: "pread", 19: "readv", 45: "recvfrom", 47: "recvmsg", 295: "preadv", 299: "recvmmsg"}
_WRITES = {1: "write", 18: "pwrite", 20: "writev", 44: "sendto", 46: "sendmsg", 40: "sendfile", 296: "pwritev", 307: "sendmmsg"}
_ON_FILES = {
    16: "ioctl",
    42: "connect",
    43: "accept",
    288: "accept",
    73: "flock",
    72: "fcntl",
    74: "fsync",
    75: "fdatasync",
    426: "io_uring",
}
_EPOLL = (232, 281, 441)
_OTHERS = {34: "a signal (pause)", 130: "a signal (sigsuspend)", 128: "a signal (sigtimedwait)", 257: "a file to be opened"}
_MOST_NAMED, _MOST_FILES = 3, 1024
_ABSOLUTE = 1
_ALL, _BY_PID, _BY_PIDFD = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Wait:
    kind: str
    """One of `KINDS`."""
    text: str
    """The predicate of a sentence about the thread: 'sleeps for 5 s'."""
    holder: int | None = None
    """The thread that can end the wait, if it is known."""


KINDS = {
    "runs": "runs on a CPU, or is ready to",
    "lock": "a lock: `holder` has it, if that is known",
    "gil": "Python's global lock",
    "condition": "a condition variable, an event, a semaphore or a queue",
    "thread": "the end of another thread",
    "child": "the end of a child process",
    "file": "a file, a pipe, a socket or a device",
    "events": "one of several files (poll, select, epoll)",
    "sleep": "time to pass",
    "signal": "a signal",
    "stopped": "stopped by a signal or a debugger",
    "other": "anything else in the kernel",
}


def file_wait(target: Target, call: Call, library: str) -> Wait:
    """`library`: the innermost one in its stack that is not the C library; it is named for a call of a driver."""
    number, arguments = call.number, call.arguments
    if number in _READS or number in _WRITES or number in _ON_FILES:
        verb = _READS.get(number) or _WRITES.get(number) or _ON_FILES[number]
        descriptor = arguments[0] & 0xFFFFFFFF
        what = file_name(target, descriptor)
        if number in _READS:
            return Wait("file", f"waits for data from {what} ({verb})")
        if number in _WRITES:
            return Wait("file", f"waits until {what} takes data ({verb})")
        return Wait("file", f"is in {verb} of {what}" + (f", called by {library}" if number == 16 and library else ""))
    if number in _EPOLL:
        return Wait("events", f"waits for events of {_all(target, _watched(target, arguments[0] & 0xFFFFFFFF))} (epoll)")
    if number in (7, 271):
        return _polled(target, arguments, _timeout_ms(arguments[2]) if number == 7 else _timespec(target, arguments[2]))
    if number in (23, 270):
        return _selected(target, arguments, number)
    if number in (35, 230):
        return _sleeps(target, arguments, number)
    if number in (61, 247):
        return _child(target, arguments, number)
    if number in _OTHERS:
        return Wait("signal" if number in (34, 128, 130) else "other", f"waits for {_OTHERS[number]}")
    return Wait("other", f"waits in system call {number}")


def file_name(target: Target, descriptor: int) -> str:
    link = target.file(descriptor)
    if not link:
        return f"file {descriptor}, which is closed"
    if link.startswith("socket:["):
        return socket_name(target.pid, link[8:-1])
    if link.startswith("pipe:["):
        return f"a pipe (file {descriptor})"
    if link.startswith("anon_inode:"):
        return f"{link[11:].strip('[]')} (file {descriptor})"
    return link


def _all(target: Target, descriptors: Iterable[int]) -> str:
    numbers = list(dict.fromkeys(descriptors))
    names = [file_name(target, number) for number in numbers[:_MOST_NAMED]]
    if not names:
        return "no file"
    more = len(numbers) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _watched(target: Target, descriptor: int) -> list[int]:
    """The files that an epoll file watches."""
    try:
        lines = Path(f"/proc/{target.pid}/fdinfo/{descriptor}").read_bytes().splitlines()
    except OSError:
        return []
    return [int(line.split()[1]) for line in lines if line.startswith(b"tfd:")]


def _polled(target: Target, arguments: tuple[int, ...], seconds: float | None) -> Wait:
    count = min(arguments[1], _MOST_FILES)
    try:
        data = target.memory.read(arguments[0], 8 * count) if count else b""
    except UnreadableError:
        return Wait("events", "waits for events of files (poll)")
    descriptors = [one for one, *_ in struct.iter_unpack("<iHH", data) if one >= 0]
    if not descriptors and seconds is not None:
        return Wait("sleep", f"sleeps for {_time(seconds)} (poll without files)")
    return Wait("events", f"waits for events of {_all(target, descriptors)} (poll{_at_most(seconds)})")


def _selected(target: Target, arguments: tuple[int, ...], number: int) -> Wait:
    count = min(arguments[0], _MOST_FILES)
    micro = number == 23
    seconds = _timespec(target, arguments[4], 1e6 if micro else 1e9)
    descriptors = list[int]()
    try:
        for place in arguments[1:4]:
            if place and count:
                bits = int.from_bytes(target.memory.read(place, (count + 63) // 64 * 8), "little")
                descriptors += [number for number in range(count) if bits >> number & 1]
    except UnreadableError:
        pass
    if not count and seconds is not None:
        return Wait("sleep", f"sleeps for {_time(seconds)} (select without files)")
    return Wait("events", f"waits for events of {_all(target, descriptors)} (select{_at_most(seconds)})")


def _sleeps(target: Target, arguments: tuple[int, ...], number: int) -> Wait:
    seconds = _timespec(target, arguments[0] if number == 35 else arguments[2])
    if seconds is None:
        return Wait("sleep", "sleeps")
    if number == 230 and arguments[1] & _ABSOLUTE:
        try:
            return Wait("sleep", f"sleeps for {_time(max(seconds - time.clock_gettime(arguments[0]), 0))} more")
        except OSError:
            return Wait("sleep", "sleeps until a point in time")
    return Wait("sleep", f"sleeps for {_time(seconds)}")


def _child(target: Target, arguments: tuple[int, ...], number: int) -> Wait:
    if number == 61:
        wanted = _signed(arguments[0])
        by = _BY_PID if wanted > 0 else _ALL
    else:
        by, wanted = arguments[0] & 0xFFFFFFFF, _signed(arguments[1])
    if by == _BY_PID:
        return Wait("child", f"waits for the end of its child process {wanted}{_named(wanted)}")
    if by == _BY_PIDFD:
        return Wait("child", f"waits for the end of a child process ({file_name(target, wanted)})")
    children = [pid for task in target.tasks() for pid in _children(target.pid, task.tid)]
    if not children:
        return Wait("child", "waits for the end of a child process")
    named = ", ".join(f"{pid}{_named(pid)}" for pid in children[:_MOST_NAMED])
    more = f" and {len(children) - _MOST_NAMED} more" if len(children) > _MOST_NAMED else ""
    return Wait("child", f"waits for the end of any child process: it has {named}{more}")


def _children(pid: int, tid: int) -> list[int]:
    try:
        return [int(word) for word in read(f"/proc/{pid}/task/{tid}/children").split()]
    except (OSError, ValueError):
        return []


def _named(pid: int) -> str:
    name = comm(pid)
    return f" ({name})" if name else ""


def _signed(word: int) -> int:
    low = word & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _timeout_ms(word: int) -> float | None:
    milliseconds = _signed(word)
    return milliseconds / 1000 if milliseconds >= 0 else None


def _timespec(target: Target, address: int, fraction: float = 1e9) -> float | None:
    """The seconds at this address; None: for ever."""
    try:
        seconds, parts = struct.unpack("<qq", target.memory.read(address, 16))
    except UnreadableError:
        return None
    return float(seconds + parts / fraction)


def _at_most(seconds: float | None) -> str:
    return f", at most {_time(seconds)}" if seconds is not None else ""


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"

"""Stops one thread of another process, for as long as its registers and its stack are copied (ptrace, without a signal to the thread)."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aiflame.values import dataclass

_GETREGS, _DETACH, _SEIZE, _INTERRUPT = 12, 17, 0x4206, 0x4207
_ALL_THREADS = 0x40000000
"""waitpid's __WALL: also threads that are no child processes."""
_PATIENCE_S, _SPIN_S, _PAUSE_S = 1.0, 0.002, 0.0002
"""It stops when it is next given a processor. One in the kernel's hands (disk sleep) does not: then it is let go when we end."""
_REGISTERS = struct.Struct("<27Q")
_STOPPED_BY_US = 128
"""PTRACE_EVENT_STOP"""


@dataclass(frozen=True, slots=True)
class Registers:
    pc: int
    sp: int
    bp: int | None
    """None: not known."""


class NotStoppedError(Exception):
    """The thread has ended, or the system does not let us stop it; the message says why."""


class _Libc:
    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._ptrace = library.ptrace
        self._ptrace.restype = ctypes.c_long
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def __call__(self, request: int, tid: int, data: object = None) -> None:
        ctypes.set_errno(0)
        if self._ptrace(request, tid, None, data) == -1 and (error := ctypes.get_errno()):
            raise OSError(error, os.strerror(error))


_libc: list[_Libc] = []


def _ptrace(request: int, tid: int, data: object = None) -> None:
    if not _libc:
        _libc.append(_Libc())
    _libc[0](request, tid, data)


@contextmanager
def stopped(tid: int, may: Callable[[], bool] = lambda: True) -> Iterator[Registers]:
    """The thread runs on when this ends, also when we are killed: the kernel then lets it go. A signal that arrives meanwhile is passed on.

    `may` is asked at the last moment."""
    if not may():
        raise NotStoppedError("it sleeps now")
    try:
        _ptrace(_SEIZE, tid)
    except OSError as error:
        raise NotStoppedError(error.strerror) from None
    signal = 0
    try:
        _ptrace(_INTERRUPT, tid)
        signal = _wait(tid)
        buffer = ctypes.create_string_buffer(_REGISTERS.size)
        _ptrace(_GETREGS, tid, ctypes.addressof(buffer))
        words = _REGISTERS.unpack(buffer.raw)
        yield Registers(words[16], words[19], words[4])
    except OSError as error:
        raise NotStoppedError(error.strerror) from None
    finally:
        with suppress(OSError):  # it has ended, or was killed while it was stopped
            _ptrace(_DETACH, tid, signal)


def _wait(tid: int) -> int:
    """Waits until it is stopped; returns a signal that it was about to get."""
    begun = time.monotonic()
    while True:
        pid, status = os.waitpid(tid, os.WNOHANG | _ALL_THREADS)
        if pid:
            if not os.WIFSTOPPED(status):
                raise NotStoppedError("it has ended")
            return 0 if status >> 16 == _STOPPED_BY_US else os.WSTOPSIG(status)
        waited = time.monotonic() - begun
        if waited > _PATIENCE_S:
            raise NotStoppedError("it does not stop")
        time.sleep(0 if waited < _SPIN_S else _PAUSE_S)

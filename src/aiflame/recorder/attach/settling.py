"""Gives busy threads of the program a stack for their ticks.

The collector gives one to a thread that waits, by a signal that interrupts the wait unnoticed. A thread that computes may keep data
below its stack pointer, which a signal would destroy: so we stop it, lend it an alternate stack, and send the same signal. Its handler
replaces that stack."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

from aiflame.recorder.attach.injector import Injector
from aiflame.recorder.attach.ptrace import LostError, Registers, Seized
from aiflame.recorder.looks.kernel import parse_call, read, threads_of

_SIGPROF, _FROM_TIMER, _COOKIE, _GREETING, _LENT, _OWN = 27, -2, 0x41464C4D, -2, -2, -1
"""As in `native/sampler/signals.hpp`."""
_QUEUE, _ALTERNATE_STACK = 297, 131
_ON_STACK, _DISABLED = 1, 2
_STACK_BYTES, _HEAD, _AT_ONCE = 64 << 10, 4096, 16
_STACK = struct.Struct("<QiiQ")
_INTERRUPTED = (-512, -513, -514, -516, -4)
_libc = ctypes.CDLL(None, use_errno=True)


class Settler:
    def __init__(self, pid: int, injector: Injector) -> None:
        self._pid, self._injector = pid, injector
        self._settled: set[int] = set()
        self._regions: list[int] = []
        self._free: list[int] = []
        self._lent: dict[int, int] = {}
        """By thread, the stack that it got."""

    def look(self) -> None:
        """Settles the threads that run at this moment and are not settled yet."""
        try:
            tids = set(threads_of(self._pid))
        except OSError:
            return
        self._settled &= tids
        for tid in tids - self._settled:
            try:
                if parse_call(read(f"/proc/{self._pid}/task/{tid}/syscall")) is None and self._takes_ticks(tid):
                    self._injector.trace(lambda tid=tid: self._settle(tid))  # type: ignore[misc]
            except (OSError, ValueError, LostError):  # noqa: PERF203
                continue  # it has ended, or is not to be had now

    def finish(self) -> None:
        """Takes the lent stacks away, when the collector has been taken out: a greeting that had not arrived by then never will."""
        missing = [tid for tid, low in self._lent.items() if not self._is_free(tid, low)]
        for region in self._regions if not missing else ():
            self._injector.unmap(region, _AT_ONCE * _STACK_BYTES)

    def _is_free(self, tid: int, low: int) -> bool:
        """True if the thread does not have its lent stack any more."""
        try:
            return self._injector.trace(lambda: self._take_back(tid, low))
        except (OSError, LostError):
            return not Path(f"/proc/{self._pid}/task/{tid}").exists()

    def _take_back(self, tid: int, low: int) -> bool:
        def disable(thread: Seized, registers: Registers, _: int) -> int:
            inject = self._injector
            if inject.system_call(thread, registers, _ALTERNATE_STACK, 0, low) != 0:
                return 0
            place, flags, _, _ = _STACK.unpack(inject.read(low, _STACK.size))
            if place != low + _HEAD or flags & _DISABLED:
                return 1
            inject.write(low, _STACK.pack(0, _DISABLED, 0, 0))
            return int(inject.system_call(thread, registers, _ALTERNATE_STACK, low, 0) == 0)

        with Seized(tid) as thread:
            thread.stop(0.2)
            return bool(self._injector.keeping_state(thread, thread.registers(), disable))

    def _settle(self, tid: int) -> None:
        with Seized(tid) as thread:
            thread.stop(0.05)
            registers = thread.registers()
            if registers.signed("orig_rax") >= 0 and registers.signed("rax") in _INTERRUPTED:
                self._injector.repeat_ended_call(thread, registers)
                return
            if thread.mask() >> (_SIGPROF - 1) & 1:
                self._settled.add(tid)
                return
            how = self._injector.keeping_state(thread, registers, self._lend)
            if how:
                if how == _LENT:
                    self._lent[tid] = self._free.pop()
                _greet(self._pid, tid, how)
                self._settled.add(tid)

    def _lend(self, thread: Seized, registers: Registers, _: int) -> int:
        """Lends a stack to a thread without one. 0: the thread is on its alternate stack now."""
        inject = self._injector
        if not self._free:
            region = inject.map(thread, registers, _AT_ONCE * _STACK_BYTES)
            self._regions.append(region)
            self._free = [region + number * _STACK_BYTES for number in range(_AT_ONCE)]
        low = self._free[-1]
        if inject.system_call(thread, registers, _ALTERNATE_STACK, 0, low) != 0:
            return 0
        _, flags, _, _ = _STACK.unpack(inject.read(low, _STACK.size))
        if flags & _ON_STACK:
            return 0
        if not flags & _DISABLED:
            return _OWN
        inject.write(low, _STACK.pack(low + _HEAD, 0, 0, _STACK_BYTES - _HEAD))
        if inject.system_call(thread, registers, _ALTERNATE_STACK, low, 0) != 0:
            return 0
        return _LENT

    def _takes_ticks(self, tid: int) -> bool:
        """False where the collector's handler is not in place: the signal would end the program."""
        for line in read(f"/proc/{self._pid}/task/{tid}/status").splitlines():
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (_SIGPROF - 1) & 1)
        return False


def _greet(pid: int, tid: int, overrun: int) -> None:
    info = struct.pack("<iii4xiii", _SIGPROF, 0, _FROM_TIMER, _GREETING, overrun, _COOKIE).ljust(128, b"\0")
    _libc.syscall(_QUEUE, pid, tid, _SIGPROF, ctypes.create_string_buffer(info, 128))

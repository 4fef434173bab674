"""The system call ptrace, for threads of another process. All calls for a thread come from the thread of ours that seized it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import time

_CONT, _SINGLE_STEP, _GET_REGISTERS, _SET_REGISTERS, _DETACH = 7, 9, 12, 13, 17
_GET_REGISTER_SET, _SET_REGISTER_SET, _SEIZE, _INTERRUPT = 0x4204, 0x4205, 0x4206, 0x4207
_GET_MASK, _SET_MASK, _GET_FILTER = 0x420A, 0x420B, 0x420C
_EXTENDED_STATE = 0x202
"""NT_X86_XSTATE: registers of floating point and vectors, as the instruction XSAVE stores them."""
_EVENT_STOP = 128
_ALL_THREADS = 0x40000000
"""__WALL"""
_OF_THIS_THREAD = 0x20000000
"""__WNOTHREAD: a child of ours has another thread for its parent, and its end is for others to see."""
_LARGEST_STATE = 64 << 10
_TRAP = 5
_LAST_PATIENCE_S = 0.2

NAMES = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs",
    "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
)  # fmt: skip
"""The kernel's `user_regs_struct`."""


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Registers(ctypes.Structure):
    """General registers. `orig_rax` is the number of the system call that was interrupted, -1 outside of one."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in NAMES)

    def copy(self) -> Registers:
        return Registers.from_buffer_copy(self)

    def get(self, name: str) -> int:
        return int(getattr(self, name))

    def signed(self, name: str) -> int:
        value = self.get(name)
        return value - (1 << 64) if value >> 63 else value


def reap(tid: int) -> None:
    """Takes note of the end of a thread that was traced: its process ends no sooner."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(tid, os.WNOHANG | _ALL_THREADS | _OF_THIS_THREAD)


class LostError(Exception):
    """The thread has ended, or does not stop."""


class Seized:
    """A thread that we trace, and stop at times. `with`: it is let go in any case, in the state in which it is then."""

    def __init__(self, tid: int) -> None:
        """OSError if the system does not allow it."""
        self.tid = tid
        self.stopped = False
        _ptrace(_SEIZE, tid, 0, 0)

    def __enter__(self) -> Seized:
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def stop(self, patience_s: float) -> None:
        """Stops the thread where it is. LostError: it has ended, or sleeps in a call that nothing interrupts."""
        _ptrace(_INTERRUPT, self.tid, 0, 0)
        self._wait(patience_s, _EVENT_STOP)

    def go_on(self, signal: int = 0) -> None:
        _ptrace(_CONT, self.tid, 0, signal)
        self.stopped = False

    def step(self, patience_s: float) -> None:
        """Runs one instruction."""
        _ptrace(_SINGLE_STEP, self.tid, 0, 0)
        self.stopped = False
        self._wait(patience_s, 0)

    def registers(self) -> Registers:
        registers = Registers()
        _ptrace(_GET_REGISTERS, self.tid, 0, ctypes.addressof(registers))
        return registers

    def set_registers(self, registers: Registers) -> None:
        _ptrace(_SET_REGISTERS, self.tid, 0, ctypes.addressof(registers))

    def extended_state(self) -> bytes:
        buffer = ctypes.create_string_buffer(_LARGEST_STATE)
        vector = _Vector(ctypes.addressof(buffer), _LARGEST_STATE)
        _ptrace(_GET_REGISTER_SET, self.tid, _EXTENDED_STATE, ctypes.addressof(vector))
        return buffer.raw[: vector.length]

    def set_extended_state(self, state: bytes) -> None:
        buffer = ctypes.create_string_buffer(state, len(state))
        vector = _Vector(ctypes.addressof(buffer), len(state))
        _ptrace(_SET_REGISTER_SET, self.tid, _EXTENDED_STATE, ctypes.addressof(vector))

    def mask(self) -> int:
        mask = ctypes.c_uint64()
        _ptrace(_GET_MASK, self.tid, 8, ctypes.addressof(mask))
        return mask.value

    def set_mask(self, mask: int) -> None:
        value = ctypes.c_uint64(mask)
        _ptrace(_SET_MASK, self.tid, 8, ctypes.addressof(value))

    def filter(self, number: int) -> bytes:
        """A filter of its system calls, the last one first; empty: it has no more. OSError: it is not for us to read."""
        try:
            count = _ptrace(_GET_FILTER, self.tid, number, 0)
        except FileNotFoundError:
            return b""
        buffer = ctypes.create_string_buffer(8 * count)
        _ptrace(_GET_FILTER, self.tid, number, ctypes.addressof(buffer))
        return buffer.raw

    def let_go(self) -> None:
        try:
            if not self.stopped:
                self.stop(_LAST_PATIENCE_S)
            _ptrace(_DETACH, self.tid, 0, 0)
        except (OSError, LostError):
            pass  # it has ended, or the kernel lets go of it when our thread ends
        self.stopped = False

    def _wait(self, patience_s: float, event: int) -> None:
        """Waits for a stop by this event, 0: for the trap after a step. A signal of the program that comes before is delivered."""
        until, pause = time.monotonic() + patience_s, 20e-6
        while True:
            try:
                pid, status = os.waitpid(self.tid, os.WNOHANG | _ALL_THREADS)
            except ChildProcessError:
                raise LostError("the thread has ended") from None
            if pid == 0:
                if time.monotonic() >= until:
                    raise LostError("the thread does not stop")
                time.sleep(pause)
                pause = min(pause * 2, 1e-3)
                continue
            if not os.WIFSTOPPED(status):
                raise LostError("the thread has ended")
            self.stopped = True
            signal = os.WSTOPSIG(status)
            if status >> 16 == event and signal == _TRAP:
                return
            if status >> 16 == _EVENT_STOP and signal != _TRAP:
                raise LostError("the process was stopped by a signal")
            self.go_on(0 if status >> 16 else signal)


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


def _ptrace(request: int, tid: int, address: int, data: int) -> int:
    result = int(_libc.ptrace(request, tid, address, data))
    if result == -1:
        number = ctypes.get_errno()
        if number == errno.ESRCH and request != _SEIZE:
            raise LostError("the thread has ended")
        raise OSError(number, os.strerror(number))
    return result

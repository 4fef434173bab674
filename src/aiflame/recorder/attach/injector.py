"""Makes a program that runs call a function of a library, in a new thread of its own that ends with the call.

One thread is borrowed for a moment: it must be at a safe point (`safe_point`), gets a piece of memory, makes the new thread, and goes on
where it was: in its system call, which the kernel repeats or ends as it would have without us. No other thread is stopped.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from aiflame.errors import AiflameError
from aiflame.recorder.attach import code
from aiflame.recorder.attach.elf import exported
from aiflame.recorder.attach.ptrace import LostError, Registers, Seized, reap
from aiflame.recorder.attach.safe_point import SafePoints
from aiflame.recorder.attach.target import image, tracer_of
from aiflame.recorder.looks.kernel import Call, parse_call, read, threads_of
from aiflame.recorder.looks.memory import Memory, UnreadableError
from aiflame.recorder.looks.modules import Modules
from aiflame.recorder.numbers import Numbers
from aiflame.values import dataclass

_STOP_S, _BORROW_S, _STEP_S = 0.05, 2.0, 0.5
_MMAP, _MPROTECT, _MUNMAP = 9, 10, 11
_READ_WRITE, _READ_EXECUTE, _PRIVATE_ANONYMOUS = 3, 5, 0x22
_FAULTS = sum(1 << (number - 1) for number in (4, 5, 7, 8, 11, 31))
"""Signals that an instruction causes: they are not held back."""
_ALL_BUT_FAULTS = (1 << 64) - 1 & ~_FAULTS
_EINTR, _RESTART_BLOCK = -4, -516
_RESTARTS = (-512, -513, -514)
_RESTART_CALL = 219
_ENDED_BY_STOPS = frozenset((232, 281, 441, 65, 220, 70, 69, 208, 128))
"""System calls that end with EINTR when a thread is only stopped: epoll_wait, epoll_pwait(2), semop, semtimedop, msgrcv, msgsnd,
io_getevents, rt_sigtimedwait."""
_OF_MEMORY_AND_THREADS = frozenset((9, 10, 11, 12, 25, 28, 56, 57, 58, 59, 60, 231, 273, 322, 435))
"""mmap, mprotect, munmap, brk, mremap, madvise, clone, fork, vfork, execve, exit, exit_group, set_robust_list, execveat, clone3."""
_CODE_64 = 0x33
_DIRECTION, _TRACE = 0x400, 0x100
"""Flags: strings run backwards; the processor stops after each instruction."""
_LOOK_S = 0.004
"""For so long a thread is stopped while its stack is read."""
_OFTEN = 24
_LIBC = re.compile(r"/(libc|libpthread|libdl)([.-][\d.]+)?\.so[\d.]*$")


@dataclass(frozen=True, slots=True)
class Result:
    """The value of the function, or the reason for which it was not called."""

    value: int
    problem: str
    paused_s: float
    """For how long the borrowed thread was stopped or worked for us, at most at a time."""
    tries: int


_Use = Callable[[Seized, Registers, int], int]
"""What to do with a borrowed thread, its registers and its signal mask."""


_T = TypeVar("_T")


class NotNowError(Exception):
    """This thread cannot be borrowed at the moment."""


class Injector:
    def __init__(self, pid: int) -> None:
        """PermissionError, or AiflameError if the program lacks a function that is needed."""
        self._pid = pid
        self._image = image(pid)
        self._numbers = Numbers.of(pid)
        self._memory = Memory(pid)
        self._writable = os.open(f"/proc/{pid}/mem", os.O_WRONLY | os.O_CLOEXEC)
        """Of the program that runs now: after exec nothing is written through it."""
        self.longest_s = 0.0
        """The longest stop of a thread so far."""
        self._tries = 0
        try:
            self._look_up()
        except BaseException:
            self.close()
            raise

    def _look_up(self) -> None:
        pid = self._pid
        self._modules = Modules(pid, self._memory)
        files = self._modules.every()
        functions: dict[bytes, tuple[int, int]] = {}
        for module in files:
            if _LIBC.search(module.path):
                functions = exported(self._memory, module.first, module.base) | functions
        names = (b"pthread_create", b"pthread_detach", b"__errno_location", b"dlopen", b"dlsym", b"dlerror")
        missing = [name.decode() for name in names if name not in functions]
        if missing:
            raise AiflameError(f"process {pid} has no {missing[0]}: its C library is not glibc, or older than 2.34 and without threads")
        self._functions = code.Functions(*(functions[name][0] for name in names))
        self._safe = SafePoints(self._memory, self._modules, files)
        place = functions.get(b"syscall")
        instructions = self._memory.read(place[0], place[1]).find(b"\x0f\x05") if place else -1
        if place is None or instructions < 0:
            raise AiflameError(f"process {pid} has no function for system calls: its C library is not glibc")
        self._instruction = place[0] + instructions

    def close(self) -> None:
        self._memory.close()
        os.close(self._writable)

    def call(
        self, path: Path, function: str, argument: bytes, patience_s: float = 10.0, gives_up: Callable[[], bool] = lambda: False
    ) -> Result:
        """Calls `function(argument)` of the library at `path`. AiflameError: no thread could be borrowed, or the call has not ended.
        KeyboardInterrupt: `gives_up` said so before a thread was borrowed."""
        wanted = code.Call(os.fsencode(path), function.encode(), argument)
        if len(wanted.path) > code.LONGEST_PATH or len(argument) > code.LONGEST_ARGUMENT:
            raise AiflameError(f"the path of the profile or of {path.name} is too long to attach with: choose another place with -o")
        return self.trace(lambda: self._call(wanted, time.monotonic() + patience_s, gives_up))

    def unmap(self, address: int, size: int) -> None:
        """Gives memory of the program back."""
        self.trace(lambda: self._unmap(address, size, time.monotonic() + 2))

    def _unmap(self, address: int, size: int, until: float) -> int:
        return self.borrow(lambda thread, registers, _: self.system_call(thread, registers, _MUNMAP, address, size), until, safe=False)

    @staticmethod
    def trace(work: Callable[[], _T]) -> _T:
        """Does work that traces threads in a thread of its own: when that ends, the kernel lets go of all that it has traced."""
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(work())
            except BaseException as error:  # raised again below
                errors.append(error)

        worker = threading.Thread(target=run, name="attach")
        worker.start()
        worker.join()
        if errors:
            raise errors[0]
        return results[0]

    def _call(self, wanted: code.Call, until: float, gives_up: Callable[[], bool]) -> Result:
        base = self.borrow(lambda thread, registers, mask: self._start(thread, registers, mask, wanted), until, gives_up)
        seen = self._await_end(base, until)
        self._unmap(base, code.WHOLE, until + 2)
        problem = "" if seen.outcome == code.RETURNED else seen.error.decode(errors="replace") or "the library lacks the function"
        return Result(seen.result, problem, self.longest_s, self._tries)

    def _await_end(self, base: int, until: float) -> code.Seen:
        while True:
            try:
                seen = self._seen(base)
            except UnreadableError:
                raise AiflameError(f"process {self._pid} ended while we attached") from None
            if seen.outcome and not self._runs(seen.tid):
                return seen
            if time.monotonic() > until:
                raise AiflameError(
                    f"process {self._pid} has not loaded the collector in time: another of its threads may hold the dynamic linker's lock"
                )
            time.sleep(0.0005)

    def _runs(self, tid: int) -> bool:
        """Whether there is a thread with this number, which it has for the program itself."""
        here = self._numbers.thread_here(self._pid, tid)
        return here is not None and Path(f"/proc/{self._pid}/task/{here}").exists()

    def _seen(self, base: int) -> code.Seen:
        return code.Seen.parse(self._memory.read(code.data_address(base), code.DATA_BYTES))

    def borrow(self, use: _Use, until: float, gives_up: Callable[[], bool] = lambda: False, *, safe: bool = True) -> int:
        """Tries threads until one can be borrowed. To be called in `trace`. Not `safe`: `use` runs no code of the program's."""
        reason = "it has no threads"
        pause = 0.0005
        while True:
            for tid, call in self._candidates():
                if gives_up():
                    raise KeyboardInterrupt
                self._tries += 1
                try:
                    return self._borrow_thread(tid, call, use, safe=safe)
                except (NotNowError, LostError) as error:
                    reason = str(error)
                except UnreadableError:
                    reason = "its memory cannot be read"
                except ProcessLookupError:
                    reason = "the thread has ended"
                if time.monotonic() > until:
                    raise AiflameError(f"no thread of process {self._pid} could be borrowed: {reason}: try again")
            if image(self._pid) is None:
                raise AiflameError(f"process {self._pid} ended while we attached")
            if time.monotonic() > until:
                raise AiflameError(f"no thread of process {self._pid} could be borrowed: {reason}: try again")
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 1.5, 0.02)

    def _candidates(self) -> Iterator[tuple[int, Call | None]]:
        """Threads: first those that wait in a call which goes on as if nothing had been, then those that run, then the others."""
        ranked = []
        try:
            tids = threads_of(self._pid)
        except OSError:
            return
        random.shuffle(tids)
        for tid in tids[:_OFTEN]:
            try:
                call = parse_call(read(f"/proc/{self._pid}/task/{tid}/syscall"))
            except (OSError, ValueError):
                continue
            rank = 1 if call is None else 2 if call.number in _ENDED_BY_STOPS else 0
            if call is not None and self._safe.reason_against(call.pc, call.sp, 0, waits=True):
                rank = 3
            ranked.append((rank, tid, call))
        for _, tid, call in sorted(ranked, key=lambda one: one[0]):
            yield tid, call

    def _borrow_thread(self, tid: int, call: Call | None, use: _Use, *, safe: bool) -> int:
        if not _can_stop(self._pid, tid):
            reap(tid)
            raise NotNowError("it sleeps in a call that nothing interrupts")
        try:
            seized = Seized(tid)
        except PermissionError:
            if tracer_of(tid):
                raise NotNowError("another process traces it") from None
            raise AiflameError(f"the system does not let us trace process {self._pid}") from None
        with seized as thread:
            thread.stop(_STOP_S)
            began = time.monotonic()
            try:
                registers = thread.registers()
                if registers.get("cs") != _CODE_64:
                    raise NotNowError("it runs 32-bit code")
                reason = self._reason_against(registers, began + _LOOK_S) if safe else ""
                if reason:
                    self.repeat_ended_call(thread, registers)
                    raise NotNowError(reason)
                return self.keeping_state(thread, registers, use)
            finally:
                self.longest_s = max(self.longest_s, time.monotonic() - began)

    def _reason_against(self, registers: Registers, until: float) -> str:
        number = registers.signed("orig_rax")
        if number in _OF_MEMORY_AND_THREADS:
            return "it is in a system call that libc makes with a lock held"
        places = registers.get("rip"), registers.get("rsp"), registers.get("rbp")
        return self._safe.reason_against(*places, waits=number >= 0, until=until)

    def is_same_program(self) -> bool:
        """False after exec, when all addresses are others."""
        return image(self._pid) == self._image

    def keeping_state(self, thread: Seized, before: Registers, use: _Use) -> int:
        if not self.is_same_program():
            raise AiflameError(f"process {self._pid} has started another program")
        vectors, mask = thread.extended_state(), thread.mask()
        thread.set_mask(_ALL_BUT_FAULTS)
        try:
            return use(thread, before, mask)
        finally:
            thread.set_extended_state(vectors)
            thread.set_registers(before)
            thread.set_mask(mask)
            self.repeat_ended_call(thread, before)

    def repeat_ended_call(self, thread: Seized, registers: Registers) -> None:
        """A call that only our stop has ended is made again, unless a signal of the program's is about to end it."""
        if (
            registers.signed("rax") != _EINTR
            or registers.signed("orig_rax") not in _ENDED_BY_STOPS
            or _signal_pending(self._pid, thread.tid)
        ):
            return
        again = registers.copy()
        again.rip, again.rax = registers.get("rip") - 2, registers.get("orig_rax")
        again.orig_rax = (1 << 64) - 1
        thread.set_registers(again)

    def _start(self, thread: Seized, registers: Registers, mask: int, wanted: code.Call) -> int:
        """Lets the thread make the new one; returns the address of the memory."""
        base = self.map(thread, registers, code.WHOLE)
        program, data, end = code.memory(
            base, wanted, self._functions, _as_repeated(registers), mask, thread.extended_state()[: code.MOST_VECTORS]
        )
        self.write(base, program)
        self.write(code.data_address(base), data)
        self.write(base + code.WHOLE - code.STACK_END, end)
        if self.system_call(thread, registers, _MPROTECT, base, code.CODE_BYTES, _READ_EXECUTE) != 0:
            self.system_call(thread, registers, _MUNMAP, base, code.WHOLE)
            raise AiflameError(f"process {self._pid} may not make memory executable (SELinux, or a sandbox): it cannot be attached to")
        begun = registers.copy()
        begun.rip, begun.rsp, begun.orig_rax, begun.rax = base, code.stack_pointer(base), (1 << 64) - 1, 0
        begun.eflags = registers.get("eflags") & ~(_DIRECTION | _TRACE)
        thread.set_registers(begun)
        thread.go_on()
        self._await_thread(thread, base)
        seen = self._seen(base)
        if seen.created:
            self.system_call(thread, registers, _MUNMAP, base, code.WHOLE)
            raise AiflameError(f"process {self._pid} cannot make a thread: {os.strerror(seen.created)}")
        return base

    def map(self, thread: Seized, registers: Registers, size: int) -> int:
        """New memory of the program."""
        base = self.system_call(thread, registers, _MMAP, 0, size, _READ_WRITE, _PRIVATE_ANONYMOUS, (1 << 64) - 1, 0)
        if base >= -4095 & (1 << 64) - 1:
            raise NotNowError("the system gives it no memory")
        return base

    def read(self, address: int, size: int) -> bytes:
        return self._memory.read(address, size)

    def _await_thread(self, thread: Seized, base: int) -> None:
        until = time.monotonic() + _BORROW_S
        while self._seen(base).state == code.BORROWED:
            if time.monotonic() > until:
                thread.stop(_BORROW_S)
                raise AiflameError(f"process {self._pid}: the borrowed thread did not come back in time")
            time.sleep(20e-6)
        thread.stop(_BORROW_S)

    def system_call(self, thread: Seized, registers: Registers, number: int, *arguments: int) -> int:
        call = registers.copy()
        call.rip, call.rax, call.orig_rax = self._instruction, number, (1 << 64) - 1
        call.eflags = registers.get("eflags") & ~(_DIRECTION | _TRACE)
        for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), arguments, strict=False):
            setattr(call, name, value)
        thread.set_registers(call)
        thread.step(_STEP_S)
        return thread.registers().get("rax")

    def write(self, address: int, data: bytes) -> None:
        if os.pwrite(self._writable, data, address) != len(data):
            raise UnreadableError


def _as_repeated(registers: Registers) -> Registers:
    """The registers with which a thread repeats its interrupted system call by itself."""
    result = registers.copy()
    if registers.signed("orig_rax") >= 0 and registers.signed("rax") in (*_RESTARTS, _RESTART_BLOCK):
        result.rip = registers.get("rip") - 2
        result.rax = _RESTART_CALL if registers.signed("rax") == _RESTART_BLOCK else registers.get("orig_rax")
    return result


def _can_stop(pid: int, tid: int) -> bool:
    try:
        return read(f"/proc/{pid}/task/{tid}/stat").rpartition(b")")[2].split(None, 1)[0] in (b"R", b"S", b"I")
    except (OSError, IndexError):
        return False


def _signal_pending(pid: int, tid: int) -> bool:
    facts = dict(line.split(b":", 1) for line in read(f"/proc/{pid}/task/{tid}/status").splitlines() if b":" in line)
    pending = int(facts[b"SigPnd"], 16) | int(facts[b"ShdPnd"], 16)
    return bool(pending & ~int(facts[b"SigBlk"], 16))

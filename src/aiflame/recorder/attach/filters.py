"""Whether the filters of system calls (seccomp) of a container would end a program for the calls that a recording makes in it.

A container's runtime sets filters before the program begins; most of them answer a forbidden call with an error, which does no harm.
The kernel gives them to root, as programs for a small machine (classic BPF), which are run here for each of our calls."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from aiflame.recorder.attach.ptrace import Seized

_X86_64, _ENTRY = 0xC000003E, 0x1000
_ALLOW, _LOG, _ERROR = 0x7FFF0000, 0x7FFC0000, 0x00050000
_HARMLESS = tuple(answer >> 16 for answer in (_ALLOW, _LOG, _ERROR))
_MOST_FILTERS, _MOST_STEPS = 64, 1 << 16
_THREAD = 0x3D0F00
"""Flags with which libc makes a thread."""

_PLAIN = (
    # read, write, close, fstat, lseek, mmap, mprotect, munmap, brk
    *(0, 1, 3, 5, 8, 9, 10, 11, 12),
    # rt_sigaction, rt_sigprocmask, rt_sigreturn, pread64, sched_yield, mremap, msync, madvise, nanosleep, getpid
    *(13, 14, 15, 17, 24, 25, 26, 28, 35, 39),
    # recvmsg, bind, exit, wait4, fcntl, getcwd, sigaltstack, gettid, futex, getdents64
    *(47, 49, 60, 61, 72, 79, 131, 186, 202, 217),
    # timer_create, timer_settime, timer_gettime, timer_delete, clock_gettime, tgkill
    *(222, 223, 224, 226, 228, 234),
    # openat, mkdirat, newfstatat, unlinkat, renameat, readlinkat, faccessat
    *(257, 258, 262, 263, 264, 267, 269),
    # set_robust_list, fallocate, rt_tgsigqueueinfo, prlimit64, process_vm_readv
    *(273, 285, 297, 302, 310),
    # getrandom, membarrier, rseq, clone3
    *(318, 324, 334, 435),
)
CALLS: dict[int, tuple[int, ...]] = {
    **dict.fromkeys(_PLAIN, ()),
    10: (0, 4096, 5),  # mprotect: read and execute
    41: (1, 0o2000002, 0),  # socket: AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC
    53: (1, 2, 0),  # socketpair: AF_UNIX, SOCK_DGRAM
    56: (_THREAD,),  # clone
    157: (15,),  # prctl: PR_SET_NAME
}
"""System calls that the injector, the collector and our Python may make in a program, with the arguments that matter to filters."""

Instruction = tuple[int, int, int, int]
"""`struct sock_filter`: code, jump if true, jump if false, value."""


def would_end(tid: int) -> str:
    """Why a recording could end the program: empty where no filter does. To be called in `Injector.trace`. OSError: the filters are not for
    us to read; LostError."""
    with Seized(tid) as thread:
        thread.stop(0.2)
        filters = [list(_parsed(thread.filter(number))) for number in range(_count(thread))]
    for call, arguments in CALLS.items():
        if any(action(program, call, arguments) not in _HARMLESS for program in filters):
            return f"the filters of system calls of its container would end it for call {call}"
    return ""


def _count(thread: Seized) -> int:
    for number in range(_MOST_FILTERS):
        if not thread.filter(number):
            return number
    return _MOST_FILTERS


def _parsed(program: bytes) -> Iterator[Instruction]:
    return struct.iter_unpack("<HBBI", program)


def action(program: Sequence[Instruction], call: int, arguments: Sequence[int] = ()) -> int:
    """The upper half of a filter's answer to a call; 0, which ends the program, where the filter cannot be followed."""
    data = struct.pack("<iIQ6Q", call, _X86_64, _ENTRY, *(*arguments, *(0,) * (6 - len(arguments))))
    value, index, memory, at = 0, 0, [0] * 16, 0
    for _ in range(_MOST_STEPS):
        if at >= len(program):
            return 0
        code, when_true, when_false, constant = program[at]
        at += 1
        kind, operand = code & 7, index if code & 8 else constant
        if kind in (0, 1):  # load
            mode = code & 0xE0
            if mode == 0x20 and constant + 4 <= len(data):
                loaded = struct.unpack_from("<I", data, constant)[0]
            elif mode in (0x00, 0x60, 0x80):
                loaded = constant if mode == 0 else memory[constant % 16] if mode == 0x60 else len(data)
            else:
                return 0
            value, index = (loaded, index) if kind == 0 else (value, loaded)
        elif kind in (2, 3):  # store
            memory[constant % 16] = value if kind == 2 else index
        elif kind == 4:
            result = _computed(code & 0xF0, value, operand)
            if result is None:
                return 0
            value = result
        elif kind == 5:  # jump
            how = code & 0xF0
            if how == 0:
                at += constant
                continue
            answers = {0x10: value == operand, 0x20: value > operand, 0x30: value >= operand, 0x40: bool(value & operand)}
            if how not in answers:
                return 0
            at += when_true if answers[how] else when_false
        elif kind == 6:  # return
            return (value if code & 0x18 == 0x10 else constant) >> 16
        else:
            value, index = (value, value) if code & 0xF8 == 0 else (index, index)
    return 0


def _computed(operation: int, value: int, operand: int) -> int | None:
    if operation in (0x30, 0x90) and operand == 0:
        return None
    results = {
        0x00: lambda: value + operand,
        0x10: lambda: value - operand,
        0x20: lambda: value * operand,
        0x30: lambda: value // operand,
        0x40: lambda: value | operand,
        0x50: lambda: value & operand,
        0x60: lambda: value << operand if operand < 32 else 0,
        0x70: lambda: value >> operand if operand < 32 else 0,
        0x80: lambda: -value,
        0xA0: lambda: value ^ operand,
    }
    return results[operation]() & 0xFFFFFFFF if operation in results else None

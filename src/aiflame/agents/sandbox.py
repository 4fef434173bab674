"""Limits that the kernel enforces on this process for the rest of its life: memory, CPU time, no opening of files, no network.

The filter of system calls is for Linux on x86-64 and AArch64. On other systems, or if it is not permitted, the other limits hold.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from pathlib import Path

_PR_SET_NO_NEW_PRIVS, _SET_MODE_FILTER, _ALL_THREADS = 38, 1, 1  # linux/prctl.h, linux/seccomp.h
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h: BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
_NUMBER, _ARCHITECTURE = 0, 4
"""Offsets in struct seccomp_data."""
_MACHINES = {
    # AUDIT_ARCH, seccomp, then: open, openat, openat2, creat, socket, socketpair, connect, io_uring_setup, execve, execveat, memfd_create
    "x86_64": (0xC000003E, 317, (2, 257, 437, 85, 41, 53, 42, 425, 59, 322, 319)),
    "aarch64": (0xC00000B7, 277, (56, 437, 198, 199, 203, 425, 221, 281, 279)),
}
"""Numbers of system calls, from the kernel's tables."""


def limit(memory: int, cpu_seconds: int) -> None:
    """Allows at most this many more bytes of memory, and this many seconds of CPU time in all. No file may grow."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _lower(resource.RLIMIT_AS, size + memory)
    _lower(resource.RLIMIT_CPU, cpu_seconds)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)


def shut() -> bool:
    """From now on no thread of this process can open a file or a connection, or start a program. False if the kernel has no such filter."""
    if platform.machine() not in _MACHINES:
        return False
    architecture, seccomp, refused = _MACHINES[platform.machine()]
    lines = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _REFUSE), (_LOAD, 0, 0, _NUMBER)]
    for count, number in enumerate(refused):
        lines.append((_EQUAL, len(refused) - count, 0, number))
    lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    header = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return bool(libc.syscall(seccomp, _SET_MODE_FILTER, _ALL_THREADS, ctypes.c_char_p(header)) == 0)


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bound, bound))

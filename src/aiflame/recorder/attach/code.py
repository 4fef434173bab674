"""The machine code that a program runs for us: one of its threads makes a new thread, which calls a function of a library.

The thread that is borrowed runs `pthread_create` and then waits for us in a loop, so that we restore its registers while it is stopped.
If we are killed meanwhile, it restores them itself after some seconds.
"""

from __future__ import annotations

import struct

from aiflame.recorder.attach.ptrace import Registers
from aiflame.values import dataclass

CODE_BYTES, DATA_BYTES, STACK_BYTES = 4096, 16 << 10, 256 << 10
WHOLE = CODE_BYTES + DATA_BYTES + STACK_BYTES
"""The memory that we map in the program: code, then data, then a stack."""
_STATE, _CREATED, _THREAD, _TID, _DONE, _RESULT = 0, 4, 8, 16, 20, 24
_MASK, _NAME, _ARGUMENT, _PATH, _ERROR = 32, 64, 128, 1024, 3072
_VECTORS = 4096
"""Registers of floating point and vectors."""
_ERROR_BYTES = 1000
LONGEST_PATH = _ERROR - _PATH - 1
LONGEST_ARGUMENT = _PATH - _ARGUMENT - 1
LONGEST_NAME = _ARGUMENT - _NAME - 1
_RESTORED = ("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "eflags")
_PATIENCE_CYCLES = 10_000_000_000
BORROWED, WAITS, RESTORED_ITSELF = 0, 1, 2
"""States of the borrowed thread."""
RUNS, RETURNED, FAILED = 0, 1, 2
"""States of the new thread."""
_THREAD_NAME = b"aiflame"


@dataclass(frozen=True, slots=True)
class Functions:
    """Addresses in the program."""

    pthread_create: int
    pthread_detach: int
    errno_location: int
    dlopen: int
    dlsym: int
    dlerror: int


@dataclass(frozen=True, slots=True)
class Seen:
    """The data that both threads write."""

    state: int
    created: int
    """the value of pthread_create: 0, or an error number"""
    tid: int
    """the new thread's; 0: it has not begun"""
    outcome: int
    """RUNS, RETURNED or FAILED"""
    result: int
    error: bytes

    @staticmethod
    def parse(data: bytes) -> Seen:
        state, created = struct.unpack_from("<ii", data, _STATE)
        tid, outcome, result = struct.unpack_from("<iii", data, _TID)
        return Seen(state, created, tid, outcome, result, data[_ERROR : _ERROR + _ERROR_BYTES].split(b"\0", 1)[0])


@dataclass(frozen=True, slots=True)
class Call:
    """`function(argument)` in the library at `path`."""

    path: bytes
    function: bytes
    argument: bytes


def memory(base: int, call: Call, functions: Functions, restored: Registers, mask: int, vectors: bytes) -> tuple[bytes, bytes, bytes]:
    """The code, the data, and the end of the stack: `restored` are the registers with which the borrowed thread goes on by itself."""
    data_at, top = base + CODE_BYTES, base + WHOLE
    saved = struct.pack(f"<{len(_RESTORED)}Q", *(restored.get(name) for name in _RESTORED))
    stack_end = saved.ljust(_END, b"\0")
    data = bytearray(DATA_BYTES)
    struct.pack_into("<Q", data, _MASK, mask)
    for at, text in ((_NAME, call.function), (_ARGUMENT, call.argument), (_PATH, call.path)):
        data[at : at + len(text)] = text
    data[_VECTORS : _VECTORS + len(vectors)] = vectors
    return _code(base, data_at, top - _END, functions, restored), bytes(data), stack_end


_END = 256
STACK_END = _END
MOST_VECTORS = DATA_BYTES - _VECTORS


def stack_pointer(base: int) -> int:
    """The borrowed thread's when it begins."""
    return base + WHOLE - 2 * _END


def data_address(base: int) -> int:
    return base + CODE_BYTES


def _code(base: int, data: int, saved: int, functions: Functions, restored: Registers) -> bytes:
    entry = b"".join(
        (
            _load("rax", functions.errno_location), b"\xff\xd0",  # call rax
            b"\x48\x89\xc3",  # mov rbx, rax
            b"\x8b\x2b",  # mov ebp, [rbx]
            _load("r12", data),
            b"\x49\x8d\x7c\x24", bytes([_THREAD]),  # lea rdi, [r12 + _THREAD]
            b"\x31\xf6",  # xor esi, esi
            _load("rdx", base + _START), _load("rcx", data),
            _load("rax", functions.pthread_create), b"\xff\xd0",
            b"\x41\x89\x44\x24", bytes([_CREATED]),  # mov [r12 + _CREATED], eax
            b"\x85\xc0", b"\x75\x11",  # test eax, eax; jnz +17
            b"\x49\x8b\x7c\x24", bytes([_THREAD]),  # mov rdi, [r12 + _THREAD]
            _load("rax", functions.pthread_detach), b"\xff\xd0",
            b"\x89\x2b",  # mov [rbx], ebp: errno
            b"\x41\xc7\x44\x24", bytes([_STATE]), struct.pack("<i", WAITS),  # mov dword [r12 + _STATE], WAITS
            b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xc2",  # rdtsc; shl rdx, 32; or rdx, rax
            b"\x49\x89\xd5",  # mov r13, rdx
            _load("r14", _PATIENCE_CYCLES),
            # again:
            b"\xf3\x90",  # pause
            b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xc2",
            b"\x4c\x29\xea",  # sub rdx, r13
            b"\x4c\x39\xf2",  # cmp rdx, r14
            b"\x72\xed",  # jb again
            b"\x41\xc7\x44\x24", bytes([_STATE]), struct.pack("<i", RESTORED_ITSELF),
            _load("r12", data + _VECTORS),
            b"\x83\xc8\xff\x83\xca\xff",  # or eax, -1; or edx, -1
            b"\x49\x0f\xae\x2c\x24",  # xrstor64 [r12]
            _load("rsp", saved),
            b"\xb8\x0e\x00\x00\x00\xbf\x02\x00\x00\x00",  # mov eax, rt_sigprocmask; mov edi, SIG_SETMASK
            _load("rsi", data + _MASK),
            b"\x31\xd2\x41\xba\x08\x00\x00\x00\x0f\x05",  # xor edx, edx; mov r10d, 8; syscall
            b"\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\x41\x5b\x41\x5a\x41\x59\x41\x58\x58\x59\x5a\x5e\x5f\x9d",  # pop all; popfq
            b"\x48\x8b\x25\x06\x00\x00\x00",  # mov rsp, [rip + 6]
            b"\xff\x25\x08\x00\x00\x00",  # jmp [rip + 8]
            struct.pack("<QQ", restored.get("rsp"), restored.get("rip")),
        )
    )  # fmt: skip
    start = b"".join(
        (
            b"\x53\x41\x54\x48\x83\xec\x08",  # push rbx; push r12; sub rsp, 8
            b"\x48\x89\xfb",  # mov rbx, rdi
            b"\xb8\xba\x00\x00\x00\x0f\x05", b"\x89\x43", bytes([_TID]),  # gettid
            b"\xb8\x9d\x00\x00\x00\xbf\x0f\x00\x00\x00",  # prctl(PR_SET_NAME
            _load("rsi", base + _NAME_AT), b"\x0f\x05",
            b"\x48\x8d\xbb", struct.pack("<i", _PATH),  # lea rdi, [rbx + _PATH]
            b"\xbe\x02\x00\x00\x00",  # mov esi, RTLD_NOW
            _load("rax", functions.dlopen), b"\xff\xd0",
            b"\x48\x85\xc0", b"\x74\x35",  # test rax, rax; jz failed
            b"\x48\x89\xc7",  # mov rdi, rax
            b"\x48\x8d\x73", bytes([_NAME]),  # lea rsi, [rbx + _NAME]
            _load("rax", functions.dlsym), b"\xff\xd0",
            b"\x48\x85\xc0", b"\x74\x1d",  # test rax, rax; jz failed
            b"\x48\x8d\xbb", struct.pack("<i", _ARGUMENT),  # lea rdi, [rbx + _ARGUMENT]
            b"\xff\xd0",
            b"\x89\x43", bytes([_RESULT]),
            b"\xc7\x43", bytes([_DONE]), struct.pack("<i", RETURNED),
            b"\x31\xc0\x48\x83\xc4\x08\x41\x5c\x5b\xc3",  # xor eax, eax; add rsp, 8; pop r12; pop rbx; ret
            # failed:
            _load("rax", functions.dlerror), b"\xff\xd0",
            b"\x48\x85\xc0", b"\x74\x15",  # test rax, rax; jz untold
            b"\x48\x89\xc6",  # mov rsi, rax
            b"\x48\x8d\xbb", struct.pack("<i", _ERROR),
            b"\xb9", struct.pack("<i", _ERROR_BYTES),  # mov ecx, _ERROR_BYTES
            b"\xac\xaa\x84\xc0\xe0\xfa",  # lodsb; stosb; test al, al; loopnz -6
            # untold:
            b"\xc7\x43", bytes([_DONE]), struct.pack("<i", FAILED),
            b"\x31\xc0\x48\x83\xc4\x08\x41\x5c\x5b\xc3",
        )
    )  # fmt: skip
    assert len(entry) <= _START, len(entry)
    assert len(start) <= _NAME_AT - _START, len(start)
    return (entry.ljust(_START, b"\xcc") + start.ljust(_NAME_AT - _START, b"\xcc") + _THREAD_NAME).ljust(CODE_BYTES, b"\0")


_START, _NAME_AT = 1024, 2048
_NUMBERS = {"rax": 0, "rcx": 1, "rdx": 2, "rbx": 3, "rsp": 4, "rbp": 5, "rsi": 6, "rdi": 7, "r8": 8, "r12": 12, "r13": 13, "r14": 14}


def _load(register: str, value: int) -> bytes:
    """mov register, value"""
    number = _NUMBERS[register]
    return bytes([0x49 if number >= 8 else 0x48, 0xB8 + (number & 7)]) + struct.pack("<Q", value)

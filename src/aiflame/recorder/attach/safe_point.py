"""Whether a stopped thread may make a call that allocates memory and starts a thread.

It must not if it holds a lock that the call needs: the allocator's, the dynamic linker's, or that of libc's list of stacks. It holds none
where none of its frames is in these functions, nor in a signal handler, which may have interrupted any of them."""

from __future__ import annotations

import re
import time
from bisect import bisect_right

from aiflame.recorder.attach.elf import exported
from aiflame.recorder.looks.memory import Memory, UnreadableError
from aiflame.recorder.looks.modules import Module, Modules
from aiflame.recorder.looks.unwind_rules import BP, SP
from aiflame.values import dataclass

_MOST_FRAMES = 512
_RETURN_FROM_HANDLER = b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"
"""mov rax, rt_sigreturn; syscall"""
_ALLOCATOR = frozenset(
    b"malloc calloc realloc reallocarray free cfree memalign aligned_alloc posix_memalign valloc pvalloc malloc_trim malloc_usable_size "
    b"mallopt mallinfo mallinfo2 malloc_stats malloc_info __libc_malloc __libc_calloc __libc_realloc __libc_free __libc_memalign "
    b"__libc_freeres __malloc_hook_ini".split()
)
_WITH_LOCKS = frozenset(
    b"pthread_create pthread_exit pthread_join fork vfork __libc_fork _Fork __fork clone posix_spawn posix_spawnp exit quick_exit "
    b"__cxa_finalize dlopen dlclose dlsym dlvsym dlmopen dladdr dl_iterate_phdr pthread_getattr_np pthread_atfork "
    b"pthread_setattr_default_np abort setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups".split()
)
_ALLOCATORS = re.compile(r"/lib(jemalloc|tcmalloc\w*|mimalloc|asan|tsan|msan|lsan|hoard|snmalloc|rpmalloc|scudo)\b")
_LINKER = re.compile(r"/ld(-linux-x86-64|-2\.\d+)?\.so")
_LIBC = re.compile(r"/(libc|libpthread|libdl)([.-][\d.]+)?\.so")
_DEEPEST = 16 << 20
_AT_ONCE = 64 << 10
_MOST_CODE = 64 << 20


@dataclass(frozen=True, slots=True)
class _Range:
    low: int
    high: int


class SafePoints:
    """Knows the functions of one program that hold such locks. It is made before a thread is stopped, since that takes a while."""

    def __init__(self, memory: Memory, modules: Modules, files: list[Module]) -> None:
        self._memory, self._modules = memory, modules
        self._ranges: list[_Range] = []
        self._returns: set[int] = set()
        """To these addresses signal handlers return."""
        for module in files:
            functions = exported(memory, module.first, module.base)
            if _LINKER.search(module.path) or _ALLOCATORS.search(module.path):
                self._ranges.append(_Range(module.low, module.high))
            elif _LIBC.search(module.path):
                self._returns |= _places(memory, module, _RETURN_FROM_HANDLER)
                self._ranges += _around(functions, _ALLOCATOR) + _alone(functions, _WITH_LOCKS)
            else:
                self._ranges += _alone(functions, _ALLOCATOR)
        self._ranges.sort(key=lambda one: one.low)
        self._starts = [one.low for one in self._ranges]

    def reason_against(self, pc: int, sp: int, bp: int, *, waits: bool, until: float = float("inf")) -> str:
        """Why the thread must not make the call; empty: it may. `waits`: it is in a system call. At `until` it gives up: the rules found
        by then are known when the thread is stopped again."""
        module = self._modules.at(pc)
        if module is None and waits:
            return "it waits in code without a file"
        if module is not None and not waits and _LIBC.search(module.path):
            return "it runs in libc"
        try:
            stack = _Stack(self._memory, sp)
        except UnreadableError:
            return "its stack cannot be read"
        address: int | None = bp
        innermost = True
        for _ in range(_MOST_FRAMES):
            if time.monotonic() > until:
                return "its stack takes long to read"
            at = pc if innermost else pc - 1
            if self._holds(at):
                return "it is in the allocator, the dynamic linker or a function of libc that holds a lock"
            if pc in self._returns:
                return "it is in a signal handler"
            module = self._modules.at(at)
            rule = self._modules.rule(module, at) if module is not None else None
            if rule is None:
                return self._search(stack, sp)
            if rule.return_at is None:
                return ""
            start = sp if rule.register == SP else address if rule.register == BP else None
            if start is None or start + rule.offset <= sp:
                return self._search(stack, sp)
            frame = start + rule.offset
            try:
                pc = stack.word(frame + rule.return_at)
                address = address if rule.bp_at is None else stack.word(frame + rule.bp_at)
            except UnreadableError:
                return self._search(stack, sp)
            if pc == 0:
                return ""
            sp, innermost = frame, False
        return self._search(stack, sp)

    def is_in_file(self, pc: int) -> bool:
        return self._modules.at(pc) is not None

    def _holds(self, pc: int) -> bool:
        place = bisect_right(self._starts, pc) - 1
        return place >= 0 and pc < self._ranges[place].high

    def _search(self, stack: _Stack, sp: int) -> str:
        """The frames from here on are not known (code made at run time): a signal handler's has left its return address."""
        data = stack.data_from(sp)
        in_handler = any(address.to_bytes(8, "little") in data for address in self._returns)
        return "it may be in a signal handler" if in_handler else ""


def _places(memory: Memory, module: Module, wanted: bytes) -> set[int]:
    """Where these bytes are in the code of a file."""
    data = memory.read_some(module.low, min(module.high - module.low, _MOST_CODE))
    return {module.low + match.start() for match in re.finditer(re.escape(wanted), data)}


def _alone(functions: dict[bytes, tuple[int, int]], names: frozenset[bytes]) -> list[_Range]:
    return [_Range(at, at + size) for name in names & functions.keys() for at, size in (functions[name],) if size]


def _around(functions: dict[bytes, tuple[int, int]], names: frozenset[bytes]) -> list[_Range]:
    """The functions, with the code beside them up to those of other names: functions of the same source that are not exported."""
    others = sorted((at, at + size) for name, (at, size) in functions.items() if name not in names)
    starts, ends = [low for low, _ in others], sorted(high for _, high in others)
    ranges = []
    for one in _alone(functions, names):
        before, after = bisect_right(ends, one.low) - 1, bisect_right(starts, one.high - 1)
        ranges.append(_Range(ends[before] if before >= 0 else one.low, starts[after] if after < len(starts) else one.high))
    merged: list[_Range] = []
    for one in sorted(ranges, key=lambda item: item.low):
        if merged and one.low <= merged[-1].high:
            merged[-1] = _Range(merged[-1].low, max(merged[-1].high, one.high))
        else:
            merged.append(one)
    return merged


class _Stack:
    """The words of a stack, read in pieces."""

    def __init__(self, memory: Memory, sp: int) -> None:
        self._memory, self._low, self._data = memory, sp, memory.read_some(sp, 8 << 10)

    def word(self, address: int) -> int:
        begin = address - self._low
        if not 0 <= begin <= _DEEPEST:
            raise UnreadableError
        while begin + 8 > len(self._data):
            self._more()
        return int.from_bytes(self._data[begin : begin + 8], "little")

    def data_from(self, address: int) -> bytes:
        try:
            while len(self._data) < _DEEPEST:
                self._more()
        except UnreadableError:
            pass
        return self._data[max(address - self._low, 0) :]

    def _more(self) -> None:
        more = self._memory.read_some(self._low + len(self._data), max(_AT_ONCE, len(self._data)))
        if not more:
            raise UnreadableError
        self._data += more

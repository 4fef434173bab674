"""A thread's native frames, from its registers and its stack."""

from __future__ import annotations

from collections.abc import Callable

from aiflame.recorder.looks.memory import Memory, UnreadableError
from aiflame.recorder.looks.modules import Module, Modules
from aiflame.recorder.looks.unwind_rules import BP, SP, Rule
from aiflame.values import dataclass

from .stopping import Registers

MOST_FRAMES = 1024
_CALLS_HANDLER = bytes.fromhex("48c7c00f0000000f05")
"""The kernel's way back from a signal handler: mov $15, %rax; syscall."""
_SAVED_REGISTERS = 40
"""Where registers begin in the frame that the kernel pushed for a handler, and the places of three of them."""
_SAVED_BP, _SAVED_SP, _SAVED_PC = 10, 15, 16
_FURTHEST = 1 << 20
"""The most bytes of a stack in which a lost frame is searched by its saved frame pointer."""

Word = Callable[[int], int]
"""Reads a word of the stack; UnreadableError if there is none."""


@dataclass(frozen=True, slots=True)
class NativeFrame:
    pc: int
    module: Module | None
    """None: code that was made at run time"""
    exact: bool
    """False: `pc` is a return address"""
    low: int
    """The frame lies between this address of the stack and `high`."""
    high: int


@dataclass(frozen=True, slots=True)
class NativeStack:
    frames: list[NativeFrame]
    """Innermost first."""
    whole: bool
    needs_bp: bool
    """The walk ended because the frame pointer is not known."""


class CopiedStack:
    """A stack that was copied while its thread was stopped."""

    def __init__(self, low: int, data: bytes) -> None:
        self._low, self._data = low, data

    def word(self, address: int) -> int:
        begin = address - self._low
        if not 0 <= begin <= len(self._data) - 8:
            raise UnreadableError
        return int.from_bytes(self._data[begin : begin + 8], "little")


class LiveStack:
    """The stack of a thread that sleeps, read in pieces."""

    _AT_ONCE, _DEEPEST = 8 << 10, 8 << 20

    def __init__(self, memory: Memory, sp: int) -> None:
        self._memory, self._low = memory, sp
        self._data = memory.read_some(sp, self._AT_ONCE)

    def word(self, address: int) -> int:
        begin = address - self._low
        if not 0 <= begin <= self._DEEPEST:
            raise UnreadableError
        while begin + 8 > len(self._data):
            more = self._memory.read_some(self._low + len(self._data), max(self._AT_ONCE, len(self._data)))
            if not more:
                raise UnreadableError
            self._data += more
        return int.from_bytes(self._data[begin : begin + 8], "little")


def unwind(registers: Registers, word: Word, memory: Memory, modules: Modules) -> NativeStack:
    pc, sp, bp, exact = registers.pc, registers.sp, registers.bp, True
    frames: list[NativeFrame] = []
    while len(frames) < MOST_FRAMES:
        module = modules.at(pc if exact else pc - 1)
        rule = modules.rule(module, pc if exact else pc - 1) if module is not None else None
        try:
            if rule is not None:
                if rule.return_at is None:
                    return _ended(frames, NativeFrame(pc, module, exact, sp, sp), whole=True)
                if (start := sp if rule.register == SP else bp if rule.register == BP else None) is None:
                    return _ended(frames, NativeFrame(pc, module, exact, sp, sp), needs_bp=rule.register == BP)
                caller = _by_rule(rule, start, sp, bp, word)
            elif module is not None and _is_handler_return(memory, pc):
                frames.append(NativeFrame(pc, module, False, sp, sp))
                pc, sp, bp = (word(sp + _SAVED_REGISTERS + 8 * number) for number in (_SAVED_PC, _SAVED_SP, _SAVED_BP))
                exact = True
                continue
            else:
                caller = _by_frame_pointer(sp, bp, word, modules, exact)
        except UnreadableError:
            return _ended(frames, NativeFrame(pc, module, exact, sp, sp))
        frames.append(NativeFrame(pc, module, exact, sp, caller[1]))
        pc, sp, bp = caller
        exact = False
        if pc == 0:
            return NativeStack(frames, True, False)
    return NativeStack(frames, False, False)


def _ended(frames: list[NativeFrame], last: NativeFrame, *, whole: bool = False, needs_bp: bool = False) -> NativeStack:
    return NativeStack([*frames, last], whole, needs_bp)


def _by_rule(rule: Rule, start: int, sp: int, bp: int | None, word: Word) -> tuple[int, int, int | None]:
    assert rule.return_at is not None
    end = start + rule.offset
    if end <= sp:
        raise UnreadableError
    return word(end + rule.return_at), end, bp if rule.bp_at is None else word(end + rule.bp_at)


def _by_frame_pointer(sp: int, bp: int | None, word: Word, modules: Modules, exact: bool) -> tuple[int, int, int | None]:
    """Without a rule: a stub that has pushed nothing yet, or generated code that keeps frame pointers."""
    if exact and modules.known(word(sp)):
        return word(sp), sp + 8, bp
    if bp is None or not sp <= bp < sp + _FURTHEST or bp % 8 or not modules.known(word(bp + 8)):
        raise UnreadableError
    return word(bp + 8), bp + 16, word(bp)


def _is_handler_return(memory: Memory, pc: int) -> bool:
    try:
        return memory.read(pc, len(_CALLS_HANDLER)) == _CALLS_HANDLER
    except UnreadableError:
        return False

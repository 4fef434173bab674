"""The native frames of a sleeping thread."""

from __future__ import annotations

from aiflame.recorder.looks.memory import Memory, UnreadableError
from aiflame.recorder.looks.modules import Module, Modules
from aiflame.recorder.looks.unwind_rules import BP, SP
from aiflame.values import dataclass

MOST_FRAMES = 64
_AT_ONCE = 8 << 10
_DEEPEST = 256 << 10
"""The most bytes of a stack that are searched."""


@dataclass(frozen=True, slots=True)
class NativeFrame:
    pc: int
    """a return address"""
    module: Module | None


def native_stack(memory: Memory, modules: Modules, pc: int, sp: int, evaluator: int) -> tuple[list[NativeFrame], bool]:
    """The frames from the innermost outwards, and whether the last of them is the outermost.

    `evaluator`: an address in the frame of the innermost native function that evaluates Python, at which the frames end; 0: none. The
    kernel shows only two registers, the instruction pointer and the stack pointer. If the caller of a frame depends on another register,
    the frame is the last one, unless a frame further in has stored that register."""
    stack = _Stack(memory, sp)
    frames: list[NativeFrame] = []
    bp: int | None = None
    while len(frames) < MOST_FRAMES:
        module = modules.at(pc - 1)
        frames.append(NativeFrame(pc, module))
        rule = modules.rule(module, pc - 1) if module is not None else None
        if rule is None:
            return frames, False
        if rule.return_at is None:
            return frames, True
        start = sp if rule.register == SP else bp if rule.register == BP else None
        if start is None or start + rule.offset <= sp:
            return frames, False
        frame = start + rule.offset
        if evaluator and frame > evaluator:
            return frames[:-1], True
        try:
            pc = stack.word(frame + rule.return_at)
            bp = bp if rule.bp_at is None else stack.word(frame + rule.bp_at)
        except UnreadableError:
            return frames, False
        if pc == 0:
            return frames, True
        sp = frame
    return frames, False


class _Stack:
    """The words of a stack, read in pieces."""

    def __init__(self, memory: Memory, sp: int) -> None:
        self._memory, self._low = memory, sp
        self._data = memory.read_some(sp, _AT_ONCE)

    def word(self, address: int) -> int:
        begin = address - self._low
        if not 0 <= begin <= _DEEPEST:
            raise UnreadableError
        while begin + 8 > len(self._data):
            more = self._memory.read_some(self._low + len(self._data), max(_AT_ONCE, len(self._data)))
            if not more:
                raise UnreadableError
            self._data += more
        return int.from_bytes(self._data[begin : begin + 8], "little")

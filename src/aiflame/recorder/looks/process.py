"""A process that is looked at: writes the stacks of its sleeping threads to its tables."""

from __future__ import annotations

import os
from functools import cache

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.frame_packing import address_word, mark_word, native_word, python_word
from aiflame.profile.schema.interpreter_schema import SYMBOL
from aiflame.recorder.library import collector_file
from aiflame.recorder.looks.interpreter import Interpreter, PythonFrame
from aiflame.recorder.looks.kernel import Call
from aiflame.recorder.looks.memory import Memory, UnreadableError
from aiflame.recorder.looks.modules import Module, Modules, symbol_in
from aiflame.recorder.looks.native_stack import MOST_FRAMES, NativeFrame, native_stack
from aiflame.recorder.looks.writer import Writer

INCOMPLETE = b"[incomplete stack]"
_MOST_CODES, _MOST_THREADS = 1 << 16, 1 << 10


class Process:
    def __init__(self, pid: int, start_ns: int, spool: Folder, page: ControlPage, here: int | None = None) -> None:
        """PermissionError if the system does not let us read the process; UnreadableError if its program does not contain our collector.
        `here`: its number for us, if it is not `pid`."""
        self.pid, self.here = pid, here or pid
        self._memory = Memory(self.here)
        self._modules = Modules(self.here, self._memory)
        self.writer = Writer(spool, page, pid, start_ns)
        try:
            collector = self._modules.named(collector_file().name)
            if collector is None or collector.rules is None:
                raise UnreadableError
        except BaseException:
            self._memory.close()
            raise
        self._collector = collector
        self._interpreter: Interpreter | None = None
        self._codes: dict[int, tuple[bytes, int]] = {}
        self._last: dict[int, dict[int, tuple[bytes, int]]] = {}
        """By thread, the frames of the last look, and their words."""
        self._module_ids: dict[Module, int] = {}
        self._incomplete = 0

    def close(self) -> None:
        self._memory.close()

    def is_same(self) -> bool:
        """True if it has neither ended nor become another program."""
        try:
            return self._memory.read(self._collector.first, 4) == b"\x7fELF"
        except UnreadableError:
            return False

    def stack(self, tid: int, call: Call) -> int:
        """The stack of the thread, valid if the thread has slept until now."""
        python, evaluator = self._python(tid)
        native, whole = native_stack(self._memory, self._modules, call.pc, call.sp, evaluator)
        words = [] if whole or python or len(native) == MOST_FRAMES else [mark_word(self._incomplete_mark())]
        words += self._python_words(tid, python)
        words += [self._native_word(frame) for frame in reversed(native)]
        return self.writer.stack(words)

    def _python(self, tid: int) -> tuple[list[PythonFrame], int]:
        if self._interpreter is None:
            self._interpreter = Interpreter.published(self._memory, self._collector.base + _symbol())
        return self._interpreter.frames(tid) if self._interpreter is not None else ([], 0)

    def _python_words(self, tid: int, frames: list[PythonFrame]) -> list[int]:
        last = self._last.get(tid, {})
        words = []
        for frame in reversed(frames):
            content, word = last.get(frame.address, (b"", 0))
            words.append(word if content == frame.content else python_word(self._code(frame.code), frame.offset))
        if len(self._last) >= _MOST_THREADS:
            self._last.clear()
        self._last[tid] = {frame.address: (frame.content, word) for frame, word in zip(reversed(frames), words, strict=True)}
        return words

    def _code(self, address: int) -> int:
        assert self._interpreter is not None
        key = self._interpreter.code_key(address)
        recorded = self._codes.get(address)
        if recorded is not None and recorded[0] == key:
            return recorded[1]
        code = self._interpreter.read_code(address)
        texts = (self.writer.text(text) for text in (code.filename, code.qualname, code.linetable))
        if len(self._codes) >= _MOST_CODES:
            self._codes.clear()
        number = self.writer.add("codes", code.first_line, *texts, self._interpreter.version)
        self._codes[address] = key, number
        return number

    def _native_word(self, frame: NativeFrame) -> int:
        if frame.module is None:
            return address_word(frame.pc)
        return native_word(self._module(frame.module), frame.pc - frame.module.base)

    def _module(self, module: Module) -> int:
        number = self._module_ids.get(module)
        if number is None:
            path, build_id = self.writer.text(os.fsencode(module.path)), self.writer.text(module.build_id)
            numbers = (module.base, module.low, module.high, module.inode, module.device, 0)
            number = self._module_ids[module] = self.writer.add("modules", path, build_id, *numbers)
        return number

    def _incomplete_mark(self) -> int:
        if not self._incomplete:
            self._incomplete = self.writer.add("marks", self.writer.text(INCOMPLETE))
        return self._incomplete


@cache
def _symbol() -> int:
    """The address, in the collector's file, of the record of its interpreter."""
    return symbol_in(collector_file(), SYMBOL)

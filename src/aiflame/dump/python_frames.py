"""Finds the Python interpreter of a process that nobody prepared: its threads, their frames, and its lock (the GIL)."""

from __future__ import annotations

import re

from aiflame.recorder.looks.interpreter import Call, Interpreter, PythonFrame
from aiflame.recorder.looks.memory import UnreadableError
from aiflame.recorder.looks.modules import Module
from aiflame.resolve.python.lines import line_of
from aiflame.values import dataclass

from .layouts import GIL_BYTES, Layout, UnknownInterpreterError, of_version
from .names import exported, opened
from .target import Target

_PYTHON = re.compile(r"(?:lib)?python(\d)\.(\d+)")
_RUNTIME_BYTES = 768
_SYMBOLS = (b"_PyRuntime", b"PyCode_Type", b"PyUnicode_Type", b"PyBytes_Type", b"Py_Version")
_MOST_TRIED = 64


@dataclass(frozen=True, slots=True)
class Line:
    """A Python frame for people."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class State:
    """A thread state of the interpreter."""

    address: int
    tid: int
    """In the process's own container."""
    thread_id: int
    """pthread_self()"""


class Python:
    def __init__(self, target: Target, module: Module, symbols: dict[bytes, int]) -> None:
        """UnknownInterpreterError if its layout is not known."""
        self.memory, self.module = target.memory, module
        base = module.base
        runtime = base + symbols[b"_PyRuntime"]
        head = self.memory.read_some(runtime, _RUNTIME_BYTES)
        self.layout: Layout = of_version(_version(target, module, symbols), head)
        addresses = {
            "runtime": runtime,
            "code_type": base + symbols[b"PyCode_Type"],
            "text_type": base + symbols[b"PyUnicode_Type"],
            "bytes_type": base + symbols[b"PyBytes_Type"],
        }
        self.addresses = addresses
        self.runtime, self.version = runtime, self.layout.at["version"]
        self._interpreter = Interpreter(self.memory, addresses, self.layout.at)
        self._codes: dict[tuple[int, bytes], tuple[str, str, int, bytes]] = {}

    def calls(self, inner_tid: int) -> list[Call]:
        try:
            return self._interpreter.calls(inner_tid)
        except UnreadableError:
            return []

    def line(self, frame: PythonFrame) -> Line | None:
        """None if the frame's code cannot be read."""
        try:
            key = frame.code, self._interpreter.code_key(frame.code)
            if key not in self._codes:
                code = self._interpreter.read_code(frame.code)
                function, file = (text.decode("utf-8", "replace") for text in (code.qualname, code.filename))
                self._codes[key] = function, file, code.first_line, code.linetable
        except UnreadableError:
            return None
        function, file, first, table = self._codes[key]
        return Line(function, file, line_of(table, first, frame.offset, self.version))

    def locals_of(self, frame: PythonFrame, count: int) -> list[int]:
        """The first words of its variables and evaluation stack; fewer if they cannot be read."""
        if self.version == 0x030A:  # a frame is an object of its own, which says how many words it has
            count = min(count, int.from_bytes(frame.content[16:24], "little"))
        first = frame.address + self.layout.at["frame_locals"]
        try:
            if self.layout.stack_end and (end := self.memory.word(frame.address + self.layout.stack_end)) >= first:
                count = min(count, (end - first) // 8)
            data = self.memory.read_some(first, 8 * count)
        except UnreadableError:
            return []
        mask = self.layout.at["pointer_mask"]
        return [int.from_bytes(data[at : at + 8], "little") & mask for at in range(0, len(data) - 7, 8)]

    def text(self, address: int) -> bytes | None:
        try:
            return self._interpreter.text(address)
        except (UnreadableError, ValueError):
            return None

    def states(self) -> list[State]:
        return [
            State(address, tid, self.memory.word(address + self.layout.thread_id))
            for first in self._interpreter.firsts()
            for address, tid in self._interpreter.listed(first)
        ]

    def gils(self) -> list[tuple[range, int]]:
        """The memory of each interpreter's lock, and the thread state that holds it; 0: nobody does."""
        at = self.layout
        if at.gil_in_runtime:
            places = {self.runtime + at.gil}
        else:
            places = {self.memory.word(interpreter + at.gil) for interpreter in self._interpreter.interpreters()}
        gils = []
        for place in places:
            data = self.memory.read(place, GIL_BYTES)
            held = int.from_bytes(data[at.locked : at.locked + 4], "little", signed=True) == 1
            holder = int.from_bytes(data[at.holder : at.holder + 8], "little")
            gils.append((range(place, place + GIL_BYTES), holder if held else 0))
        return gils


def find(target: Target) -> tuple[Python | None, str]:
    """The interpreter, if there is one, and one line if its frames cannot be shown."""
    files = [module for module in target.modules.files() if module.path.startswith("/")]
    likely = [module for module in files if _PYTHON.match(module.path.rpartition("/")[2])]
    for module in likely or files[:1]:
        target.modules.at(module.low)
        with opened(target, module) as elf:
            symbols = exported(elf, _SYMBOLS) if elf is not None else {}
        if symbols.keys() >= set(_SYMBOLS[:4]):
            try:
                return Python(target, module, symbols), ""
            except UnknownInterpreterError as error:
                return None, str(error)
            except UnreadableError:
                return None, "Python frames are not shown: the interpreter has not begun, or its memory is damaged"
    return None, ""


def _version(target: Target, module: Module, symbols: dict[bytes, int]) -> int:
    """PY_VERSION_HEX >> 16; 0: not known."""
    if b"Py_Version" in symbols:
        return target.memory.word(module.base + symbols[b"Py_Version"]) >> 16 & 0xFFFF
    paths = [module.path.rpartition("/")[2], *(other.path for other in target.modules.files())]
    for path in paths:
        if match := _PYTHON.search(path):
            return int(match[1]) << 8 | int(match[2])
    return 0

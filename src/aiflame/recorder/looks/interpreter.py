"""The Python frames of a sleeping thread, read with the offsets that the collector in its process publishes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from aiflame.profile.schema.interpreter_schema import INTERPRETER, INTERPRETER_MAGIC, PYTHON_LAYOUT, PythonChain
from aiflame.profile.schema.records import Column, layout
from aiflame.recorder.looks.memory import Memory, UnreadableError, Window
from aiflame.values import dataclass

MOST_FRAMES = 512
_MOST_INTERPRETERS, _MOST_THREADS = 64, 1 << 14
_AGAIN_S = 5.0
"""Seconds after which a thread without a state is looked up again, even if no interpreter has a new first state."""
_PTHREAD_TID = 720
"""glibc's struct pthread: tid, on x86_64."""
_LONGEST_TEXT, _LONGEST_TABLE = 4096, 64 << 10
_WIDTHS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


@dataclass(frozen=True, slots=True)
class PythonFrame:
    address: int
    content: bytes
    """If this is the same at another look, it is still the same frame, at the same instruction."""
    code: int
    offset: int
    """offset of its instruction in bytes; negative before the first"""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the native function that evaluates Python."""

    evaluator: int
    """An address in its frame on the stack; 0: not known."""
    frames: list[PythonFrame]
    """Innermost first."""


@dataclass(frozen=True, slots=True)
class Code:
    first_line: int
    filename: bytes
    qualname: bytes
    linetable: bytes


def _unpacked(of: tuple[Column, ...], data: bytes) -> dict[str, int]:
    placed, _ = layout(of)
    return {column.name: int.from_bytes(data[at : at + int(column.type.numpy[-1])], "little") for column, at in placed}


class Interpreter:
    @staticmethod
    def published(memory: Memory, address: int) -> Interpreter | None:
        """Reads the collector's record at this address; None if the process has no interpreter (yet)."""
        head, offsets = layout(INTERPRETER)[1], layout(PYTHON_LAYOUT)[1]
        data = memory.read(address, head + offsets)
        if data[:8] != INTERPRETER_MAGIC:
            return None
        return Interpreter(memory, _unpacked(INTERPRETER, data), _unpacked(PYTHON_LAYOUT, data[head:]))

    def __init__(self, memory: Memory, addresses: dict[str, int], at: dict[str, int]) -> None:
        self._memory, self._addresses, self._at = memory, addresses, at
        self.version = at["version"]
        self._chain = PythonChain(at["chain"])
        names = ("frame_code", "frame_instruction", "frame_previous", "frame_owner", "frame_entry")
        self._frame_bytes = max(at[name] for name in names) + 8
        self._code_bytes = max(at[name] for name in at if name.startswith("code_")) + 8
        self._state_bytes = max(at["thread_previous"], at["thread_next"], at["thread_native_id"], at["thread_id"]) + 8
        self._states: dict[int, list[int]] = {}
        self._firsts: list[int] = []
        self._next_search = 0.0

    def layout(self) -> dict[str, int]:
        """Its columns of `PYTHON_LAYOUT`."""
        return self._at

    def addresses(self) -> dict[str, int]:
        """Its columns of `INTERPRETER`."""
        return self._addresses

    def frames(self, tid: int) -> tuple[list[PythonFrame], int]:
        """The frames from the innermost outwards, and an address in the frame of the innermost native evaluator; none for a thread without
        Python."""
        states = self._states_of(tid)
        # A thread that runs several interpreters has a state for each. The one in use was entered last, and is furthest down the thread's
        # stack.
        return min((self._of_state(state) for state in states), key=lambda one: one[1] or 1 << 64, default=([], 0))

    def calls(self, tid: int) -> list[Call]:
        """The thread's calls of the evaluator, innermost first, each with its frames."""
        states = self._states_of(tid)
        if len(states) > 1:
            states = [min(states, key=lambda state: self._of_state(state)[1] or 1 << 64)]
        return self._calls_of(states[0]) if states else []

    def _calls_of(self, state: int) -> list[Call]:
        at, word = self._at, self._memory.word
        objects, shims = self._chain is PythonChain.FRAME_OBJECTS, self._chain in (PythonChain.SHIMS, PythonChain.CFRAME_SHIMS)
        cframe = word(state + at["thread_cframe"]) if at["thread_cframe"] else 0
        frame = word(state + at["thread_frame"]) if at["thread_frame"] else word(cframe + at["cframe_current"]) if cframe else 0
        calls: list[Call] = []
        frames: list[PythonFrame] = []
        window = Window(self._memory)
        for _ in range(2 * MOST_FRAMES):
            if not frame:
                break
            data = window.read(frame, self._frame_bytes)
            if shims and data[at["frame_owner"]] >= at["shim_owner"]:
                calls.append(Call(frame, frames))
                frames = []
            else:
                frames.append(self._frame(frame, data))
                # 3.10: each frame has its own call of the evaluator.
                if objects or (not shims and data[at["frame_entry"]]):
                    calls.append(Call(cframe, frames))
                    frames = []
                    cframe = word(cframe + at["cframe_previous"]) if cframe else 0
            frame = self._pointer(data, "frame_previous")
        return [call for call in [*calls, Call(0, frames)] if call.frames]

    def _states_of(self, tid: int) -> list[int]:
        states = self._states.get(tid, [])
        if states and all(self._is_state(state, tid) for state in states):
            return states
        self._search(lost=bool(states))
        return self._states.get(tid, [])

    def _is_state(self, state: int, tid: int) -> bool:
        """True if the state is still in the list of its interpreter."""
        try:
            data = self._memory.read(state, self._state_bytes)
            before = self._pointer(data, "thread_previous")
            listed = self._memory.word(before + self._at["thread_next"]) == state if before else state in self.firsts()
            return listed and self._tid(data) == tid
        except UnreadableError:
            return False

    def _search(self, *, lost: bool) -> None:
        firsts = self.firsts()
        now = time.monotonic()
        if firsts == self._firsts and not lost and now < self._next_search:
            return
        self._firsts, self._next_search = firsts, now + _AGAIN_S
        self._states = {}
        for first in firsts:
            for state, tid in self.listed(first):
                of_thread = self._states.setdefault(tid, [])
                if len(of_thread) < _MOST_INTERPRETERS:
                    of_thread.append(state)

    def interpreters(self) -> list[int]:
        listed: list[int] = []
        interpreter = self._memory.word(self._addresses["runtime"] + self._at["runtime_interpreters"])
        while interpreter and interpreter not in listed and len(listed) < _MOST_INTERPRETERS:
            listed.append(interpreter)
            interpreter = self._memory.word(interpreter + self._at["interpreter_next"])
        return listed

    def firsts(self) -> list[int]:
        """Reads the first state of each interpreter: new states are put first."""
        firsts = (self._memory.word(interpreter + self._at["interpreter_threads"]) for interpreter in self.interpreters())
        return list(dict.fromkeys(first for first in firsts if first))

    def listed(self, state: int) -> Iterator[tuple[int, int]]:
        """The thread states of an interpreter from its first on, each with its thread's number."""
        listed = set[int]()
        while state and state not in listed and len(listed) < _MOST_THREADS:
            listed.add(state)
            try:
                data = self._memory.read(state, self._state_bytes)
                yield state, self._tid(data)
            except UnreadableError:  # the thread has just ended
                return
            state = self._pointer(data, "thread_next")

    def _tid(self, state: bytes) -> int:
        if self._at["thread_native_id"]:
            return self._pointer(state, "thread_native_id")
        thread = self._pointer(state, "thread_id")
        return int.from_bytes(self._memory.read(thread + _PTHREAD_TID, 4), "little") if thread else 0

    def _pointer(self, data: bytes, name: str) -> int:
        at = self._at[name]
        return int.from_bytes(data[at : at + 8], "little")

    def _of_state(self, state: int) -> tuple[list[PythonFrame], int]:
        at, word = self._at, self._memory.word
        evaluator = 0
        if self._chain is PythonChain.FRAME_OBJECTS:
            frame, evaluator = word(state + at["thread_frame"]), word(state + at["thread_cframe"])
        elif self._chain is PythonChain.SHIMS:
            frame = word(state + at["thread_frame"])
        else:
            evaluator = word(state + at["thread_cframe"])
            frame = word(evaluator + at["cframe_current"]) if evaluator else 0
        if self._chain in (PythonChain.SHIMS, PythonChain.CFRAME_SHIMS):
            evaluator = 0
        frames: list[PythonFrame] = []
        shimmed = self._chain in (PythonChain.SHIMS, PythonChain.CFRAME_SHIMS)
        window = Window(self._memory)
        for _ in range(2 * MOST_FRAMES):
            if not frame or len(frames) == MOST_FRAMES:
                break
            data = window.read(frame, self._frame_bytes)
            if shimmed and data[at["frame_owner"]] >= at["shim_owner"]:
                evaluator = evaluator or frame
            else:
                frames.append(self._frame(frame, data))
            frame = self._pointer(data, "frame_previous")
        return frames, evaluator if frames else 0

    def _frame(self, address: int, data: bytes) -> PythonFrame:
        if self._chain is PythonChain.FRAME_OBJECTS:
            at = self._at["frame_instruction"]
            code, index = self._pointer(data, "frame_code"), int.from_bytes(data[at : at + 4], "little", signed=True)
            return PythonFrame(address, data, code, index * 2)
        code = self._pointer(data, "frame_code") & self._at["pointer_mask"]
        return PythonFrame(address, data, code, self._pointer(data, "frame_instruction") - code - self._at["code_instructions"])

    def code_key(self, code: int) -> bytes:
        """A key that differs from that of any other code object with the same address, before or later."""
        at = self._at
        data = self._memory.read(code, self._code_bytes)
        if self._pointer(data, "object_type") != self._addresses["code_type"]:
            raise UnreadableError
        names = ("code_filename", "code_qualname", "code_linetable", "code_first_line")
        key = b"".join(data[at[name] : at[name] + 8] for name in names)
        if at["code_version"]:
            return key + data[at["code_version"] : at["code_version"] + 4]
        return key + self._memory.read(self._pointer(data, "code_linetable") + at["object_size"], 48)

    def read_code(self, code: int) -> Code:
        data = self._memory.read(code, self._code_bytes)
        at = self._at["code_first_line"]
        return Code(
            int.from_bytes(data[at : at + 4], "little"),
            self.text(self._pointer(data, "code_filename")),
            self.text(self._pointer(data, "code_qualname")),
            self._bytes(self._pointer(data, "code_linetable")),
        )

    def text(self, address: int) -> bytes:
        """The characters of a text object, as UTF-8."""
        at = self._at
        head = self._memory.read(address, at["text_compact"])
        if self._pointer(head, "object_type") != self._addresses["text_type"]:
            raise UnreadableError
        length, state = self._pointer(head, "text_length"), head[at["text_state"]]
        width = state >> 2 & 7
        if not state & 0x20 or width not in _WIDTHS:
            raise UnreadableError
        begin = at["text_ascii"] if state & 0x40 else at["text_compact"]
        data = self._memory.read(address + begin, min(length, _LONGEST_TEXT) * width)
        return data.decode(_WIDTHS[width], "surrogatepass").encode("utf-8", "surrogateescape")

    def _bytes(self, address: int) -> bytes:
        at = self._at
        head = self._memory.read(address, at["bytes_data"])
        if self._pointer(head, "object_type") != self._addresses["bytes_type"]:
            raise UnreadableError
        return self._memory.read(address + at["bytes_data"], min(self._pointer(head, "object_size"), _LONGEST_TABLE))

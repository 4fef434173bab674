"""Reading another process's memory, where every address may be wrong and everything there may be hostile."""

from __future__ import annotations

import ctypes
import os
import random
import struct

import pytest

from aiflame.profile.schema.interpreter_schema import INTERPRETER, INTERPRETER_MAGIC, PYTHON_LAYOUT, PythonChain
from aiflame.profile.schema.records import layout
from aiflame.recorder.looks.interpreter import MOST_FRAMES, Interpreter
from aiflame.recorder.looks.kernel import Call, parse_call
from aiflame.recorder.looks.memory import Memory, UnreadableError, Window
from aiflame.recorder.looks.modules import Modules
from aiflame.recorder.looks.native_stack import native_stack
from aiflame.recorder.looks.unwind_rules import Rule, Rules

PAGE = 4096
BASE = 0x10000


class Made(Memory):
    """Memory that is these bytes from `BASE` on."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)

    def read_some(self, address: int, most: int) -> bytes:
        if not BASE <= address < BASE + len(self.data):
            raise UnreadableError
        return bytes(self.data[address - BASE : address - BASE + most])

    def put(self, address: int, *words: int) -> None:
        struct.pack_into(f"<{len(words)}Q", self.data, address - BASE, *words)


def test_a_thread_that_runs_has_no_call() -> None:
    assert parse_call(b"running\n") is None
    assert parse_call(b"-1 0x7ffd1 0x7f002\n") is None
    assert parse_call(b"0 0x3 0x7f 0x10 0x0 0x0 0x0 0x7ffd1 0x7f002\n") == Call(0, (3, 0x7F, 16, 0, 0, 0), 0x7FFD1, 0x7F002)


def test_our_own_memory_can_be_read_and_missing_memory_is_an_error() -> None:
    memory = Memory(os.getpid())
    data = ctypes.create_string_buffer(b"here it is", 64)
    assert memory.read(ctypes.addressof(data), 10) == b"here it is"
    for address in (-8, 0, 8, 4096, 1 << 46, (1 << 47) - 4, 1 << 47, 1 << 63, (1 << 64) - 1):
        with pytest.raises(UnreadableError):
            memory.read(address, 64)
    memory.close()


def test_a_window_gives_the_same_as_single_reads() -> None:
    memory = Made(random.Random(1).randbytes(5 * PAGE))
    window, places = Window(memory), random.Random(2)
    for _ in range(500):
        address = BASE + places.randrange(5 * PAGE - 80)
        assert window.read(address, 80) == memory.read(address, 80)
    with pytest.raises(UnreadableError):
        window.read(BASE + 5 * PAGE - 40, 80)


# One function of 64 bytes, which pushes rbp (1), copies rsp to it (4), and pops it at the end (40).
SHARED = bytes([0, 0, 0, 0, 1]) + b"zR\0" + bytes([1, 0x78, 16, 1, 0x1B, 0x0C, 7, 8, 0x90, 1, 0, 0])
OWN = bytes([0x41, 0x0E, 16, 0x86, 2, 0x43, 0x0D, 6, 0x64, 0x0C, 7, 8, 0xC6, 0])


def unwind_table(program: bytes = OWN) -> tuple[Made, Rules]:
    memory = Made(bytes(2 * PAGE))
    header, shared, entry, code = BASE, BASE + 64, BASE + 128, BASE + PAGE
    memory.data[0:20] = struct.pack("<BBBBiIii", 1, 0x1B, 3, 0x3B, 0, 1, code - header, entry - header)
    memory.data[64 : 68 + len(SHARED)] = struct.pack("<I", len(SHARED)) + SHARED
    body = struct.pack("<IiIB", entry + 4 - shared, code - (entry + 8), 64, 0) + program
    memory.data[128 : 132 + len(body)] = struct.pack("<I", len(body)) + body
    return memory, Rules(memory, 0, header)


def test_the_rule_of_each_instruction_is_the_tables() -> None:
    _, rules = unwind_table()
    code = BASE + PAGE
    assert rules.at(code) == Rule(7, 8, -8, None)
    assert rules.at(code + 1) == Rule(7, 16, -8, -16)
    assert rules.at(code + 4) == rules.at(code + 39) == Rule(6, 16, -8, -16)
    assert rules.at(code + 40) == rules.at(code + 63) == Rule(7, 8, -8, None)
    assert rules.at(code + 64) is None
    assert rules.at(code - 1) is None


def test_damaged_tables_give_no_rule_and_no_other_error() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        memory, rules = unwind_table()
        for _ in range(chance.randrange(1, 6)):
            memory.data[chance.randrange(200)] = chance.randrange(256)
        rule = rules.at(BASE + PAGE + chance.randrange(64))
        assert rule is None or isinstance(rule, Rule)


def test_an_expression_is_no_rule() -> None:
    _, rules = unwind_table(bytes([0x0F, 1, 0x30]))
    assert rules.at(BASE + PAGE) is None


def test_a_stack_of_nonsense_ends() -> None:
    memory = Memory(os.getpid())
    modules = Modules(os.getpid(), memory)
    data = ctypes.create_string_buffer(random.Random(4).randbytes(PAGE), PAGE)
    for pc in (ctypes.addressof(data), 0, 1 << 50, ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value or 0):
        frames, _ = native_stack(memory, modules, pc, ctypes.addressof(data), 0)
        assert 1 <= len(frames) <= 64
    memory.close()


OFFSETS = {"interpreter_threads": 8, "thread_next": 8, "thread_frame": 16, "thread_native_id": 24, "frame_code": 0, "frame_previous": 8}
OFFSETS |= {"frame_instruction": 16, "frame_owner": 24, "shim_owner": 3, "object_type": 8, "object_size": 16, "bytes_data": 32}
OFFSETS |= {
    "code_first_line": 16,
    "code_filename": 24,
    "code_qualname": 32,
    "code_linetable": 40,
    "code_instructions": 64,
    "code_version": 48,
}
OFFSETS |= {"text_length": 16, "text_state": 32, "text_ascii": 40, "text_compact": 56}
RUNTIME, CODE_TYPE, TEXT_TYPE, BYTES_TYPE = BASE, BASE + 8, BASE + 16, BASE + 24


def made_interpreter() -> tuple[Made, Interpreter]:
    memory = Made(bytes(16 * PAGE))
    at = {column.name: 0 for column, _ in layout(PYTHON_LAYOUT)[0]} | OFFSETS
    at |= {"chain": PythonChain.SHIMS, "version": 0x30E, "pointer_mask": (1 << 64) - 1}
    addresses = {"runtime": RUNTIME, "code_type": CODE_TYPE, "text_type": TEXT_TYPE, "bytes_type": BYTES_TYPE}
    return memory, Interpreter(memory, addresses, at)


def test_lists_that_lead_in_a_circle_end() -> None:
    memory, interpreter = made_interpreter()
    state, frame, code = BASE + PAGE, BASE + 2 * PAGE, BASE + 3 * PAGE
    memory.put(RUNTIME, BASE + 512)
    memory.put(BASE + 512, BASE + 512, state)  # an interpreter that follows itself
    memory.put(state, 0, state, frame, 77)  # so does the state of thread 77 …
    memory.put(frame, code, frame, code + 64 + 6, 0)  # … and its frame
    frames, evaluator = interpreter.frames(77)
    assert len(frames) == MOST_FRAMES
    assert {(one.code, one.offset) for one in frames} == {(code, 6)}
    assert evaluator == 0
    memory.put(frame, code, frame, code + 64, 3)  # shims alone
    assert interpreter.frames(77) == ([], 0)
    assert interpreter.frames(78) == ([], 0)


def test_a_thread_whose_state_is_unreadable_is_an_error_that_callers_expect() -> None:
    memory, interpreter = made_interpreter()
    memory.put(RUNTIME, 1 << 50)
    with pytest.raises(UnreadableError):
        interpreter.frames(77)


def test_texts_are_read_whole_up_to_a_limit_and_only_from_texts() -> None:
    memory, interpreter = made_interpreter()
    code, text, table = BASE + PAGE, BASE + 2 * PAGE, BASE + 4 * PAGE
    memory.put(code, 1, CODE_TYPE, 12, text, text, table, 0, 0)
    memory.put(text, 1, TEXT_TYPE, 1 << 40, 0, 0x20 | 0x40 | 1 << 2)  # a terabyte, it says
    memory.put(table, 1, BYTES_TYPE, 1 << 40)
    with pytest.raises(UnreadableError):
        interpreter.read_code(code)  # as much as is mapped is less than the limit
    memory.put(text, 1, TEXT_TYPE, 3, 0, 0x20 | 2 << 2)  # two bytes a character
    memory.data[text + 56 - BASE : text + 62 - BASE] = "näm".encode("utf-16-le")
    memory.put(table, 1, BYTES_TYPE, 2)
    memory.data[table + 32 - BASE : table + 34 - BASE] = b"\x80\x00"
    read = interpreter.read_code(code)
    assert (read.first_line, read.filename, read.linetable) == (12, "näm".encode(), b"\x80\x00")
    memory.put(text + 56, 0xDC80DCFF)  # bytes that are no UTF-8, as PEP 383 keeps them
    assert interpreter.read_code(code).filename[:2] == b"\xff\x80"
    memory.put(code, 1, TEXT_TYPE)
    with pytest.raises(UnreadableError):
        interpreter.code_key(code)


def test_an_interpreter_is_known_once_its_magic_is_there() -> None:
    memory = Made(bytes(PAGE))
    assert Interpreter.published(memory, BASE) is None
    head = layout(INTERPRETER)[1]
    memory.data[head : head + 6] = struct.pack("<IH", 0x30B, int(PythonChain.ENTRY_FLAGS))
    memory.data[:8] = INTERPRETER_MAGIC
    interpreter = Interpreter.published(memory, BASE)
    assert interpreter is not None and interpreter.version == 0x30B

"""Finds the rule that leads from a native frame to its caller, in the unwind tables of a mapped file (`.eh_frame_hdr`, `.eh_frame`)."""

from __future__ import annotations

import struct

from aiflame.recorder.looks.memory import Memory, UnreadableError
from aiflame.values import dataclass, replace

SP, BP = 7, 6
"""DWARF's numbers of rsp and rbp."""
_RETURN = 16
_RELATIVE_4, _DATA_RELATIVE_4, _UNSIGNED_4 = 0x1B, 0x3B, 0x03
"""The encodings of pointers that linkers write here."""
_LARGEST = 64 << 10
"""In bytes, an entry of a table."""
_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class Rule:
    """The canonical frame address is `register` + `offset`; the caller's registers are stored at offsets from it."""

    register: int = SP
    offset: int = 8
    return_at: int | None = -8
    """None: there is no caller."""
    bp_at: int | None = None
    """None: the caller's rbp equals this frame's."""


class Rules:
    """The rules of one file; `base` is added to the file's addresses."""

    def __init__(self, memory: Memory, base: int, header: int) -> None:
        """`header`: address of `.eh_frame_hdr`."""
        self._memory, self._base, self._header = memory, base, header
        version, _, count_encoding, table_encoding, _, self._count = struct.unpack("<BBBBiI", memory.read(header, 12))
        if version != 1 or count_encoding != _UNSIGNED_4 or table_encoding != _DATA_RELATIVE_4:
            raise UnreadableError

    def at(self, pc: int) -> Rule | None:
        """None if the tables have no rule, or one that needs more than two registers."""
        try:
            return self._search(pc)
        except (struct.error, IndexError, ValueError, UnreadableError):
            return None

    def _search(self, pc: int) -> Rule | None:
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            begin, _ = self._row(middle)
            low, high = (middle + 1, high) if begin <= pc else (low, middle)
        if low == 0:
            return None
        begin, entry = self._row(low - 1)
        data, body = self._entry(entry)
        distance = int.from_bytes(data[:4], "little")
        shared, _ = self._entry(entry + 4 - distance)
        frame = _Shared.parse(shared)
        if frame is None:
            return None
        start, size = struct.unpack_from("<iI", data, 4)
        if not begin == body + 4 + start <= pc < begin + size:
            return None
        program = _Bytes(data, 12)
        if frame.augmented:
            program.skip(program.unsigned())
        first = _State(frame, Rule())
        if not first.run(_Bytes(shared, frame.program), begin, 1 << 62):
            return None
        first.initial = first.rule
        return first.rule if first.run(program, begin, pc) else None

    def _row(self, number: int) -> tuple[int, int]:
        """The start of a function, and the address of its entry."""
        begin, entry = struct.unpack("<ii", self._memory.read(self._header + 12 + 8 * number, 8))
        return self._header + begin, self._header + entry

    def _entry(self, address: int) -> tuple[bytes, int]:
        """The content of an entry after its length, and the content's address."""
        size = int.from_bytes(self._memory.read(address, 4), "little")
        if not 8 <= size <= _LARGEST:
            raise UnreadableError
        return self._memory.read(address + 4, size), address + 4


class _Bytes:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def more(self) -> bool:
        return self.at < len(self.data)

    def skip(self, count: int) -> None:
        self.at += count

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 63:
                return value

    def signed(self) -> int:
        begin, value = self.at, self.unsigned()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value


@dataclass(frozen=True, slots=True)
class _Shared:
    """The common part of a file's entries (a CIE)."""

    code_factor: int
    data_factor: int
    augmented: bool
    program: int
    """Where its instructions begin."""

    @staticmethod
    def parse(data: bytes) -> _Shared | None:
        end = data.index(b"\0", 5)
        version, augmentation = data[4], data[5:end]
        content = _Bytes(data, end + 1)
        code_factor, data_factor = content.unsigned(), content.signed()
        register = content.number(1) if version == 1 else content.unsigned()
        if data[:4] != b"\0\0\0\0" or register != _RETURN or b"S" in augmentation:
            return None
        if not augmentation.startswith(b"z"):
            return _Shared(code_factor, data_factor, False, content.at) if not augmentation else None
        size = content.unsigned()
        begin = content.at
        for letter in augmentation[1:]:
            if letter == ord("R") and content.number(1) != _RELATIVE_4:
                return None
            if letter == ord("P"):
                encoding = content.number(1)
                content.skip(8 if encoding & 0xF in (0, 4, 12) else 4)
            elif letter == ord("L"):
                content.skip(1)
        return _Shared(code_factor, data_factor, True, begin + size)


class _State:
    """Executes the instructions that make up a rule."""

    def __init__(self, frame: _Shared, rule: Rule) -> None:
        self._frame, self.rule, self.initial = frame, rule, rule
        self._kept: list[Rule] = []

    def run(self, program: _Bytes, location: int, pc: int) -> bool:
        """Executes up to the instruction at `pc`. False: an instruction does something that a `Rule` cannot express."""
        while program.more():
            operation = program.number(1)
            kind, low = operation & 0xC0, operation & 0x3F
            if kind == 0x40 or operation in (2, 3, 4):
                step = low if kind == 0x40 else program.number(1 << (operation - 2))
                location += step * self._frame.code_factor
                if location > pc:
                    return True
            elif kind == 0x80:
                self._saved(low, program.unsigned() * self._frame.data_factor)
            elif kind == 0xC0:
                self._restored(low)
            elif not self._other(operation, program):
                return False
        return True

    def _other(self, operation: int, program: _Bytes) -> bool:
        rule = self.rule
        if operation in (0x05, 0x11):
            register = program.unsigned()
            self._saved(register, (program.unsigned() if operation == 0x05 else program.signed()) * self._frame.data_factor)
        elif operation == 0x06:
            self._restored(program.unsigned())
        elif operation in (0x07, 0x08):
            register = program.unsigned()
            if operation == 0x07 and register == _RETURN:
                self.rule = replace(rule, return_at=None)
            elif operation == 0x08 and register == BP:
                self.rule = replace(rule, bp_at=None)
        elif operation == 0x0A and len(self._kept) < _DEEPEST:
            self._kept.append(rule)
        elif operation == 0x0B and self._kept:
            self.rule = self._kept.pop()
        elif operation == 0x0C:
            register, offset = program.unsigned(), program.unsigned()
            self.rule = replace(rule, register=register, offset=offset)
        elif operation == 0x0D:
            self.rule = replace(rule, register=program.unsigned())
        elif operation == 0x0E:
            self.rule = replace(rule, offset=program.unsigned())
        elif operation == 0x2E:
            program.unsigned()
        else:
            return operation == 0  # others have expressions
        return True

    def _saved(self, register: int, at: int) -> None:
        if register == BP:
            self.rule = replace(self.rule, bp_at=at)
        elif register == _RETURN:
            self.rule = replace(self.rule, return_at=at)

    def _restored(self, register: int) -> None:
        if register == BP:
            self.rule = replace(self.rule, bp_at=self.initial.bp_at)
        elif register == _RETURN:
            self.rule = replace(self.rule, return_at=self.initial.return_at)

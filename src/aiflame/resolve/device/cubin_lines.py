"""Source lines of device code, with inlined calls: `.debug_line` of a cubin.

It is DWARF's line table, versions 2 to 4, with two things of NVIDIA's own, as elfutils documents them:
- behind the list of files stands a u32: where in `.debug_str` the names of this unit begin;
- the extended opcodes 0x90 (context, name) and 0x91 (name). A row with a context was inlined: `context` is the row of the call, counted
  from 1 in the same sequence, and `name` the inlined function's place in `.debug_str`.
Each function is one sequence; a relocation says which section its addresses are offsets of.

We decode it ourselves instead of parsing nvdisasm's output: lines are there without the tool, and with function names, which it does
not print.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from aiflame.resolve.device.cubin import Cubin
from aiflame.values import dataclass

DEBUG_LINE = ".debug_line"
DEEPEST = 200
"""The most levels of inlined calls that are followed; a longer chain is damage."""

_MOST_FILES = 1 << 16
_END_SEQUENCE, _SET_ADDRESS, _INLINED_CALL, _FUNCTION_NAME = 1, 2, 0x90, 0x91
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 5, 8, 9


@dataclass(frozen=True, slots=True)
class File:
    path: str
    bytes: int
    """The file's size when it was compiled, 0 if unknown."""


class DeviceLine(NamedTuple):
    function: str
    """The name as compiled; "" for the function itself, in which the code is not inlined."""
    file: File
    line: int


Chain = tuple[DeviceLine, ...]
"""Outermost first: the function itself, then inlined code."""


class _Row(NamedTuple):
    address: int
    file: int
    line: int
    context: int
    name: int


class Sequence:
    """The lines of one function, by offset in its section."""

    def __init__(self, unit: _Unit, rows: list[_Row], end: int, names: bytes) -> None:
        self._unit, self._rows, self._names = unit, rows, names
        # Of several rows with the same address, the last one counts.
        self._order = sorted(range(len(rows)), key=lambda row: (rows[row].address, row))
        self._addresses = [rows[row].address for row in self._order]
        self._chains: dict[int, Chain] = {}
        self.start, self.end = self._addresses[0], end

    def chain(self, address: int) -> Chain:
        """The chain at an address; empty if there is no line."""
        at = bisect_right(self._addresses, address)
        if at == 0 or address >= self.end:
            return ()
        row = self._order[at - 1]
        if row not in self._chains:
            self._chains[row] = self._chain(row)
        return self._chains[row]

    def _chain(self, row: int) -> Chain:
        chain: list[DeviceLine] = []
        while True:
            one = self._rows[row]
            inlined = 0 < one.context <= row  # a context must come before the row that refers to it
            chain.append(DeviceLine(self._name(one.name) if inlined else "", self._unit.file(one.file), one.line))
            if not inlined or len(chain) == DEEPEST:
                return tuple(place for place in reversed(chain) if place.line > 0)
            row = one.context - 1

    def _name(self, at: int) -> str:
        at += self._unit.names_at
        return self._names[at : max(self._names.find(b"\0", at), at)].decode("utf-8", "replace")


class CubinLines:
    """The line table of a cubin; a function's lines are decoded when they are asked for."""

    def __init__(self, cubin: Cubin, section: str = DEBUG_LINE) -> None:
        self._cubin = cubin
        self._name = section
        self._data = cubin.data(section)
        self._known: dict[int, tuple[Sequence, ...]] = {}

    def chain(self, section: int, address: int) -> Chain:
        if section not in self._known:
            self._known[section] = tuple(self._sequences(section))
        return next((chain for sequence in self._known[section] if (chain := sequence.chain(address))), ())

    def files(self) -> dict[str, File]:
        """All files that the table names, by path."""
        return {file.path: file for unit in self._units for file in unit.files}

    def _sequences(self, section: int) -> list[Sequence]:
        sequences, behind = [], 0
        for start in self._starts.get(section, ()):
            unit = self._unit_of(start)
            if unit is None or start < behind:
                continue
            rows, end, behind = _run(self._data, start, unit)
            if rows:
                sequences.append(Sequence(unit, rows, end, self._names))
        return sequences

    @cached_property
    def _names(self) -> bytes:
        return self._cubin.data(".debug_str")

    @cached_property
    def _units(self) -> list[_Unit]:
        units, at = [], 0
        while unit := _unit(self._data, at):
            units.append(unit)
            at = unit.end
        return units

    def _unit_of(self, at: int) -> _Unit | None:
        index = bisect_right([unit.program for unit in self._units], at) - 1
        return self._units[index] if index >= 0 and at < self._units[index].end else None

    @cached_property
    def _starts(self) -> dict[int, list[int]]:
        """Section of code → the offsets at which its sequences begin: at the opcode that sets the address, which is relocated."""
        starts: dict[int, list[int]] = {}
        opcode = bytes((0, 9, _SET_ADDRESS))
        for one in self._cubin.relocations(self._name):
            if self._data[max(one.offset - 3, 0) : one.offset] == opcode:
                starts.setdefault(one.section, []).append(one.offset - 3)
        only = self._cubin.only_code()
        if not starts and only is not None:
            starts[only] = [unit.program for unit in self._units]
        return starts


@dataclass(frozen=True, slots=True)
class _Unit:
    program: int
    end: int
    step: int
    line_base: int
    line_range: int
    lengths: bytes
    """The number of operands of each standard opcode, from opcode 1."""
    files: tuple[File, ...]
    names_at: int

    def file(self, number: int) -> File:
        return self.files[number - 1] if 0 < number <= len(self.files) else File("", 0)


def _unit(data: bytes, at: int) -> _Unit | None:
    """The header at `at`; None if it is missing or of an unknown version."""
    if at + 16 > len(data):
        return None
    length, version, header = struct.unpack_from("<IHI", data, at)
    program, end = at + 10 + header, min(at + 4 + length, len(data))
    if not 2 <= version <= 4 or not at + 16 < program <= end:
        return None
    at += 10
    step = data[at]
    at += 3 if version >= 4 else 2  # version 4 has the number of operations in an instruction, too
    line_base, line_range, opcodes = struct.unpack_from("<bBB", data, at)
    at += 3 + max(opcodes - 1, 0)
    lengths = data[at - max(opcodes - 1, 0) : at]
    files, at = _files(data, at, program)
    names_at = struct.unpack_from("<I", data, at)[0] if at + 4 == program else 0
    return _Unit(program, end, step, line_base, max(line_range, 1), lengths, files, names_at)


def _files(data: bytes, at: int, end: int) -> tuple[tuple[File, ...], int]:
    folders: list[str] = [""]
    files: list[File] = []
    while (text := _string(data, at, end)) and len(folders) < _MOST_FILES:
        folders.append(text.decode("utf-8", "replace"))
        at += len(text) + 1
    at += 1
    while (text := _string(data, at, end)) and len(files) < _MOST_FILES:
        folder, at = _uleb(data, at + len(text) + 1)
        _, at = _uleb(data, at)  # time of modification
        size, at = _uleb(data, at)
        name = text.decode("utf-8", "replace")
        has_folder = 0 < folder < len(folders) and not name.startswith("/")
        files.append(File(f"{folders[folder].rstrip('/')}/{name}" if has_folder else name, size))
    return tuple(files), at + 1


def _run(data: bytes, at: int, unit: _Unit) -> tuple[list[_Row], int, int]:
    """Runs one sequence: its rows, the address where it ends, and the offset behind it in the program."""
    rows: list[_Row] = []
    address, file, line, context, name = 0, 1, 1, 0, 0
    base, span, step, lengths = unit.line_base, unit.line_range, unit.step, unit.lengths
    special = len(lengths) + 1
    while at < unit.end:
        opcode = data[at]
        at += 1
        if opcode >= special:
            address += (opcode - special) // span * step
            line += base + (opcode - special) % span
            rows.append(_Row(address, file, line, context, name))
        elif opcode == 0:
            size, at = _uleb(data, at)
            if size == 0 or at >= unit.end:
                continue
            behind = at + size
            what = data[at]
            if what == _END_SEQUENCE:
                return rows, address, behind
            if what == _SET_ADDRESS:
                address = int.from_bytes(data[at + 1 : min(behind, at + 9)], "little")
            elif what == _INLINED_CALL:
                context, at = _uleb(data, at + 1)
                name, at = _uleb(data, at)
            elif what == _FUNCTION_NAME:
                name, at = _uleb(data, at + 1)
            at = behind
        elif opcode == _COPY:
            rows.append(_Row(address, file, line, context, name))
        elif opcode == _ADVANCE_PC:
            value, at = _uleb(data, at)
            address += value * step
        elif opcode == _ADVANCE_LINE:
            value, at = _sleb(data, at)
            line += value
        elif opcode == _SET_FILE:
            file, at = _uleb(data, at)
        elif opcode == _CONST_ADD_PC:
            address += (255 - special) // span * step
        elif opcode == _FIXED_ADVANCE_PC:
            address += int.from_bytes(data[at : at + 2], "little")
            at += 2
        else:
            for _ in range(lengths[opcode - 1]):
                _, at = _uleb(data, at)
    return rows, address, at  # cut short


def _string(data: bytes, at: int, end: int) -> bytes:
    return data[at : max(data.find(b"\0", at, end), at)]


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    """A LEB128 number of any length; above 64 bits it is damage, and only the low part is kept."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        if shift < 64:
            value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value & 0xFFFFFFFFFFFFFFFF, at


def _sleb(data: bytes, at: int) -> tuple[int, int]:
    value, behind = _uleb(data, at)
    bits = min(7 * (behind - at), 64)
    return (value - (1 << bits) if bits and value >> (bits - 1) & 1 else value), behind

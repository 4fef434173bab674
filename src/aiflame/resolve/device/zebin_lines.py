"""Source lines of a zebin, with inlined calls.

Its debug information is DWARF 4, which the reader of native files (`symbolic`) reads, once its addresses are those of one program: a
compiled zebin has all its kernels at address 0, and relocations of Intel's own. So a copy is made, as a linker would make it.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from aiflame.resolve.device.cubin_lines import Chain, DeviceLine, File
from aiflame.resolve.device.zebin import MACHINE, Zebin
from aiflame.resolve.files.elf_file import RELOCATION, ElfFile, NotElf, Section
from aiflame.resolve.native.debug_lines import DebugLines, SourceLine, too_much
from aiflame.resolve.native.debug_lines_apart import chains_apart
from aiflame.values import dataclass

LARGEST = 256 << 20
"""The size of the largest zebin whose lines are read. Those that torch compiles have some hundred kilobytes."""
_MOST_UNITS, _MOST_RELOCATIONS = 1 << 16, 1 << 20

_ADDRESS, _LOW_HALF, _HIGH_HALF = 1, 2, 3
"""Relocations: all of an address, or the lower or upper half of it."""
_EXECUTABLE, _LOAD = 2, 1
_NO_SECTION, _SYMBOL_TABLE, _RELOCATIONS = 0, 2, (4, 9)
_SECTION_HEADER, _PROGRAM_HEADER = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IIQQQQQQ")
_FIRST, _ALIGNED = 0x1000, 0x1000
_FARTHEST = 0xF000_0000
"""The reader has 32 bits for addresses in a file."""


def chains(zebin: Zebin, places: Sequence[tuple[int, int]], *, apart: bool = True) -> list[Chain] | None:
    """The lines of each place (section, offset). None if the debug information cannot be read, or there is too much of it. `apart`: another
    process reads it, because a stranger may have made it."""
    if len(zebin.content) > LARGEST:
        return None
    content = linked(zebin)
    if content is None:
        return [() for _ in places]
    elf = _in_memory(content)
    if elf is None or too_much(elf):
        return None
    starts = {number: section.address for number, section in enumerate(elf.sections)}
    addresses = [starts[section] + offset for section, offset in places]
    if apart:
        answers = chains_apart(elf, addresses)
    else:
        debug = DebugLines(elf)
        answers = [debug.lookup(address) for address in addresses]
    return None if answers is None else [_chain(lines) for lines in answers]


def linked(zebin: Zebin) -> bytes | None:
    """A copy in which each section of code has an address of its own, to which the debug information refers. None if it has none."""
    elf = zebin.elf
    if not elf.line_bytes or not zebin.kernels:
        return None
    content = bytearray(zebin.content)
    starts = {kernel.section: zebin.address(kernel) for kernel in zebin.kernels}
    if not all(starts.values()):
        starts = _placed(zebin)
    if max(starts.values()) - min(starts.values()) > _FARTHEST:
        return None  # no driver places the code of a module so
    _relocate(content, zebin, starts)
    _write_headers(content, elf, starts)
    return bytes(content)


def _placed(zebin: Zebin) -> dict[int, int]:
    """An address for each section of code."""
    starts, address = {}, _FIRST
    for kernel in zebin.kernels:
        starts[kernel.section] = address
        address += -(-kernel.size // _ALIGNED) * _ALIGNED
    return starts


@dataclass(frozen=True, slots=True)
class _Relocation:
    offset: int
    """The place that is patched: its offset in its section."""
    kind: int
    symbol: str
    addend: int


def _relocate(content: bytearray, zebin: Zebin, starts: dict[int, int]) -> None:
    """The symbols of relocations have the names of sections. The compiler leaves some without a name (IGC 2.40 for Ponte Vecchio, from a
    module's second kernel on): these belong to the kernel of their unit."""
    by_name = {f".text.{kernel.name}": kernel.section for kernel in zebin.kernels}
    of_info = list(_relocations(zebin.elf, ".debug_info"))
    kernels = _kernels_of_units(zebin, of_info, by_name)
    for name in (".debug_info", ".debug_line"):
        target = zebin.elf.section(name)
        units = _units(zebin.elf.section_data(target))
        for one in of_info if name == ".debug_info" else _relocations(zebin.elf, name):
            section = by_name.get(one.symbol)
            if section is None and one.kind == _ADDRESS:
                section = kernels.get(bisect_right(units, one.offset) - 1)
            if target is None or (section is None and one.kind != _LOW_HALF):
                continue
            value = (starts.get(section or 0, 0) + one.addend) & 0xFFFFFFFFFFFFFFFF
            if one.kind == _ADDRESS:
                _patch(content, target, one.offset, value, 8)
            elif one.kind == _LOW_HALF:
                _patch(content, target, one.offset, value & 0xFFFFFFFF, 4)
            elif one.kind == _HIGH_HALF:
                _patch(content, target, one.offset, value >> 32, 4)


def _relocations(elf: ElfFile, name: str) -> Iterator[_Relocation]:
    data = elf.section_data(elf.section(f".rela{name}"))
    table = elf.symbols(".symtab")
    if table is None:
        return
    symbols, strings = table
    rows = np.frombuffer(data, RELOCATION, count=min(len(data) // RELOCATION.itemsize, _MOST_RELOCATIONS))
    rows = rows[rows["symbol"] < len(symbols)]
    names = {symbol: elf.text(strings, int(symbols["name"][symbol])) for symbol in np.unique(rows["symbol"]).tolist()}
    for offset, kind, symbol, addend in rows.tolist():
        yield _Relocation(offset, kind, names[symbol], addend)


def _units(data: bytes) -> list[int]:
    """Where each unit of a debug section begins."""
    starts: list[int] = []
    at = 0
    while at + 4 <= len(data) and len(starts) < _MOST_UNITS:
        starts.append(at)
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    return starts


def _kernels_of_units(zebin: Zebin, relocations: list[_Relocation], by_name: dict[str, int]) -> dict[int, int]:
    """Unit → section of its kernel. A unit without a name belongs to the first kernel without a unit that is as long as it."""
    units = _units(zebin.data(".debug_info"))
    named: dict[int, int] = {}
    ends: dict[int, int] = {}
    for one in relocations:
        if one.kind == _ADDRESS:
            unit = bisect_right(units, one.offset) - 1
            ends[unit] = max(ends.get(unit, 0), one.addend)
            if one.symbol in by_name:
                named[unit] = by_name[one.symbol]
    free = [kernel.section for kernel in zebin.kernels if kernel.section not in named.values()]
    for unit in sorted(ends.keys() - named.keys()):
        section = next((section for section in free if zebin.end(section) == ends[unit]), None)
        if section is not None:
            named[unit] = section
            free.remove(section)
    return named


def _patch(content: bytearray, section: Section, offset: int, value: int, size: int) -> None:
    at = section.offset + offset
    if offset + size <= section.size and at + size <= len(content):
        content[at : at + size] = value.to_bytes(size, "little")


def _write_headers(content: bytearray, elf: ElfFile, starts: dict[int, int]) -> None:
    """One program header, from the lowest address of code on; sections of code at their addresses; no symbols, which may be offsets."""
    (headers,) = struct.unpack_from("<Q", content, 40)
    for number, section in enumerate(elf.sections):
        at = headers + number * _SECTION_HEADER.size
        if at + _SECTION_HEADER.size > len(content):
            break
        if number in starts:
            struct.pack_into("<Q", content, at + 16, starts[number])
        if section.type == _SYMBOL_TABLE or section.type in _RELOCATIONS:
            struct.pack_into("<I", content, at + 4, _NO_SECTION)
    first = min(starts.values())
    size = max(start + elf.sections[number].size for number, start in starts.items()) - first
    content += bytes(-len(content) % 8)
    struct.pack_into("<HH", content, 16, _EXECUTABLE, MACHINE)
    struct.pack_into("<Q", content, 32, len(content))
    struct.pack_into("<HH", content, 54, _PROGRAM_HEADER.size, 1)
    content += _PROGRAM_HEADER.pack(_LOAD, 5, 0, first, first, 0, size & 0xFFFFFFFFFFFFFFFF, 8)


def _in_memory(content: bytes) -> ElfFile | None:
    """A file without a name, for the process that reads it."""
    try:
        descriptor = os.memfd_create("zebin")
    except OSError:
        return None
    try:
        unwritten = memoryview(content)
        while unwritten:
            unwritten = unwritten[os.write(descriptor, unwritten) :]
        return ElfFile(descriptor, of_profile=True)
    except (OSError, NotElf):
        os.close(descriptor)
        return None


def _chain(lines: list[SourceLine]) -> Chain:
    """The first is the function itself, whose name the table of symbols has."""
    places = (DeviceLine(line.name if depth else "", File(line.file, 0), line.line) for depth, line in enumerate(lines))
    return tuple(place for place in places if place.line > 0)

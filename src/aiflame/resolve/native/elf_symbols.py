"""Functions of an ELF file by address: from symbol tables and PLT stubs, and without names, from the starts of functions in unwind tables.

Tables are searched as arrays, and only the names that are asked for are read: libtorch_cpu has half a million symbols and 80 MB of names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aiflame.resolve.files.elf_file import EXECUTABLE_SECTION, RELOCATION, ElfFile, Section
from aiflame.values import dataclass

FUNCTION, INDIRECT_FUNCTION, NO_TYPE = 2, 10, 0
X86_64 = 62
_NEAR = np.uint64(4 << 20)
"""More bytes than any function has."""
_MOST_ALIASES, _MOST_SLOTS = 256, 1 << 20
"""The most names of one place, and relocations of functions, that are examined."""


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    """The name as in the file; empty if only the place is known."""
    start: int


class ElfSymbols:
    """Looks up functions in one file; `debug` is its separate debug file. `near`: all addresses that will be looked up, in order; only
    symbols near them are read, which is faster for few addresses of a large file."""

    def __init__(self, binary: ElfFile | None, debug: ElfFile | None = None, near: NDArray[np.uint64] | None = None) -> None:
        self._binary = binary
        self._tables = list(_symbol_tables(binary, debug))
        elf = binary or debug
        self._sections = [s for s in elf.sections if s.flags & EXECUTABLE_SECTION] if elf else []
        parts = [table.picked(np.uint64(number), near) for number, table in enumerate(self._tables)]
        rows = np.concatenate(parts) if parts else np.zeros(0, ROW)
        rows = rows[np.argsort(rows["start"], kind="stable")]
        self._sized = rows[rows["end"] > rows["start"]]
        self._labels = rows[rows["end"] == rows["start"]]
        self._starts, self._first = np.unique(self._sized["start"], return_index=True)
        self._ends = np.maximum.reduceat(self._sized["end"], self._first) if len(self._first) else self._starts
        self._names: dict[int, str] = {}

    def lookup(self, addresses: NDArray[np.uint64]) -> list[Function | None]:
        """The function that contains each address. A symbol that ends before an address is not its function."""
        place = _covering(self._starts, self._ends, addresses)
        functions: list[Function | None] = []
        for address, at in zip(addresses.tolist(), place.tolist(), strict=True):
            if at >= 0:
                functions.append(Function(self._sized_name(at), int(self._starts[at])))
            else:
                functions.append(self._stub(address) or self._label(address) or self._unnamed(address))
        return functions

    def _sized_name(self, at: int) -> str:
        """The best name among the symbols that begin at a place and extend as far as any of them."""
        name = self._names.get(at)
        if name is None:
            last = int(self._first[at + 1]) if at + 1 < len(self._first) else len(self._sized)
            rows = self._sized[int(self._first[at]) : last][:_MOST_ALIASES]
            name = self._names[at] = min((self._read(row) for row in rows), key=_preference)[1]
        return name

    def _label(self, address: int) -> Function | None:
        """A symbol without a size (hand-written assembly): it extends to the next symbol or to the end of its section."""
        section = self._section(address)
        before = int(np.searchsorted(self._starts, np.uint64(address), side="right")) - 1
        lowest = max(int(self._starts[before]), int(self._ends[before])) if before >= 0 else 0
        at = int(np.searchsorted(self._labels["start"], np.uint64(address), side="right")) - 1
        for row in self._labels[max(at - 64, 0) : at + 1][::-1]:
            start = int(row["start"])
            if section is None or not section.covers(start) or start < lowest:
                return None
            name = self._read(row)[1]
            if not name.startswith((".", "$")):  # marks of annobin and of the ARM assembler
                return Function(name, start)
        return None

    def _stub(self, address: int) -> Function | None:
        """`foo@plt`: the entry jumps through a slot, whose relocation names a symbol."""
        section = self._section(address)
        if self._binary is None or section is None or not section.name.startswith(".plt") or self._binary.machine != X86_64:
            return None
        step = section.entry_bytes or 16
        start = address - (address - section.address) % step
        code = self._binary.at_address(start, step)
        jump = code.find(b"\xff\x25")  # jmp *slot(%rip)
        if jump < 0 or jump + 6 > len(code):
            return None
        name = self._slot_name(start + jump + 6 + struct.unpack_from("<i", code, jump + 2)[0])
        return Function(f"{name}@plt", start) if name else None

    def _slot_name(self, slot: int) -> str:
        """The function in a slot of the global offset table: another library's, or one of our own chosen at load time."""
        table = self._binary.symbols(".dynsym") if self._binary else None
        at = self._slots.get(slot)
        if self._binary is None or table is None or at is None:
            return ""
        if at < 0:
            chosen = self.lookup(np.array([-at], np.uint64))[0]
            return chosen.name if chosen else ""
        symbols, strings = table
        return self._binary.text(strings, int(symbols["name"][at])) if at < len(symbols) else ""

    @cached_property
    def _slots(self) -> dict[int, int]:
        """Slot → its symbol's row, or the negative address of the function that chooses (IRELATIVE)."""
        slots: dict[int, int] = {}
        for name in (".rela.plt", ".rela.dyn"):
            data = self._binary.section_data(self._binary.section(name)) if self._binary else b""
            rows = np.frombuffer(data, RELOCATION, count=len(data) // RELOCATION.itemsize)
            named = rows[(rows["type"] == 6) | (rows["type"] == 7)][:_MOST_SLOTS]  # GLOB_DAT, JUMP_SLOT
            slots.update(zip(named["offset"].tolist(), named["symbol"].tolist(), strict=True))
            chosen = rows[(rows["type"] == 37) & (rows["addend"] > 0)][:_MOST_SLOTS]  # IRELATIVE
            slots.update(zip(chosen["offset"].tolist(), (-chosen["addend"]).tolist(), strict=True))
        return slots

    def _unnamed(self, address: int) -> Function | None:
        """A function without a symbol, from the unwind tables: its addresses at least stay together."""
        starts, entries = self._unwind
        at = int(np.searchsorted(starts, np.int64(address), side="right")) - 1
        if self._binary is None or at < 0:
            return None
        start, entry = int(starts[at]), int(entries[at])
        head = self._binary.at_address(entry, 16)
        if len(head) < 16:
            return None
        # Length, distance to the CIE, then the function in 32-bit numbers relative to their place, as linkers write it.
        _, _, begin, size = struct.unpack("<IIiI", head)
        return Function("", start) if entry + 8 + begin == start and address < start + size else None

    @cached_property
    def _unwind(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The starts of functions, in order, and the address of each one's entry in `.eh_frame`."""
        none = np.zeros(0, np.int64)
        section = self._binary.section(".eh_frame_hdr") if self._binary else None
        if self._binary is None or section is None:
            return none, none
        data = self._binary.section_data(section)
        if len(data) < 12 or data[0] != 1 or data[1] & 0x0F not in (0x0B, 0x03) or data[2:4] != b"\x03\x3b":
            return none, none
        count = min(struct.unpack_from("<I", data, 8)[0], (len(data) - 12) // 8)
        pairs = np.frombuffer(data, "<i4", count=count * 2, offset=12).astype(np.int64).reshape(-1, 2) + section.address
        return pairs[:, 0], pairs[:, 1]

    def _section(self, address: int) -> Section | None:
        return next((section for section in self._sections if section.covers(address)), None)

    def _read(self, row: np.void) -> tuple[int, str]:
        table = self._tables[int(row["table"])]
        return int(row["rank"]), table.file.text(table.strings, int(row["name"])).split("@", 1)[0]


ROW = np.dtype([("start", "<u8"), ("end", "<u8"), ("rank", "u1"), ("table", "u1"), ("name", "<u4")])


@dataclass(frozen=True, slots=True)
class _SymbolTable:
    file: ElfFile
    symbols: NDArray[np.void]
    strings: Section

    def picked(self, number: np.uint64, near: NDArray[np.uint64] | None) -> NDArray[np.void]:
        """Its functions, and its labels in executable sections."""
        symbols, sections = self.symbols, self.file.sections
        if near is not None and len(near):
            starts = symbols["value"]
            after = np.minimum(np.searchsorted(near, starts), len(near) - 1)
            symbols = symbols[near[after] - starts <= _NEAR]  # without a sign: one behind all addresses is far from them
        executable = np.zeros(1 << 16, dtype=bool)
        for index, section in enumerate(sections):
            executable[index] = bool(section.flags & EXECUTABLE_SECTION)
        kind = symbols["info"] & 15
        function = ((kind == FUNCTION) | (kind == INDIRECT_FUNCTION)) & (symbols["section"] != 0)
        label = (kind == NO_TYPE) & (symbols["size"] == 0) & executable[symbols["section"]] & (symbols["name"] != 0)
        symbols = symbols[function | label]
        rows = np.zeros(len(symbols), ROW)
        rows["start"] = symbols["value"]
        rows["end"] = symbols["value"] + np.minimum(symbols["size"], np.uint64(1 << 32))
        binding = symbols["info"] >> 4
        rows["rank"] = np.where(binding == 1, 0, np.where(binding == 2, 1, 2))
        rows["table"] = number
        rows["name"] = symbols["name"]
        return rows


def _symbol_tables(binary: ElfFile | None, debug: ElfFile | None) -> Iterator[_SymbolTable]:
    """The whole table if there is one, otherwise the tables that stripping left."""
    for file in (binary, debug):
        if file and (table := file.symbols(".symtab")):
            yield _SymbolTable(file, *table)
            return
    if binary:
        if table := binary.symbols(".dynsym"):
            yield _SymbolTable(binary, *table)
        small = binary.small_debug()
        if small and (table := small.symbols(".symtab")):
            yield _SymbolTable(small, *table)


def _covering(starts: NDArray[np.uint64], ends: NDArray[np.uint64], addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The index of the nearest interval that contains each address, -1 for none. Intervals may nest (entries inside a function)."""
    place = np.searchsorted(starts, addresses, side="right").astype(np.int64) - 1
    result = np.full(len(addresses), -1, dtype=np.int64)
    open_ = place >= 0
    for _ in range(16):
        if not open_.any():
            break
        inside = open_.copy()
        inside[open_] = addresses[open_] < ends[place[open_]]
        result[inside] = place[inside]
        place = place - 1
        open_ &= ~inside & (place >= 0)
    return result


def _preference(candidate: tuple[int, str]) -> tuple[int, int, int, str]:
    """The order of names of one place: fewest leading underscores first, global before weak before local, then the shorter."""
    rank, name = candidate
    return len(name) - len(name.lstrip("_")), rank, len(name), name

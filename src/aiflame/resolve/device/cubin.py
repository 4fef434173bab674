"""Device code of CUDA: a cubin is an ELF file with a section of code for each kernel, `.text.NAME`.

Functions that a kernel calls follow it in the same section, with symbols of their own; the kernel's symbol covers both. Addresses are
offsets in a section: a cubin has no address space.
"""

from __future__ import annotations

from functools import cached_property
from typing import BinaryIO

import numpy as np

from aiflame.resolve.files.elf_file import RELOCATION, SYMBOL, ElfFile, NotElf, Section
from aiflame.values import dataclass

MACHINE = 190
"""EM_CUDA"""
LARGEST = 1 << 30
IN_MEMORY = 4 << 20
"""A larger file (a library's) stays open and is read in parts, since only a few of its thousands of functions are needed."""

_CODE = ".text."
_FUNCTION = 2
_PLAIN_RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4")])


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    """The name as compiled."""
    section: int
    start: int
    """Its offset in its section."""
    size: int

    def covers(self, address: int) -> bool:
        return self.start <= address < self.start + self.size


@dataclass(frozen=True, slots=True)
class Relocation:
    offset: int
    """The offset that the loader patches."""
    section: int
    """Its target: a section and an offset in it."""
    value: int


class Cubin:
    """A cubin file. Inconsistent parts are ignored: a file may be cut short or damaged."""

    def __init__(self, source: bytes | ElfFile) -> None:
        """NotElf if it is not a cubin."""
        self.elf = ElfFile(source) if isinstance(source, bytes) else source
        if self.elf.machine != MACHINE:
            raise NotElf

    @classmethod
    def of(cls, file: BinaryIO) -> Cubin | None:
        """None if it is not a cubin. The file may be closed afterwards."""
        try:
            size = file.seek(0, 2)
            if size <= IN_MEMORY:
                file.seek(0)
                return cls.of_bytes(file.read(IN_MEMORY))
            source = ElfFile.of(file) if size <= LARGEST else None
            return cls(source) if source is not None else None
        except (OSError, ValueError, NotElf):
            return None

    @classmethod
    def of_bytes(cls, content: bytes | None) -> Cubin | None:
        try:
            return cls(content) if content is not None else None
        except (ValueError, NotElf):
            return None

    @property
    def header(self) -> bytes:
        return self.elf.read(0, 64)

    def find(self, name: str) -> Function | None:
        """A function by the name in samples. Without a symbol (in a stripped cubin) it is its whole section."""
        return self._functions.get(name) or self._sections.get(name)

    def code(self, section: int) -> bytes:
        return self.elf.section_data(self.elf.sections[section])

    def inside(self, section: int) -> tuple[Function, ...]:
        """The functions in a section, outermost first."""
        return self._inside.get(section, ())

    def name_at(self, place: Relocation) -> str:
        """The function to which a relocation points."""
        return next((function.name for function in self.inside(place.section) if function.start == place.value), "")

    def relocations(self, name: str) -> list[Relocation]:
        """The relocations of a section, by offset."""
        for prefix, layout in ((".rela", RELOCATION), (".rel", _PLAIN_RELOCATION)):
            data = self.elf.section_data(self.elf.section(prefix + name))
            if len(data) >= layout.itemsize:
                return self._resolved(data, layout)
        return []

    def data(self, name: str) -> bytes:
        return self.elf.section_data(self.elf.section(name))

    def only_code(self) -> int | None:
        """The section of code, if there is only one."""
        sections = [index for index, section in enumerate(self.elf.sections) if section.name.startswith(_CODE)]
        return sections[0] if len(sections) == 1 else None

    @cached_property
    def _functions(self) -> dict[str, Function]:
        """The first function of each name."""
        by_name: dict[str, Function] = {}
        for functions in self._inside.values():
            for function in functions:
                by_name.setdefault(function.name, function)
        return by_name

    @cached_property
    def _inside(self) -> dict[int, tuple[Function, ...]]:
        table = self.elf.symbols(".symtab")
        if table is None:
            return {}
        symbols, strings = table
        names, sections = self.elf.section_data(strings), self.elf.sections
        by_section: dict[int, list[Function]] = {}
        for row in symbols[symbols["info"] & 15 == _FUNCTION]:
            index, start, size = int(row["section"]), int(row["value"]), int(row["size"])
            if index < len(sections) and sections[index].name.startswith(_CODE) and 0 < size <= _room(sections[index], start):
                by_section.setdefault(index, []).append(Function(_text(names, int(row["name"])), index, start, size))
        return {index: tuple(sorted(functions, key=lambda one: (one.start, -one.size))) for index, functions in by_section.items()}

    @cached_property
    def _sections(self) -> dict[str, Function]:
        by_name: dict[str, Function] = {}
        for index, section in enumerate(self.elf.sections):
            if section.name.startswith(_CODE) and section.size:
                name = section.name[len(_CODE) :].encode("latin-1").decode("utf-8", "replace")
                by_name.setdefault(name, Function(name, index, 0, len(self.code(index))))
        return by_name

    def _resolved(self, data: bytes, layout: np.dtype[np.void]) -> list[Relocation]:
        rows = np.frombuffer(data, layout, count=len(data) // layout.itemsize)
        table = self.elf.symbols(".symtab")
        symbols = table[0] if table else np.empty(0, SYMBOL)
        rows = rows[rows["symbol"] < len(symbols)]
        targets = symbols[rows["symbol"]]
        values = targets["value"].astype(np.uint64)
        if "addend" in (layout.names or ()):
            values = values + rows["addend"].astype(np.uint64)
        relocations = zip(rows["offset"].tolist(), targets["section"].tolist(), values.tolist(), strict=True)
        return [Relocation(*one) for one in sorted(relocations)]


def _room(section: Section, start: int) -> int:
    return section.size - start


def _text(names: bytes, at: int) -> str:
    return names[at : max(names.find(b"\0", at), at)].decode("utf-8", "replace")

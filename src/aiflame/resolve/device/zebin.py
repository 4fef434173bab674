"""Device code of Intel's GPUs: a zebin is an ELF file with a section of code for each kernel, `.text.NAME`.

The compiler's file is not linked: each section begins at address 0. The driver's copy for debuggers has the addresses at which the code
lies in the GPU's memory. Functions that a kernel calls follow it in its section, with symbols of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

from aiflame.resolve.files.elf_file import EXECUTABLE_SECTION, ElfFile, NotElf, Section, notes
from aiflame.values import dataclass

MACHINE = 205
"""EM_INTELGT"""

LARGEST_KERNEL = 8 << 20
"""A section of code is read so far: half a million instructions, a hundred times as many as in the largest kernels of libraries."""

_CODE = ".text."
_FUNCTION, _NOTE_SECTION = 2, 7
_LOW = 0xFFFFFFFF
_NOTES = ".note.intelgt.compat"
_OWNER = b"IntelGT\0"
_FAMILY_NOTE, _PRODUCT_NOTE = 1, 6
_FAMILIES = {0x4F6: (12, 55), 0x4F7: (12, 60), 0x4F8: (12, 70), 0x4FA: (20, 1), 0x4FB: (20, 4), 0x514: (30, 0)}
"""Numbers of families of products, for files of compilers that do not name the product (IGC 1.0 of 2022)."""
_MOST_FUNCTIONS = 1 << 20


@dataclass(frozen=True, slots=True)
class ZebinFunction:
    name: str
    """The name as compiled."""
    section: int
    start: int
    """Its offset in its section."""
    size: int

    def covers(self, offset: int) -> bool:
        return self.start <= offset < self.start + self.size


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a GPU's core: 12.60 is Ponte Vecchio, 20.4 Lunar Lake, 30.0 Panther Lake. 0.0: unknown."""

    architecture: int
    release: int


class Zebin:
    """A zebin, as compiled or as loaded. Inconsistent parts are ignored: a file may be cut short or damaged."""

    def __init__(self, content: bytes) -> None:
        """NotElf if it is not a zebin."""
        self.content = content
        self.elf = ElfFile(content)
        if self.elf.machine != MACHINE:
            raise NotElf

    @classmethod
    def of_bytes(cls, content: bytes | None) -> Zebin | None:
        try:
            return cls(content) if content is not None else None
        except (ValueError, NotElf):
            return None

    @cached_property
    def kernels(self) -> tuple[ZebinFunction, ...]:
        """Each section of code under its kernel's name, which it shares with the calls that launch it. It covers the functions that the
        kernel calls."""
        sizes = ((number, self._size(section)) for number, section in enumerate(self.elf.sections) if _is_code(section))
        return tuple(ZebinFunction(self._name(number), number, 0, size) for number, size in sizes if size > 0)

    def find(self, name: str) -> ZebinFunction | None:
        return self._by_name.get(name)

    def at(self, address: int) -> tuple[ZebinFunction, int] | None:
        """The kernel whose code lies at an address, and the offset in it. Samples have the low 32 bits of addresses: only these count."""
        for kernel in self.kernels:
            offset = (address - self.address(kernel)) & _LOW
            if offset < kernel.size:
                return kernel, offset
        return None

    def address(self, kernel: ZebinFunction) -> int:
        """Where its section lies in the GPU's memory; 0 if it was not loaded."""
        return self.elf.sections[kernel.section].address

    def code(self, section: int) -> bytes:
        return self.elf.read(self.elf.sections[section].offset, self._size(self.elf.sections[section]))

    def inside(self, section: int) -> tuple[ZebinFunction, ...]:
        """The functions in a section that have symbols, by their start."""
        return self._inside.get(section, ())

    def end(self, section: int) -> int:
        """Where the last function of a section ends: behind it are instructions that the GPU fetches but does not execute."""
        return max((function.start + function.size for function in self.inside(section)), default=0)

    def data(self, name: str) -> bytes:
        return self.elf.section_data(self.elf.section(name))

    @cached_property
    def version(self) -> Version:
        """The GPU for which it was compiled."""
        by_kind = dict(self._notes())
        if product := by_kind.get(_PRODUCT_NOTE):
            return Version(product >> 22, product >> 14 & 0xFF)
        return Version(*_FAMILIES.get(by_kind.get(_FAMILY_NOTE, 0), (0, 0)))

    @cached_property
    def _by_name(self) -> dict[str, ZebinFunction]:
        return {kernel.name: kernel for kernel in reversed(self.kernels)}

    @cached_property
    def _inside(self) -> dict[int, tuple[ZebinFunction, ...]]:
        table = self.elf.symbols(".symtab")
        if table is None:
            return {}
        symbols, strings = table
        names = self.elf.section_data(strings)
        by_section: dict[int, list[ZebinFunction]] = {}
        for row in symbols[symbols["info"] & 15 == _FUNCTION][:_MOST_FUNCTIONS]:
            index, size = int(row["section"]), int(row["size"])
            if index >= len(self.elf.sections) or not _is_code(self.elf.sections[index]):
                continue
            section = self.elf.sections[index]
            start = int(row["value"]) - section.address
            if size and 0 <= start <= section.size - size:
                by_section.setdefault(index, []).append(ZebinFunction(_text(names, int(row["name"])), index, start, size))
        return {index: tuple(sorted(functions, key=lambda one: (one.start, -one.size))) for index, functions in by_section.items()}

    def _size(self, section: Section) -> int:
        return min(section.size, LARGEST_KERNEL, len(self.content) - section.offset)

    def _name(self, section: int) -> str:
        """A long name, as SYCL's kernels have, is not read with the sections (256 bytes at most): the symbol at its begin has it, too."""
        if name := self.elf.sections[section].name:
            return name[len(_CODE) :].encode("latin-1").decode("utf-8", "replace")
        return next((one.name for one in self.inside(section) if one.start == 0), "")

    def _notes(self) -> Iterator[tuple[int, int]]:
        for section in self.elf.sections:
            if section.type == _NOTE_SECTION and section.name == _NOTES:
                for owner, kind, content in notes(self.elf.section_data(section)):
                    if owner == _OWNER and len(content) == 4:
                        yield kind, struct.unpack("<I", content)[0]


def _is_code(section: Section) -> bool:
    return section.size > 0 and (section.name.startswith(_CODE) or (not section.name and bool(section.flags & EXECUTABLE_SECTION)))


def _text(names: bytes, at: int) -> str:
    return names[at : max(names.find(b"\0", at), at)].decode("utf-8", "replace")

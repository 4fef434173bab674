"""Device code of AMD: a code object (hsaco) is an ELF shared object. Its functions have addresses, and each kernel a descriptor, `NAME.kd`,
whose layout LLVM's AMDGPUUsage describes ("Kernel Descriptor")."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from aiflame.resolve.device.cubin_lines import Chain, DeviceLine, File
from aiflame.resolve.files.elf_file import ElfFile, NotElf
from aiflame.resolve.native.debug_lines import DebugLines, SourceLine, too_much
from aiflame.resolve.native.debug_lines_apart import chains_apart
from aiflame.values import dataclass

MACHINE = 224
"""EM_AMDGPU"""
STEP = 4
"""Instructions are 4, 8 or more bytes long, and begin at multiples of this."""
DESCRIPTOR = ".kd"
"""The ending of the name of a kernel's descriptor, which runtimes use for the kernel."""

_FUNCTION = 2
_DESCRIPTOR_BYTES = 64
_WAVE32 = 1 << 10
_FLAGS_AT = 48
_ARCHITECTURES = {
    0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904", 0x2F: "gfx906", 0x30: "gfx908", 0x31: "gfx909", 0x32: "gfx90c",
    0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033",
    0x3D: "gfx1035", 0x3E: "gfx1034", 0x3F: "gfx90a", 0x40: "gfx940", 0x41: "gfx1100", 0x42: "gfx1013", 0x43: "gfx1150",
    0x44: "gfx1103", 0x45: "gfx1036", 0x46: "gfx1101", 0x47: "gfx1102", 0x48: "gfx1200", 0x49: "gfx1250", 0x4A: "gfx1151",
    0x4B: "gfx941", 0x4C: "gfx942", 0x4E: "gfx1201", 0x4F: "gfx950", 0x55: "gfx1152", 0x58: "gfx1153",
}  # fmt: skip
"""By the low byte of the ELF header's flags (EF_AMDGPU_MACH)."""
_UNIFIED_REGISTERS = frozenset({"gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})
"""Their accumulation registers are the upper part of a wave's vector registers."""


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    """The name as compiled."""
    start: int
    """Its address in the file."""
    size: int

    def covers(self, address: int) -> bool:
        return self.start <= address < self.start + self.size


@dataclass(frozen=True, slots=True)
class Kernel:
    """The resources that a kernel's descriptor states."""

    name: str
    lds_bytes: int
    """Local data share of a workgroup, without the part that a launch adds."""
    scratch_bytes: int
    """Private memory of a work item: stack and spills."""
    argument_bytes: int
    vector_registers: int
    """As allocated for a lane, with the accumulation registers."""
    accumulation_registers: int
    scalar_registers: int
    """As allocated for a wave; 0: every wave has all of them (gfx10 and later)."""
    lanes: int
    """The number of lanes of a wave: 32 or 64."""


class Hsaco:
    """A code object. Inconsistent parts are ignored: a file may be cut short or damaged."""

    def __init__(self, content: bytes) -> None:
        """NotElf if it is no code object of AMD."""
        self.elf = ElfFile(content)
        self.content = content
        if self.elf.machine != MACHINE:
            raise NotElf

    @classmethod
    def of_bytes(cls, content: bytes | None) -> Hsaco | None:
        try:
            return cls(content) if content is not None else None
        except (ValueError, NotElf):
            return None

    @property
    def architecture(self) -> str:
        """`gfx942`; "" for one that we do not know."""
        return _ARCHITECTURES.get(int.from_bytes(self.elf.read(_FLAGS_AT, 1), "little"), "")

    def find(self, name: str) -> Function | None:
        """A function by the name in samples, or by the name of its descriptor."""
        return self._by_name.get(name) or self._by_name.get(name.removesuffix(DESCRIPTOR))

    def at(self, address: int) -> Function | None:
        """The function whose code is at an address."""
        place = bisect_right(self._starts, address)
        function = self.functions[place - 1] if place else None
        return function if function is not None and function.covers(address) else None

    def chains(self, addresses: Sequence[int], *, apart: bool = False) -> list[Chain]:
        """The source lines of each instruction, outermost first; empty if there is no line. `apart`: another process reads the debug
        information, because a stranger may have made it."""
        elf = self._of_lines()
        if elf is None:
            return [() for _ in addresses]
        if apart:
            places = chains_apart(elf, list(addresses)) or [[] for _ in addresses]
        else:
            lines = DebugLines(elf)
            places = [lines.lookup(address) for address in addresses]
        return [_chain(chain) for chain in places]

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """By address; of several with the same address the first."""
        by_start: dict[int, Function] = {}
        for name, start, size, kind in self._symbols:
            if kind == _FUNCTION and size and any(one.flags & 4 and one.covers(start) for one in self.elf.sections):
                by_start.setdefault(start, Function(name, start, size))
        return tuple(by_start[start] for start in sorted(by_start))

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        described = {}
        for name, start, size, _ in self._symbols:
            data = self.elf.at_address(start, _DESCRIPTOR_BYTES)
            if name.endswith(DESCRIPTOR) and size == len(data) == _DESCRIPTOR_BYTES:
                own = name.removesuffix(DESCRIPTOR)
                described[own] = _kernel(own, data, self.architecture)
        return described

    @cached_property
    def _by_name(self) -> dict[str, Function]:
        return {function.name: function for function in reversed(self.functions)}

    @cached_property
    def _starts(self) -> list[int]:
        return [function.start for function in self.functions]

    @cached_property
    def _symbols(self) -> list[tuple[str, int, int, int]]:
        """Name, address, size, type; those that a stripped file keeps, if it has no others."""
        for table in (".symtab", ".dynsym"):
            if (symbols_and_strings := self.elf.symbols(table)) is not None and len(symbols_and_strings[0]):
                symbols, strings = symbols_and_strings
                names = self.elf.section_data(strings)
                rows = np.unique(symbols[(symbols["section"] > 0) & (symbols["section"] < 0xFF00)])
                return [(_text(names, int(row["name"])), int(row["value"]), int(row["size"]), int(row["info"]) & 15) for row in rows]
        return []

    def _of_lines(self) -> ElfFile | None:
        """symbolic reads a file in place, where its parts are aligned; it fails on bytes that are not."""
        if too_much(self.elf) or not self.elf.line_bytes:
            return None
        descriptor = os.memfd_create("aiflame-hsaco", os.MFD_CLOEXEC)
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(self.content)
        return ElfFile(descriptor)


def _chain(places: Sequence[SourceLine]) -> Chain:
    return tuple(
        DeviceLine(place.name if depth else "", File(place.file, 0), place.line)
        for depth, place in enumerate(places)
        if place.file and place.line
    )


def _kernel(name: str, data: bytes, architecture: str) -> Kernel:
    lds, scratch, arguments = struct.unpack_from("<III", data, 0)
    third, first = struct.unpack_from("<II", data, 44)
    wave32 = bool(struct.unpack_from("<H", data, 56)[0] & _WAVE32)
    unified, old = architecture in _UNIFIED_REGISTERS, architecture.startswith("gfx9")
    vectors = ((first & 63) + 1) * (8 if unified or wave32 else 4)
    plain = ((third & 63) + 1) * 4 if unified else vectors
    scalars = ((first >> 6 & 15) // 2 + 1) * 16 if old else 0
    return Kernel(name, lds, scratch, arguments, vectors, max(vectors - plain, 0), scalars, 32 if wave32 else 64)


def _text(names: bytes, at: int) -> str:
    return names[at : max(names.find(b"\0", at), at)].decode("utf-8", "replace")

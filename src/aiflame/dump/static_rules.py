"""Unwind rules of a program whose file has no search table for them (`.eh_frame_hdr`): one that was linked statically."""

from __future__ import annotations

import struct

from aiflame.recorder.looks.memory import Memory
from aiflame.recorder.looks.modules import Module
from aiflame.recorder.looks.unwind_rules import Rules
from aiflame.resolve.files.elf_file import ElfFile

_LARGEST = 16 << 20


class StaticRules(Rules):
    def __init__(self, memory: Memory, base: int, section: int, data: bytes) -> None:
        """`section`: the address of `.eh_frame` in the process; `data`: its content."""
        self._memory, self._base = memory, base
        self._rows = sorted(_functions(section, data))
        self._count = len(self._rows)

    def _row(self, number: int) -> tuple[int, int]:
        return self._rows[number]


def add_static_rules(memory: Memory, module: Module, elf: ElfFile) -> None:
    section = elf.section(".eh_frame")
    if module.rules is None and section is not None and section.size <= _LARGEST:
        module.rules = StaticRules(memory, module.base, module.base + section.address, elf.section_data(section))


def _functions(section: int, data: bytes) -> list[tuple[int, int]]:
    """The start of each function and the address of its entry, for starts that are relative numbers of 4 bytes, as linkers write them."""
    rows, at = list[tuple[int, int]](), 0
    while at + 12 <= len(data):
        size, shared, start = struct.unpack_from("<IIi", data, at)
        if not size or size >= 0xFFFFFFF0:
            break
        if shared:  # 0: not a function, but the common part of several
            rows.append((section + at + 8 + start, section + at))
        at += 4 + size
    return rows

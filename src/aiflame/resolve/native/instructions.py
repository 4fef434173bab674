"""The machine instruction at an address of a file."""

from __future__ import annotations

from collections.abc import Iterable

import capstone  # type: ignore[import-untyped]

from aiflame.resolve.files.elf_file import ElfFile

LONGEST_INSTRUCTION = 16
_MACHINES = {62: (capstone.CS_ARCH_X86, capstone.CS_MODE_64), 183: (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)}


def instructions_at(elf: ElfFile, addresses: Iterable[int]) -> list[str]:
    """One instruction for each address; empty if the file has none there."""
    machine = _MACHINES.get(elf.machine)
    if machine is None:
        return ["" for _ in addresses]
    reader = capstone.Cs(*machine)
    return [_instruction(reader, elf.at_address(address, LONGEST_INSTRUCTION), address) for address in addresses]


def _instruction(reader: capstone.Cs, code: bytes, address: int) -> str:
    for _, _, name, operands in reader.disasm_lite(code, address, 1):
        return f"{name} {operands}".strip()
    return ""

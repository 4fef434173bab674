"""Finds the functions in the device code of Intel's drivers: an ELF file for each module, whose sections have the GPU's addresses."""

from __future__ import annotations

import struct

from aiflame.profile.folder.door import Folder
from aiflame.values import dataclass

_FOLDER = "cubins"
_MAGIC = b"\x7fELF\x02\x01"
"""64 bits, little-endian"""
_MACHINE = 205
"""EM_INTELGT"""
_HEADER = struct.Struct("<16xHH20xQ10xHHH")
"""type, machine, offset of the sections; size of a section's header, number of sections, place of their names"""
_SECTION = struct.Struct("<IIQQQQ24x")
"""name, type, flags, address, offset, size"""
_TEXT = b".text."
_LARGEST = 1 << 30
_LONGEST_NAME = 1 << 16


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    address: int
    size: int


def placed_functions(profile: Folder, crc: int) -> list[Function]:
    """The functions of a module that the profile keeps; none if it is not kept or not readable."""
    with profile.folder(_FOLDER).file(f"{crc:016x}.cubin") as file:
        if file is None or file.seek(0, 2) > _LARGEST:
            return []
        file.seek(0)
        return functions_of(file.read(_LARGEST))


def functions_of(content: bytes) -> list[Function]:
    try:
        _, machine, begin, size, count, names = _HEADER.unpack_from(content)
        if not content.startswith(_MAGIC) or machine != _MACHINE or size != _SECTION.size:
            return []
        sections = [_SECTION.unpack_from(content, begin + number * size) for number in range(count)]
        name_begin, name_size = sections[names][4:6]
    except (struct.error, IndexError):
        return []
    functions = []
    for at, _, _, address, _, bytes_ in sections:
        end = content.find(b"\0", name_begin + at, min(name_begin + at + _LONGEST_NAME, name_begin + name_size))
        name = content[name_begin + at : max(end, name_begin + at)]
        if name.startswith(_TEXT) and 0 < bytes_ <= _LARGEST and address:
            functions.append(Function(name.removeprefix(_TEXT).decode(errors="replace"), address, bytes_))
    return functions

"""Makes a small cubin from a few functions of large ones, because nvdisasm always reads a whole file.

A library's cubin has thousands of functions and tens of megabytes, of which a profile needs a few. The tool takes half a second to start,
so functions of many cubins go into one file if their headers agree about the code (architecture, ABI).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from aiflame.resolve.files.elf_file import SYMBOL

_SECTION = struct.Struct("<IIQQQQIIQQ")
_BITS, _SYMBOLS, _STRINGS = 1, 2, 3
_EXECUTABLE = 6
_GLOBAL_FUNCTION = 1 << 4 | 2
_ALIGNMENT = 128
_OWN_SECTIONS = 4


def identity(header: bytes) -> bytes:
    """The part of the header that must be equal in cubins whose code goes into one file: all but the offsets of its tables."""
    return header[:24] + header[48:52]


def name_of(number: int) -> str:
    """A function's name in the small cubin."""
    return f"f{number}"


def cut(header: bytes, codes: Sequence[bytes]) -> bytes:
    """A cubin with these functions; `header` is the header of any cubin that contained one of them."""
    names = [name_of(number) for number in range(len(codes))]
    labels = _Strings((".shstrtab", ".strtab", ".symtab", *(f".text.{name}" for name in names)))
    functions = _Strings(names)
    symbols = bytes(SYMBOL.itemsize) + b"".join(
        struct.pack("<IBBHQQ", functions.at[name], _GLOBAL_FUNCTION, 0, _OWN_SECTIONS + number, 0, len(codes[number]))
        for number, name in enumerate(names)
    )
    file, sections = bytearray(header[:64].ljust(64, b"\0")), [bytes(_SECTION.size)]

    def add(name: str, kind: int, flags: int, content: bytes, link: int, info: int, alignment: int, entry: int) -> None:
        file.extend(bytes(-len(file) % alignment))
        sections.append(_SECTION.pack(labels.at[name], kind, flags, 0, len(file), len(content), link, info, alignment, entry))
        file.extend(content)

    add(".shstrtab", _STRINGS, 0, labels.data, 0, 0, 1, 0)
    add(".strtab", _STRINGS, 0, functions.data, 0, 0, 1, 0)
    add(".symtab", _SYMBOLS, 0, symbols, 2, 1, 8, SYMBOL.itemsize)
    for name, code in zip(names, codes, strict=True):
        add(f".text.{name}", _BITS, _EXECUTABLE, code, 3, 0, _ALIGNMENT, 0)
    file.extend(bytes(-len(file) % 8))
    struct.pack_into("<QQ", file, 32, 0, len(file))
    struct.pack_into("<HHHHHH", file, 52, 64, 56, 0, _SECTION.size, len(sections), 1)
    return bytes(file) + b"".join(sections)


class _Strings:
    """A section of NUL-terminated strings."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.at: dict[str, int] = {}
        data = b"\0"
        for text in texts:
            self.at[text] = len(data)
            data += text.encode() + b"\0"
        self.data = data

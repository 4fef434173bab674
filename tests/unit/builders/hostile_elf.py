"""ELF files as a stranger could put them into a profile: sizes, names and debug information that are lies or bombs."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from aiflame.resolve.files.elf_file import COMPRESSED

SYMTAB, STRTAB, PROGBITS = 2, 3, 1
CODE = 0x1000


@dataclass(frozen=True)
class Part:
    data: bytes
    kind: int = PROGBITS
    flags: int = 0
    size: int | None = None
    """The size in the header, if that is a lie."""
    link: int = 0


def elf(parts: Mapping[str, Part]) -> bytes:
    """A file with these sections behind the empty first one, and one executable segment that is all of it."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*parts, ".shstrtab"))
    rows, body, at = [struct.pack("<IIQQQQIIQQ", *[0] * 10)], b"", 64 + 56
    name_at = 1
    for name, part in {**parts, ".shstrtab": Part(names, STRTAB)}.items():
        size = len(part.data) if part.size is None else part.size
        address = CODE if name == ".text" else 0
        rows.append(
            struct.pack("<IIQQQQIIQQ", name_at, part.kind, part.flags, address, at, size, part.link, 0, 1, 24 if part.kind == SYMTAB else 0)
        )
        body, at, name_at = body + part.data, at + len(part.data), name_at + len(name) + 1
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, CODE, 64, at, 0, 64, 56, 1, 64, len(rows), len(rows) - 1
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, at, at, 4096)
    return header + segment + body + b"".join(rows)


def symbols(names: bytes, rows: list[tuple[int, int, int]]) -> dict[str, Part]:
    """Functions: place of the name, address, size."""
    table = b"".join(struct.pack("<IBBHQQ", name, 0x12, 0, 1, start, size) for name, start, size in [(0, 0, 0), *rows])
    return {".text": Part(b"\xc3" * 64, flags=6), ".symtab": Part(table, SYMTAB, link=3), ".strtab": Part(names, STRTAB)}


def debug(info: bytes, abbreviations: bytes, line: bytes = b"") -> dict[str, Part]:
    parts = {".debug_info": Part(info), ".debug_abbrev": Part(abbreviations), ".debug_str": Part(b"f\0")}
    return {**parts, ".debug_line": Part(line)} if line else parts


def packed(data: bytes, says: int | None = None) -> Part:
    head = struct.pack("<IIQQ", 1, 0, len(data) if says is None else says, 1)
    return Part(head + zlib.compress(data, 9), flags=COMPRESSED)


def nested(depth: int) -> dict[str, Part]:
    """One function with so many inlined into one another."""
    # 1: unit (name, low, high, line table); 2: function (name, low, high); 3: inlined (origin, low, high, file, line); 4: function (name)
    abbreviations = b"".join(
        map(
            bytes.fromhex,
            (
                "01 11 01 03 08 11 01 12 07 10 17 13 0b 00 00",
                "02 2e 01 03 08 11 01 12 07 00 00",
                "03 1d 01 31 13 11 01 12 07 58 0b 59 0b 00 00",
                "04 2e 00 03 08 20 0b 00 00 00",
            ),
        )
    )
    span = struct.pack("<QQ", CODE, 64)
    unit = b"\x01a.c\0" + span + struct.pack("<I", 0) + b"\x0c"
    origin = 11 + len(unit)
    body = unit + b"\x04inner\0\x01" + b"\x02outer\0" + span
    body += (b"\x03" + struct.pack("<I", origin) + span + b"\x01\x01") * depth + b"\0" * (depth + 2)
    head = struct.pack("<HIB", 4, 0, 8)
    return debug(struct.pack("<I", len(head) + len(body)) + head + body, abbreviations, line_program(b""))


def line_program(opcodes: bytes) -> bytes:
    """Version 2, one file; rows from CODE on."""
    head = bytes([1, 1, 0xFB, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + b"\0" + b"a.c\0\0\0\0" + b"\0"
    program = b"\0\x09\x02" + struct.pack("<Q", CODE) + opcodes + b"\x02\x40\0\x01\x01"
    whole = struct.pack("<HI", 2, len(head)) + head + program
    return struct.pack("<I", len(whole)) + whole

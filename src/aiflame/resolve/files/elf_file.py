"""Reads ELF files: sections, segments, notes, symbol tables. Bytes come by pread, so a file that is cut short meanwhile is no fault.

It reads only the parts that are needed to name addresses, in 64-bit little-endian files. Every offset is checked before it is used.
"""

from __future__ import annotations

import lzma
import os
import stat
import struct
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from aiflame.profile.folder.other_root import open_file
from aiflame.values import dataclass

LARGEST_TABLE = 256 << 20
"""The largest section that we read completely: eleven million symbols. A larger one has a broken header."""
LONGEST_NAME = 256 << 10
"""Bytes of a symbol's name that are read: some C++ names have a hundred thousand."""
_LONGEST_SECTION_NAME, _LARGEST_SECTION_NAMES = 256, 4 << 20

LOAD, NOTE = 1, 4
EXECUTABLE_SECTION, COMPRESSED = 4, 0x800
NOBITS = 8

SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])
RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


class NotElf(Exception):
    """The file is not an ELF file that we can read."""


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    entry_bytes: int

    def covers(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


@dataclass(frozen=True, slots=True)
class Segment:
    type: int
    flags: int
    offset: int
    address: int
    file_bytes: int


class ElfFile:
    """An open ELF file, or the bytes of one."""

    def __init__(self, source: int | bytes, *, of_profile: bool = False) -> None:
        self._source = source
        self.of_profile = of_profile
        """True if it is in a profile, and may come from a stranger."""
        header = self.read(0, 64)
        if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
            self._source = b""  # the caller closes it
            raise NotElf
        (self.type, self.machine) = struct.unpack_from("<HH", header, 16)
        (self._segments_at, self._sections_at) = struct.unpack_from("<QQ", header, 32)
        (self._segment_bytes, self._segment_count, self._section_bytes, self._section_count, self._names_section) = struct.unpack_from(
            "<HHHHH", header, 54
        )

    @classmethod
    def open(cls, path: Path) -> ElfFile | None:
        """None if there is no such regular file, or it is not ELF. Does not wait for a pipe or device of that name."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                elf = cls(descriptor)
                descriptor = -1
                return elf
        except NotElf:
            pass
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return None

    @classmethod
    def below(cls, root: int, path: Path) -> ElfFile | None:
        """The same for a file below another root folder, whose owner may be a stranger."""
        try:
            descriptor = open_file(root, str(path))
        except (OSError, ValueError):
            return None
        try:
            return cls(descriptor, of_profile=True)
        except NotElf:
            os.close(descriptor)
            return None

    @classmethod
    def of(cls, file: BinaryIO | None) -> ElfFile | None:
        """The same for an open file of a profile; the caller may close it afterwards."""
        try:
            return cls(os.dup(file.fileno()), of_profile=True) if file is not None else None
        except NotElf:
            return None

    def status(self) -> os.stat_result | None:
        """The status of the file; None for bytes."""
        return os.fstat(self._source) if isinstance(self._source, int) and self._source >= 0 else None

    def content(self) -> int | bytes:
        """The descriptor, or the bytes, for libraries that read ELF files themselves."""
        return self._source

    def close(self) -> None:
        if isinstance(self._source, int) and self._source >= 0:
            os.close(self._source)
            self._source = b""

    def __del__(self) -> None:
        self.close()

    def read(self, offset: int, size: int) -> bytes:
        """Reads at most `size` bytes: fewer at the end of the file."""
        if isinstance(self._source, bytes):
            return self._source[offset : offset + size]
        try:
            return os.pread(self._source, min(size, LARGEST_TABLE), offset)
        except (OSError, OverflowError):
            return b""

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        if self._segment_bytes < 56:
            return ()
        table = self.read(self._segments_at, self._segment_bytes * self._segment_count)
        segments = []
        for at in range(0, len(table) - 55, self._segment_bytes):
            kind, flags, offset, address, _, file_bytes = struct.unpack_from("<IIQQQQ", table, at)
            segments.append(Segment(kind, flags, offset, address, file_bytes))
        return tuple(segments)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        if self._section_bytes < 64:
            return ()
        table = self.read(self._sections_at, self._section_bytes * self._section_count)
        rows = [struct.unpack_from("<IIQQQQIIQQ", table, at) for at in range(0, len(table) - 63, self._section_bytes)]
        of_names = rows[self._names_section] if self._names_section < len(rows) else None
        names = self.read(of_names[4], min(of_names[5], _LARGEST_SECTION_NAMES)) if of_names else b""
        return tuple(
            Section(
                names[row[0] : max(names.find(b"\0", row[0], row[0] + _LONGEST_SECTION_NAME), row[0])].decode("latin-1"),
                row[1], row[2], row[3], row[4], row[5], row[6], row[9],
            )
            for row in rows
        )  # fmt: skip

    def section(self, name: str) -> Section | None:
        return next((section for section in self.sections if section.name == name), None)

    def section_data(self, section: Section | None) -> bytes:
        return b"" if section is None or section.type == NOBITS else self.read(section.offset, section.size)

    @property
    def first_address(self) -> int:
        """The base of `symbolic`'s addresses: the address of the first loaded segment."""
        return next((segment.address for segment in self.segments if segment.type == LOAD), 0)

    def at_address(self, address: int, size: int) -> bytes:
        """The bytes that the loader maps at `address`."""
        for segment in self.segments:
            if segment.type == LOAD and segment.address <= address < segment.address + segment.file_bytes:
                start = address - segment.address
                return self.read(segment.offset + start, min(size, segment.file_bytes - start))
        return b""

    @cached_property
    def build_id(self) -> bytes:
        """The GNU build-id note, empty if there is none."""
        for segment in self.segments:
            if segment.type == NOTE:
                for name, kind, content in notes(self.read(segment.offset, min(segment.file_bytes, 1 << 16))):
                    if name == b"GNU\0" and kind == 3:
                        return content
        return b""

    @cached_property
    def debug_link(self) -> str:
        """Name of the file that holds the debug sections."""
        data = self.section_data(self.section(".gnu_debuglink"))
        return data[: max(data.find(b"\0"), 0)].decode("utf-8", "surrogateescape")

    @property
    def line_bytes(self) -> int:
        """Size of its debug information when unpacked; 0 if it has none."""
        section = self.section(".debug_info")
        return 0 if section is None or section.type == NOBITS else self._unpacked(section)

    @property
    def debug_bytes(self) -> tuple[int, int]:
        """The size of all its debug sections, in the file and unpacked, from their headers."""
        sections = [each for each in self.sections if each.name.startswith((".debug_", ".zdebug_")) and each.type != NOBITS]
        return sum(each.size for each in sections), sum(map(self._unpacked, sections))

    def _unpacked(self, section: Section) -> int:
        header = self.read(section.offset, 24)
        if section.flags & COMPRESSED:
            return int(struct.unpack_from("<Q", header, 8)[0]) if len(header) == 24 else section.size
        return int.from_bytes(header[4:12], "big") if header.startswith(b"ZLIB") else section.size

    def symbols(self, name: str) -> tuple[NDArray[np.void], Section] | None:
        """A symbol table and the section of its strings."""
        section = self.section(name)
        if section is None or section.type == NOBITS or section.link >= len(self.sections):
            return None
        data = self.section_data(section)
        return np.frombuffer(data, SYMBOL, count=len(data) // SYMBOL.itemsize), self.sections[section.link]

    def text(self, strings: Section, at: int) -> str:
        """The NUL-terminated string at `at` of a string section; a long one is cut."""
        room = 256
        while True:
            data = self.read(strings.offset + at, min(room, max(strings.size - at, 0)))
            end = data.find(b"\0")
            if end >= 0 or len(data) < room or room >= LONGEST_NAME:
                return data[: end if end >= 0 else len(data)].decode("utf-8", "replace")
            room = min(room * 8, LONGEST_NAME)

    def small_debug(self) -> ElfFile | None:
        """The ELF file in `.gnu_debugdata`: symbols that Fedora's tools keep when they strip (the torch wheel's libgomp has one)."""
        data = self.section_data(self.section(".gnu_debugdata"))
        if not data:
            return None
        try:
            return ElfFile(lzma.LZMADecompressor(memlimit=1 << 28).decompress(data, max_length=1 << 28))
        except (lzma.LZMAError, NotElf, EOFError):
            return None


def notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Name, type and content of each note."""
    at = 0
    while at + 12 <= len(data):
        name_bytes, content_bytes, kind = struct.unpack_from("<III", data, at)
        content_at = at + 12 + (name_bytes + 3 & ~3)
        yield data[at + 12 : at + 12 + name_bytes], kind, data[content_at : content_at + content_bytes]
        at = content_at + (content_bytes + 3 & ~3)

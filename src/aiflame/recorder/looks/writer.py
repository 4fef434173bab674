"""Writes the looks at one process, as tables of the spool in `spool/looks/PID.START_NS/`; sealing (`profile/spool/looks`) appends them to
those of the process.

In these tables `waits.thread` is the system's thread id, and ids of stacks, code and modules count within the folder."""

from __future__ import annotations

import struct
import time

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import HEADER_BYTES, SPOOL_HEADER, SPOOL_MAGIC, TABLES
from aiflame.profile.schema.control_schema import FORMAT
from aiflame.profile.schema.records import COMMIT, Column, layout
from aiflame.profile.spool.open_lives import LOOKS_FOLDER

_STRINGS, _STRINGS_NUMBER = "strings", 0xFFFF
_LONGEST = 1 << 20
_KEPT_S = 2.0
_NO_END = 0xFFFF_FFFF
"""In a header, instead of the number of records: they reach to the end of the file."""
_SEED, _FACTOR, _MASK = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, (1 << 64) - 1
_ORDER = (_STRINGS, "codes", "modules", "marks", "stacks", "waits")
"""A table is written before those that refer to it."""


class Writer:
    def __init__(self, spool: Folder, page: ControlPage, pid: int, start_ns: int) -> None:
        self._spool, self._name, self._page, self._pid = spool, f"{pid}.{start_ns}", page, pid
        self._waiting = {name: bytearray() for name in _ORDER}
        self._records = dict.fromkeys(_ORDER, 0)
        """Number of records; for texts, of units of 8 bytes."""
        self._texts: dict[bytes, int] = {}
        self._nodes: dict[tuple[int, int], int] = {}
        self._begun: set[str] = set()
        self._next_writing = time.monotonic() + _KEPT_S
        self.full = False
        """True if there is no room for more."""

    def text(self, content: bytes) -> int:
        """Adds a text and returns a reference to it."""
        content = content[:_LONGEST]
        if not content or content in self._texts:
            return self._texts.get(content, 0)
        entry = bytearray(struct.pack("<II", 0, len(content)) + content + bytes(-len(content) % 8))
        entry[:4] = _check_word(entry).to_bytes(4, "little")
        self._waiting[_STRINGS] += entry
        reference = self._texts[content] = self._records[_STRINGS] + 1
        self._records[_STRINGS] += len(entry) // 8
        return reference

    def add(self, table: str, *values: int) -> int:
        """Adds a record and returns its id."""
        record = bytearray(_FORMATS[table].pack(0, *values))
        record[:4] = _check_word(record).to_bytes(4, "little")
        self._waiting[table] += record
        self._records[table] += 1
        return self._records[table]

    def stack(self, words: list[int]) -> int:
        """The id of a stack with these frames, the outermost first."""
        node = 0
        for word in words:
            key = node, word
            if key not in self._nodes:
                self._nodes[key] = self.add("stacks", node, word)
            node = self._nodes[key]
        return node

    def write_sometimes(self) -> None:
        if time.monotonic() >= self._next_writing:
            self._next_writing = time.monotonic() + _KEPT_S
            self.write()

    def write(self) -> None:
        """Writes the new rows. OSError if they cannot be written."""
        size = sum(map(len, self._waiting.values()))
        if not size or self.full:
            return
        if not self._page.take(size + HEADER_BYTES * sum(bool(data) and name not in self._begun for name, data in self._waiting.items())):
            self.full = True
            return
        folder = self._spool.make_folder(LOOKS_FOLDER).make_folder(self._name)
        for table, data in self._waiting.items():
            if data:
                self._append(folder, table, bytes(data))
                data.clear()

    def _append(self, folder: Folder, table: str, data: bytes) -> None:
        name = f"{table}.table"
        if table not in self._begun:
            self._begun.add(table)
            with folder.new_file(name) as file:
                file.write(_header(table, self._pid) + data)
            return
        with folder.existing(name) as there:
            if there is not None:
                there.seek(0, 2)
                there.write(data)


def _format(columns: tuple[Column, ...]) -> struct.Struct:
    """The format of a record, with its padding."""
    placed, size = layout(columns)
    parts, end = ["<"], 0
    for column, offset in placed:
        width = int(column.type.numpy[-1])
        parts.append(f"{offset - end}x{ {1: 'B', 2: 'H', 4: 'I', 8: 'Q'}[width] }")
        end = offset + width
    return struct.Struct("".join([*parts, f"{size - end}x"]))


_NUMBERS = {table.name: number for number, table in enumerate(TABLES)} | {_STRINGS: _STRINGS_NUMBER}
_FORMATS = {table.name: _format((COMMIT, *table.columns)) for table in TABLES if table.name in _ORDER}
_HEADER = _format(SPOOL_HEADER)


def _header(table: str, pid: int) -> bytes:
    size = _FORMATS[table].size if table in _FORMATS else 8
    magic = int.from_bytes(SPOOL_MAGIC, "little")
    return _HEADER.pack(magic, FORMAT, _NUMBERS[table], size, pid, _NO_END).ljust(HEADER_BYTES, b"\0")


def _check_word(data: bytearray) -> int:
    """The check word as `native/spool/spool.hpp` computes it, for data whose first four bytes are 0."""
    state = _SEED
    for (word,) in struct.iter_unpack("<Q", data):
        state = (state ^ word) * _FACTOR & _MASK
        state ^= state >> 32
    return state & 0xFFFFFFFF | 1

"""The files that a process has mapped as code."""

from __future__ import annotations

import os
import struct
import time
from bisect import bisect_right
from pathlib import Path

from aiflame.recorder.looks.memory import Memory, UnreadableError
from aiflame.recorder.looks.unwind_rules import Rule, Rules
from aiflame.values import dataclass

_AGAIN_S = 2.0
"""The least number of seconds between two readings of the map."""
_LARGEST_MAP = 8 << 20
_MOST_RULES = 1 << 16
_LOADED, _NOTES, _UNWIND_HEADER = 1, 4, 0x6474E550
_LARGEST_NOTES = 4096
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_MOST_HEADERS = 64
_IN_MEMORY = " (deleted)"
"""The system says so of files that lie in memory alone: `attach/sending.py` has such ones."""


@dataclass(slots=True, eq=False)
class Module:
    path: str
    inode: int
    device: int
    first: int
    """The address of its first page."""
    low: int
    high: int
    base: int = 0
    """The difference between its addresses and those in the file."""
    build_id: bytes = b""
    rules: Rules | None = None
    opened: bool = False


class Modules:
    def __init__(self, pid: int, memory: Memory) -> None:
        self._pid, self._memory = pid, memory
        self._starts: list[int] = []
        self._ranges: list[tuple[int, Module]] = []
        self._next_reading = 0.0
        self._rules: dict[int, Rule | None] = {}

    def at(self, pc: int) -> Module | None:
        """The module with code at this address; None for code that was made at run time."""
        module = self._find(pc)
        if module is None and time.monotonic() >= self._next_reading:
            self._read_map()
            module = self._find(pc)
        if module is not None and not module.opened:
            module.opened = True
            self._open(module)
        return module

    def known(self, pc: int) -> bool:
        """True if there is a file's code at this address, as far as is known without reading the map again."""
        return self._find(pc) is not None

    def files(self) -> list[Module]:
        """All modules, each once, in the order of their addresses."""
        if not self._ranges:
            self._read_map()
        return list(dict.fromkeys(module for _, module in self._ranges))

    def named(self, name: str) -> Module | None:
        """The module whose file has this name."""
        if not self._ranges:
            self._read_map()
        wanted = (name, f"{name}{_IN_MEMORY}")
        low = next((module.low for _, module in self._ranges if module.path.rpartition("/")[2] in wanted), 0)
        return self.at(low) if low else None

    def every(self) -> list[Module]:
        """All modules."""
        self._read_map()
        return [module for module in {id(one): one for _, one in self._ranges}.values() if self.at(module.low) is not None]

    def rule(self, module: Module, pc: int) -> Rule | None:
        """The rule that gives the caller of a frame at this instruction, or just behind it."""
        if pc not in self._rules:
            if len(self._rules) >= _MOST_RULES:
                self._rules.clear()
            self._rules[pc] = module.rules.at(pc) if module.rules is not None else None
        return self._rules[pc]

    def _find(self, pc: int) -> Module | None:
        place = bisect_right(self._starts, pc) - 1
        if place < 0 or pc >= self._ranges[place][0]:
            return None
        return self._ranges[place][1]

    def _read_map(self) -> None:
        self._next_reading = time.monotonic() + _AGAIN_S
        with Path(f"/proc/{self._pid}/maps").open("rb") as file:
            lines = file.read(_LARGEST_MAP).splitlines()
        earlier = {(module.path, module.first): module for _, module in self._ranges}
        self._starts, self._ranges, firsts = [], [], dict[bytes, int]()
        for line in lines:
            fields = line.split(None, 5)
            if len(fields) < 6 or not fields[5].startswith((b"/", b"[vdso]")):
                continue
            start, end = (int(part, 16) for part in fields[0].split(b"-"))
            if int(fields[2], 16) == 0:
                firsts[fields[5]] = start
            if b"x" not in fields[1]:
                continue
            path, first = os.fsdecode(fields[5]), firsts.get(fields[5], start)
            major, minor = (int(part, 16) for part in fields[3].split(b":"))
            module = earlier.setdefault((path, first), Module(path, int(fields[4]), os.makedev(major, minor), first, start, end))
            module.high = max(module.high, end)
            self._starts.append(start)
            self._ranges.append((end, module))
        self._rules.clear()

    def _open(self, module: Module) -> None:
        """Reads its headers. Without them it has no base, and its frames have no callers."""
        module.base = module.first
        try:
            head = self._memory.read(module.first, 64)
            count = int.from_bytes(head[56:58], "little")
            if head[:5] != b"\x7fELF\x02" or count > _MOST_HEADERS:
                return
            headers = self._memory.read(module.first + int.from_bytes(head[32:40], "little"), count * _PROGRAM_HEADER.size)
            rows = list(_PROGRAM_HEADER.iter_unpack(headers))
            module.base = module.first - min((row[3] & ~0xFFF for row in rows if row[0] == _LOADED and row[2] < 0x1000), default=0)
            for kind, _, _, address, _, size, *_ in rows:
                if kind == _NOTES and not module.build_id:
                    module.build_id = _build_id(self._memory.read(module.base + address, min(size, _LARGEST_NOTES)))
                elif kind == _UNWIND_HEADER:
                    module.rules = Rules(self._memory, module.base, module.base + address)
        except (UnreadableError, struct.error):
            return


def _build_id(notes: bytes) -> bytes:
    """The content of a GNU build-id note, without its head; empty if there is none."""
    at = 0
    while at + 12 <= len(notes):
        name, size, kind = struct.unpack_from("<III", notes, at)
        begin = at + 12 + (name + 3) // 4 * 4
        if kind == 3 and notes[at + 12 : begin] == b"GNU\0":
            return notes[begin : begin + size]
        at = begin + (size + 3) // 4 * 4
    return b""


def symbol_in(path: Path, name: bytes) -> int:
    """The address of a symbol that an ELF file exports, from its section headers; 0: there is none."""
    data = path.read_bytes()
    try:
        sections, (size, count) = int.from_bytes(data[40:48], "little"), struct.unpack_from("<HH", data, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, sections + number * size) for number in range(count)]
        for row in rows:
            if row[1] != 11:  # SHT_DYNSYM
                continue
            texts = rows[row[6]]
            wanted = data.index(b"\0" + name + b"\0", texts[4], texts[4] + texts[5]) + 1 - texts[4]
            for text, _, _, _, value, _ in struct.iter_unpack("<IBBHQQ", data[row[4] : row[4] + row[5]]):
                if text == wanted:
                    return int(value)
    except (struct.error, IndexError, ValueError):
        pass
    return 0

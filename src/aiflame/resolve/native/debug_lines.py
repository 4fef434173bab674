"""Inline chains and source lines from DWARF, read with `symbolic`."""

from __future__ import annotations

from symbolic.debuginfo import Archive
from symbolic.exceptions import SymbolicError
from symbolic.symcache import SymCache

from aiflame.resolve.files.elf_file import ElfFile
from aiflame.resolve.native.kept_lines import keep, kept
from aiflame.values import dataclass

LARGEST_DEBUG = 512 << 20
"""Bytes of `.debug_info`. Measured on libpython 3.13: symbolic's cache of 16 MB takes 0.3 s and 60 MB of memory; it is kept
(kept_lines.py)."""
_LARGEST_IN_ALL = 4 * LARGEST_DEBUG
_UNPACKED, _UNPACKED_A_BYTE = 64 << 20, 16
"""Compressed debug sections shrink to about a quarter; one that unpacks to far more is an attack."""
_DEEPEST = 1000
"""The most functions inlined into one another."""

_NAMELESS = frozenset({"", "?", "<unknown>"})


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One function in an address's chain."""

    name: str
    file: str
    line: int
    """The line in this function: the address's own, or that of the inlined call."""
    cplusplus: bool


def too_much(elf: ElfFile) -> str:
    """Why its debug information is not read, in a few words; "" if it is read."""
    packed, unpacked = elf.debug_bytes
    if elf.line_bytes > LARGEST_DEBUG or unpacked > _LARGEST_IN_ALL or unpacked > _UNPACKED + _UNPACKED_A_BYTE * packed:
        return f"has {max(elf.line_bytes, unpacked) >> 20:,} MB of debug information, too much to read"
    return ""


class DebugLines:
    """The chains of one file. Addresses are the file's own, as the linker assigned them."""

    def __init__(self, elf: ElfFile, *, may_keep: bool = False) -> None:
        """`may_keep`: the line table may be written to the user's cache, and read from there."""
        self._first = elf.first_address
        self._cache: SymCache | None = kept(elf) if may_keep else None
        if self._cache is not None:
            return
        try:
            content = elf.content()
            # By its descriptor: the path may have another file by now. The cache refers to the archive.
            self._archive = Archive.from_bytes(content) if isinstance(content, bytes) else Archive.open(f"/proc/self/fd/{content}")
            self._cache = next(self._archive.iter_objects()).make_symcache()
        except (SymbolicError, StopIteration, OSError, UnicodeError):
            return
        if may_keep:
            keep(elf, self._cache)

    def lookup(self, address: int) -> list[SourceLine]:
        """The chain at an address, outermost function first; empty if there is no line information."""
        if self._cache is None or address < self._first:
            return []
        try:
            locations = self._cache.lookup(address - self._first)  # type: ignore[no-untyped-call]
        except SymbolicError:
            return []
        # symbolic extends a function without a size to the next one, so only places with a file count.
        places = [
            SourceLine(
                "" if location.symbol in _NAMELESS else location.symbol,
                location.full_path or "",
                location.line,
                location.lang not in ("c", "unknown"),
            )
            for location in reversed(locations[:_DEEPEST])
        ]
        if not places or not places[0].file:
            return []
        return places[:1] + [place for place in places[1:] if place.name]

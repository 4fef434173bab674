"""Addresses of one module → functions, inline chains, lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiflame.resolve.debug_lines import LARGEST_DEBUG, DebugLines, Place
from aiflame.resolve.elf_symbols import ElfSymbols
from aiflame.resolve.kept import Code


@dataclass(frozen=True, slots=True)
class Found:
    """What an address is. Without any name, `chain` is empty."""

    chain: tuple[Place, ...]
    """The function itself, then what was inlined into it, innermost last."""
    start: int
    """Of the function; -1 when unknown."""


def look_up(code: Code, addresses: NDArray[np.uint64]) -> list[Found]:
    """For each address, in order."""
    symbols = ElfSymbols(code.binary, code.debug)
    lines = _lines(code)
    found = []
    for address, function in zip(addresses.tolist(), symbols.lookup(addresses), strict=True):
        chain = lines.lookup(address) if lines else []
        if function and function.name:
            # The symbol names the function the same way with and without DWARF.
            outer = chain[0] if chain else Place("", "", 0, False)
            chain[:1] = [Place(function.name, outer.file, outer.line, outer.cplusplus)]
        elif chain and not chain[0].name:
            chain = []
        found.append(Found(tuple(chain), function.start if function else -1))
    return found


def lines_left_out(module: str, code: Code) -> str:
    """A line for a person when debug information is there but is not read."""
    size = max((elf.line_bytes for elf in (code.binary, code.debug) if elf), default=0)
    return f"{module} has {size >> 20} MB of debug information, too much to read: its frames have no lines" if size > LARGEST_DEBUG else ""


def _lines(code: Code) -> DebugLines | None:
    for elf in (code.binary, code.debug):
        if elf and 0 < elf.line_bytes <= LARGEST_DEBUG:
            return DebugLines(elf)
    return None

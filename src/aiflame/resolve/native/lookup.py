"""Looks up functions, inline chains and lines for the addresses of one module."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aiflame.resolve.files.code_files import Code
from aiflame.resolve.native.debug_lines import DebugLines, SourceLine, too_much
from aiflame.resolve.native.debug_lines_apart import chains_apart
from aiflame.resolve.native.elf_symbols import ElfSymbols
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """The functions and lines of an address. Without any name, `chain` is empty."""

    chain: tuple[SourceLine, ...]
    """The function itself, then the calls inlined into it, innermost last."""
    start: int
    """Start of the function; -1 if unknown."""


def look_up(module: str, code: Code, addresses: NDArray[np.uint64]) -> tuple[list[Found], str]:
    """The result for each address, in order; and a line for people if there is debug information that was not read."""
    symbols = ElfSymbols(code.binary, code.debug)
    chains, why = _chains(code, addresses.tolist())
    results = []
    for function, chain in zip(symbols.lookup(addresses), chains, strict=True):
        if function and function.name:
            # So the function has the same name with and without DWARF.
            outer = chain[0] if chain else SourceLine("", "", 0, False)
            chain[:1] = [SourceLine(function.name, outer.file, outer.line, outer.cplusplus)]
        elif chain and not chain[0].name:
            chain = []
        results.append(Found(tuple(chain), function.start if function else -1))
    return results, f"{module} {why}: its frames have no lines" if why else ""


def _chains(code: Code, addresses: list[int]) -> tuple[list[list[SourceLine]], str]:
    none: list[list[SourceLine]] = [[] for _ in addresses]
    elf = next((elf for elf in (code.binary, code.debug) if elf and elf.line_bytes), None)
    if elf is None:
        return none, ""
    if why := too_much(elf):
        return none, why
    if elf.of_profile:
        chains = chains_apart(elf, addresses)
        return (none, "has debug information that cannot be read") if chains is None else (chains, "")
    lines = DebugLines(elf, may_keep=True)
    return [lines.lookup(address) for address in addresses], ""

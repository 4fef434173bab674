"""Parses instructions of NVIDIA's devices as `nvdisasm` prints them: opcodes, and the load whose result an instruction waits for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aiflame.values import dataclass

_PARTS = re.compile(r"^(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][A-Z0-9_]*)(?P<modifiers>(?:\.[A-Za-z0-9_]+)*)\s*(?P<operands>[^;]*)")
_REGISTER = re.compile(r"(?<![A-Za-z0-9_])R(\d+)(\.64)?")
_FAR = 512
"""In instructions: a load whose result is used later than this has finished long before."""

LOCAL = ("LDL", "STL")
GLOBAL = ("LDG", "STG", "LD", "ST", "LDGSTS")
SHARED = ("LDS", "STS", "LDSM", "STSM")
ATOMIC = ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS")
TENSOR = ("HMMA", "HGMMA", "IMMA", "IGMMA", "QMMA", "QGMMA", "DMMA", "BMMA", "BGMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCMMA", "OMMA")
DOUBLE = ("DADD", "DMUL", "DFMA", "DSETP", "DMMA", "DMNMX")
LOADS = frozenset({"LDL", "LDG", "LD", "LDS", "LDSM", "LDC", "ATOM", "ATOMG", "ATOMS", "TEX", "TLD", "SULD", "MUFU", "SHFL", "S2R"})
"""Instructions with a latency that the compiler does not know: later ones wait for their result at a scoreboard."""
_OF_REASON = {
    "long_scoreboard": frozenset({"LDL", "LDG", "LD", "ATOM", "ATOMG", "TEX", "TLD", "SULD"}),
    "short_scoreboard": frozenset({"LDS", "LDSM", "ATOMS", "MUFU", "SHFL", "S2R"}),
}


@dataclass(frozen=True, slots=True)
class Instruction:
    offset: int
    opcode: str
    bits: int
    """Bits moved by each thread; 32 if the modifiers do not say."""
    writes: frozenset[int]
    """Registers of a load's result."""
    reads: frozenset[int]
    """All other registers that it names."""


def listing(rows: Iterable[tuple[int, str]]) -> list[Instruction]:
    """The instructions, from their offsets and texts."""
    return [_instruction(offset, text) for offset, text in rows]


def _instruction(offset: int, text: str) -> Instruction:
    parts = _PARTS.match(text.strip())
    if parts is None:
        return Instruction(offset, "", 32, frozenset(), frozenset())
    opcode, modifiers = parts["opcode"], parts["modifiers"].split(".")
    bits = 128 if "128" in modifiers else 64 if "64" in modifiers else 32
    operands = [operand.strip() for operand in parts["operands"].split(",")]
    writes: frozenset[int] = frozenset()
    if opcode in LOADS:
        result = next((number for number, operand in enumerate(operands) if re.match(r"R\d", operand)), None)
        if result is not None:
            first = int(operands[result][1:].split(".")[0])
            size = 4 if opcode == "LDSM" else bits // 32
            writes = frozenset(range(first, first + size))
            del operands[result]
    reads: set[int] = set()
    for register, wide in _REGISTER.findall(",".join(operands)):
        reads |= {int(register), int(register) + 1} if wide else {int(register)}
    return Instruction(offset, opcode, bits, writes, frozenset(reads))


@dataclass(frozen=True, slots=True)
class Load:
    opcode: str
    bits: int
    flying: int
    """Number of loads of its kind issued since, including itself: all are under way at once."""


def producer(instructions: Sequence[Instruction], at: int, reason: str) -> Load | None:
    """The load whose result an instruction reads: before it, or in a loop behind it."""
    wanted, loads = instructions[at].reads, _OF_REASON[reason]
    count, flying = len(instructions), 0
    for back in range(1, min(count, _FAR)):
        one = instructions[at - back]
        flying += one.opcode in loads
        if one.opcode in loads and one.writes & wanted:
            return Load(one.opcode, one.bits, flying)
    return None

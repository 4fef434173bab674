"""Instructions of Intel's GPUs: their texts by Intel's disassembler where it is installed (`libiga64`, in Debian's packages libigc1 and
libigc2), else their opcodes."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from aiflame.resolve.device import iga_child
from aiflame.resolve.device.zebin import Version
from aiflame.values import dataclass

_LONG, _SHORT = 16, 8
_COMPACTED = 1 << 29
_OPCODE = 0x7F
_OPCODES_SINCE = 12
"""Older cores have other numbers."""
_SECONDS, _BYTES_A_SECOND = 30.0, 64 << 10
"""How long a piece of code may take; the library reads some megabytes a second."""
_LABEL = re.compile(r"\bL(\d+)\b")
_PLACES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_FILES = ("libiga64.so.2*", "libiga64.so.1*", "libiga64.so")


@dataclass(frozen=True, slots=True)
class IntelCode:
    """A section of code, to be disassembled."""

    version: Version
    code: bytes


@dataclass(frozen=True, slots=True)
class IntelInstruction:
    offset: int
    """Its offset in its section."""
    text: str
    """Its text; the targets of a jump are offsets in the section."""


def libraries() -> list[Path]:
    """All copies of the disassembler on this machine, in the order in which they are tried: newer ones know more GPUs."""
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *_PLACES]
    paths = [path for pattern in _FILES for folder in folders if folder.startswith("/") for path in sorted(Path(folder).glob(pattern))]
    return list({path.resolve(): path for path in reversed(paths) if path.is_file()}.values())[::-1]


def disassemble(codes: Sequence[IntelCode], tools: Sequence[Path]) -> tuple[list[list[IntelInstruction]], set[int]]:
    """The instructions of each piece of code, and which of them no tool could read: these have opcodes alone."""
    listings: dict[int, list[IntelInstruction]] = {}
    for tool in tools:
        _run(tool, codes, [number for number in range(len(codes)) if number not in listings], listings)
    opcodes = {number: list(_opcodes(codes[number])) for number in range(len(codes)) if number not in listings}
    return [listings.get(number) or opcodes[number] for number in range(len(codes))], set(opcodes)


def _run(tool: Path, codes: Sequence[IntelCode], left: list[int], listings: dict[int, list[IntelInstruction]]) -> None:
    """One process for all code; where it ends at a piece, another one begins behind that."""
    left = [number for number in left if _platform(codes[number].version)]
    while left:
        said = _said(tool, [codes[number] for number in left])
        pairs = zip(left, said, strict=False)
        listings.update({number: listing for number, listing in pairs if _is_whole(codes[number].code, listing)})
        left = left[len(said) + 1 :]


def _said(tool: Path, codes: list[IntelCode]) -> list[list[IntelInstruction]]:
    asked = b"".join(struct.pack("<II", _platform(one.version), len(one.code)) + one.code for one in codes)
    # Inside a recorded program, our own child processes are not to be recorded.
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "AIFLAME_PROFILE")}
    command = [sys.executable, "-I", "-S", str(iga_child.__file__), str(tool)]
    limit = _SECONDS + len(asked) / _BYTES_A_SECOND
    try:
        result = subprocess.run(command, input=asked, capture_output=True, timeout=limit, env=environment, check=False)
        output = result.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
    except OSError:
        return []
    whole = output[: output.rfind(b"\n") + 1]
    return [list(_listing(json.loads(line))) for line in whole.splitlines()]


def _listing(rows: list[tuple[int, str, list[int]]]) -> Iterator[IntelInstruction]:
    for offset, text, targets in rows:
        yield IntelInstruction(offset, _LABEL.sub(lambda label: f"{int(label[1]):#x}", text) if targets else text)


def _is_whole(code: bytes, listing: list[IntelInstruction]) -> bool:
    """True if it has the same offsets as the lengths of the instructions give: a tool that knows this GPU."""
    return bool(listing) and [one.offset for one in listing] == list(offsets(code))


def offsets(code: bytes) -> Iterator[int]:
    """Where instructions begin: they have 16 bytes, or 8 where the bit of compaction is set."""
    at = 0
    while at + _SHORT <= len(code):
        behind = at + (_SHORT if int.from_bytes(code[at : at + 4], "little") & _COMPACTED else _LONG)
        if behind > len(code):
            return
        yield at
        at = behind


def _opcodes(one: IntelCode) -> Iterator[IntelInstruction]:
    for at in offsets(one.code):
        opcode = one.code[at] & _OPCODE
        name = OPCODES.get(opcode) if one.version.architecture >= _OPCODES_SINCE else None
        yield IntelInstruction(at, name or f"opcode_{opcode:#04x}")


def _platform(version: Version) -> int:
    """The disassembler's number for a GPU; 0: it knows none of that age."""
    place = version.architecture, version.release
    return next((number for first, number in _PLATFORMS if place >= first), 0)


_PLATFORMS = (
    ((36, 0), 0),
    ((35, 0), 0x03000003),
    ((30, 0), 0x03000000),
    ((20, 0), 0x02000000),
    ((12, 70), 0x01000002),
    ((12, 60), 0x01000004),
    ((12, 55), 0x01000002),
    ((12, 50), 0x01000001),
    ((12, 0), 0x01000000),
)
"""First version → platform of IGA: Xe3p, Xe3 (Panther Lake), Xe2 (Lunar Lake, Battlemage), Xe-LPG (Meteor Lake, whose core is Xe-HPG's),
Xe-HPC (Ponte Vecchio), Xe-HPG (Arc A), Xe-HP, Xe (Tiger Lake)."""

OPCODES = {
    0x00: "illegal", 0x01: "sync", 0x20: "jmpi", 0x21: "brd", 0x22: "if", 0x23: "brc", 0x24: "else", 0x25: "endif", 0x27: "while",
    0x28: "break", 0x29: "cont", 0x2A: "halt", 0x2B: "calla", 0x2C: "call", 0x2D: "ret", 0x2E: "goto", 0x2F: "join", 0x31: "send",
    0x32: "sendc", 0x33: "sendg", 0x34: "sendgc", 0x35: "sendgx", 0x36: "sendgxc", 0x38: "math", 0x39: "lfsr", 0x40: "add", 0x41: "mul",
    0x42: "avg", 0x43: "frc", 0x44: "rndu", 0x45: "rndd", 0x46: "rnde", 0x47: "rndz", 0x48: "mac", 0x49: "mach", 0x4A: "lzd", 0x4B: "fbh",
    0x4C: "fbl", 0x4D: "cbit", 0x4E: "addc", 0x4F: "subb", 0x50: "shfl", 0x52: "add3", 0x53: "macl", 0x54: "srnd", 0x55: "dnscl",
    0x58: "dp4a", 0x59: "dpas", 0x5A: "dpasw", 0x5B: "mad", 0x5C: "bdpas", 0x5D: "madm", 0x5F: "mullh", 0x60: "nop", 0x61: "mov",
    0x62: "sel", 0x63: "movi", 0x64: "not", 0x65: "and", 0x66: "or", 0x67: "xor", 0x68: "shr", 0x69: "shl", 0x6B: "bfn", 0x6C: "asr",
    0x6E: "ror", 0x6F: "rol", 0x70: "cmp", 0x71: "cmpn", 0x72: "csel", 0x77: "bfrev", 0x78: "bfe", 0x79: "bfi1", 0x7A: "bfi2",
}  # fmt: skip
"""Of all cores since Xe, which agree in them; as IGA names them."""

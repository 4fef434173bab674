"""Texts of AMD's instructions without a disassembler: Triton's cache has the assembly (`KERNEL.amdgcn`) beside the code object that it made
of it (`KERNEL.hsaco`). The n-th instruction of a function in the assembly is the n-th of its code.

Only where all agrees are the texts used: the function's bytes with the cache's code object, the number of instructions with the begins that
`amd_lengths.py` finds, each filling with its code, and each label with the jumps to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from aiflame.resolve.device.amd_lengths import begins
from aiflame.resolve.device.hsaco import Function, Hsaco
from aiflame.resolve.device.triton_lines import TritonCache
from aiflame.values import dataclass

_NOTHING: Mapping[int, str] = MappingProxyType({})
_NOP = 0xBF800000.to_bytes(4, "little")
"""`s_nop 0`, with which the assembler fills."""
_COMMENT = re.compile(r";|//|/\*")
_LABEL = re.compile(r"([\w.$]+):\s*")
_ALIGNMENT = re.compile(r"\.p2align\s+(\d{1,2})(?:\s*,\s*,\s*(\d{1,4}))?")
_JUMP = re.compile(r"(?P<name>s_\w*branch\w*|s_call\w*) (?P<label>.+)")
_WITHOUT_CODE = frozenset({".loc", ".file", ".set", ".cfi_sections", ".cfi_startproc", ".cfi_endproc"})
_MOST_ALIGNED = 12
"""4 KB"""


def texts(hsaco: Hsaco, function: Function, cache: TritonCache) -> Mapping[int, str]:
    """Address → instruction, as `llvm_objdump.py` has them; empty without assembly that agrees."""
    code = hsaco.elf.at_address(function.start, function.size)
    offsets = begins(code, hsaco.architecture) if len(code) == function.size else []
    if not offsets:
        return _NOTHING
    for path in cache.compiled(function.name, ".hsaco"):
        if _is_same(hsaco, function, code, Hsaco.of_bytes(cache.read(path))):
            assembly = cache.read(path.with_suffix(".amdgcn")) or b""
            if listing := _Walk(function, code, offsets).listing(assembly.decode(errors="replace")):
                return listing
    return _NOTHING


def _is_same(hsaco: Hsaco, function: Function, code: bytes, other: Hsaco | None) -> bool:
    if other is None or other.architecture != hsaco.architecture:
        return False
    theirs = other.find(function.name)
    return theirs is not None and other.elf.at_address(theirs.start, theirs.size) == code


class _Disagree(Exception):
    pass


@dataclass(slots=True)
class _Walk:
    """One pass over a function's assembly and its code."""

    function: Function
    code: bytes
    offsets: list[int]

    def listing(self, assembly: str) -> Mapping[int, str]:
        try:
            instructions, labels = self._assigned(assembly)
            return {self.function.start + offset: self._with_target(offset, text, labels) for offset, text in instructions}
        except _Disagree:
            return _NOTHING

    def _assigned(self, assembly: str) -> tuple[list[tuple[int, str]], dict[str, int]]:
        """Offsets and texts of the instructions; offsets of the labels."""
        instructions: list[tuple[int, str]] = []
        labels: dict[str, int] = {}
        ends = [*self.offsets, len(self.code)]
        for statement in _statements(assembly, self.function.name):
            at = ends[len(instructions)]
            if label := _LABEL.fullmatch(statement):
                labels[label[1]] = at
            elif alignment := _ALIGNMENT.fullmatch(statement):
                for offset in self._filling(at, int(alignment[1]), int(alignment[2] or 1 << _MOST_ALIGNED)):
                    if len(instructions) == len(self.offsets) or ends[len(instructions)] != offset:
                        raise _Disagree
                    instructions.append((offset, "s_nop 0"))
            elif not statement.startswith("."):
                if len(instructions) == len(self.offsets) or statement.split()[0].endswith(":"):
                    raise _Disagree
                instructions.append((at, statement))
            elif statement.split()[0] not in _WITHOUT_CODE:
                raise _Disagree
        if len(instructions) != len(self.offsets):
            raise _Disagree
        return instructions, labels

    def _filling(self, at: int, power: int, most: int) -> Iterator[int]:
        if power > _MOST_ALIGNED:
            raise _Disagree
        size = -(self.function.start + at) % (1 << power)
        if size > most:
            return
        for offset in range(at, at + size, len(_NOP)):
            if self.code[offset : offset + len(_NOP)] != _NOP:
                raise _Disagree
            yield offset

    def _with_target(self, offset: int, text: str, labels: Mapping[str, int]) -> str:
        """A jump's label as LLVM's disassembler writes it: the distance in words, and the place in the function. One without a label here
        is refused."""
        jump = _JUMP.fullmatch(text)
        if jump is None:
            return text
        distance = int.from_bytes(self.code[offset : offset + 2], "little")
        target = offset + 4 + 4 * (distance - (distance >> 15 << 16))
        if labels.get(jump["label"]) != target:
            raise _Disagree
        return f"{jump['name']} {distance} <{self.function.name}{f'+{target:#x}' if target else ''}>"


def _statements(assembly: str, function: str) -> Iterator[str]:
    """Those from the function's label to its end, with single spaces and without comments."""
    lines = iter(assembly.split("\n"))
    for line in lines:
        if _stripped(line) == f"{function}:":
            break
    for line in lines:
        statement = _stripped(line)
        if statement.startswith((".section", ".Lfunc_end")):
            return
        if statement:
            yield statement


def _stripped(line: str) -> str:
    return " ".join(_COMMENT.split(line, maxsplit=1)[0].split())

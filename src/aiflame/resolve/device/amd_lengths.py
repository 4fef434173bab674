"""Where instructions begin in code of AMD's GPUs, from the encodings alone (the chapters "Microcode Formats" of AMD's ISA documents).

It knows encodings, not single instructions. Those of graphics (images, exports, interpolation) are refused, as is all else that is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

_WORD = 4
_LITERAL = 255
"""As a source: the 32 bits behind the instruction."""
_SDWA, _DPP16 = 249, 250
_DPP8 = frozenset({233, 234})
_SCALE, _SCALED = 0xD3AC, frozenset({0xD3AD, 0xD3AE})
"""gfx950: the first half of a scaled matrix instruction, whose other half is one of two plain ones."""

Words = tuple[int, int, int]
"""The first word of an instruction, and the two that follow."""


def begins(code: bytes, architecture: str) -> list[int]:
    """The offsets of a function's instructions; empty if one is unknown, or if the last does not end with the code."""
    length = _LENGTHS.get(architecture)
    if length is None or len(code) % _WORD:
        return []
    words = memoryview(code + bytes(2 * _WORD)).cast("I")
    count = len(code) // _WORD
    offsets, at = [], 0
    while at < count:
        size = length((words[at], words[at + 1], words[at + 2]))
        if not size:
            return []
        offsets.append(at * _WORD)
        at += size
    return offsets if at == count else []


def _cdna(words: Words) -> int:
    """The number of words; 0: unknown."""
    first = words[0]
    encoding = first >> 26
    if first >> 31 == 0:
        return _vector(first, frozenset({_LITERAL, _SDWA, _DPP16}), frozenset({0x17, 0x18, 0x24, 0x25}))
    if encoding < _SCALAR_END:
        return _scalar(first, 0x14, frozenset())
    if first >> 16 == _SCALE:
        return 4 if words[2] >> 16 in _SCALED else 0
    return 2 if encoding in _CDNA_LONG else 0


def _rdna3(words: Words) -> int:
    return 2 if words[0] >> 26 in _RDNA3_MEMORY else _rdna(words)


def _rdna4(words: Words) -> int:
    encoding = words[0] >> 26
    if encoding in _RDNA4_LONG_MEMORY:
        return 3
    return 2 if encoding in _RDNA4_MEMORY else _rdna(words)


def _rdna(words: Words) -> int:
    """All but access to memory."""
    first, second, _ = words
    encoding = first >> 26
    if first >> 31 == 0:
        return _vector(first, _DPP8 | {_LITERAL, _DPP16}, frozenset({0x2C, 0x2D, 0x37, 0x38}))
    if encoding < _SCALAR_END:
        return _scalar(first, 0x13, frozenset({0x45, 0x46}))
    if encoding == 0b110101 or first >> 24 == 0xCC:  # VOP3, VOP3P
        sources = second & 511, second >> 9 & 511, second >> 18 & 511
        return 3 if _LITERAL in sources or sources[0] == _DPP16 or sources[0] in _DPP8 else 2
    if encoding == 0b110010:  # VOPD: two in one; 1 and 2 are FMAAK and FMAMK
        literal = _LITERAL in (first & 511, second & 511) or not {first >> 22 & 15, first >> 17 & 31}.isdisjoint({1, 2})
        return 3 if literal else 2
    return 0


def _vector(first: int, longer: frozenset[int], with_constant: frozenset[int]) -> int:
    """VOP1, VOP2, VOPC. `longer`: first sources that a word follows; `with_constant`: the numbers of FMAAK and FMAMK, which a word always
    follows."""
    source = first & 511
    if source in (_SDWA, _DPP16, *_DPP8) and source not in longer:
        return 0
    return 2 if source in longer or first >> 25 in with_constant else 1


def _scalar(first: int, set_register: int, with_constant: frozenset[int]) -> int:
    """SOP2, SOPK, SOP1, SOPC, SOPP. `set_register`: the number of S_SETREG_IMM32_B32; `with_constant`: as above, in SOP2."""
    kind = first >> 23
    if kind == 0b101111111:  # SOPP
        return 1
    if kind == 0b101111101:  # SOP1
        return 2 if first & 255 == _LITERAL else 1
    literal = _LITERAL in (first & 255, first >> 8 & 255)
    if kind == 0b101111110:  # SOPC
        return 2 if literal else 1
    if first >> 28 == 0b1011:  # SOPK
        return 2 if kind & 31 == set_register else 1
    return 2 if literal or kind & 127 in with_constant else 1


_SCALAR_END = 0b110000
_CDNA_LONG = frozenset({0b110000, 0b110100, 0b110110, 0b110111, 0b111000, 0b111010})
"""SMEM, VOP3 and VOP3P, DS, FLAT, MUBUF, MTBUF"""
_RDNA3_MEMORY = frozenset({0b110110, 0b110111, 0b111000, 0b111010, 0b111101})
"""DS, FLAT, MUBUF, MTBUF, SMEM"""
_RDNA4_MEMORY = frozenset({0b110110, 0b111101})
"""DS, SMEM"""
_RDNA4_LONG_MEMORY = frozenset({0b110001, 0b111011})
"""VBUFFER; FLAT, GLOBAL and SCRATCH"""
_LENGTHS: MappingProxyType[str, Callable[[Words], int]] = MappingProxyType(
    {
        **dict.fromkeys(("gfx90a", "gfx942", "gfx950"), _cdna),
        **dict.fromkeys(("gfx1100", "gfx1101", "gfx1102", "gfx1103"), _rdna3),
        **dict.fromkeys(("gfx1200", "gfx1201"), _rdna4),
    }
)

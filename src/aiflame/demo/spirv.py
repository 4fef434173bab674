"""The demo's kernels as SPIR-V, which drivers of Level Zero compile: matmul.spv, made of matmul.cl by `scripts/demo_spirv.py`."""

from __future__ import annotations

from array import array
from pathlib import Path
from zlib import crc32

SOURCE = Path(__file__).with_name("matmul.cl")
CODE = SOURCE.with_suffix(".spv")
_HEADER_WORDS = 5
_STRING = 7
"""OpString: its words are a length and an opcode, an id, and text that ends with a zero byte."""


def mark(source: bytes) -> str:
    """The source's path in matmul.spv: its name, and a checksum of the text that was compiled."""
    return f"{SOURCE.name}#{crc32(source):08x}"


def kernels() -> bytes:
    """The line tables that a driver makes of it have the absolute path of the source, so that readers of the profile find the file."""
    return with_strings(CODE.read_bytes(), {mark(SOURCE.read_bytes()): str(SOURCE.resolve())})


def strings(code: bytes) -> list[str]:
    words = array("I", code)
    return [_text(words, at) for at in _instructions(words) if words[at] & 0xFFFF == _STRING]


def with_strings(code: bytes, others: dict[str, str]) -> bytes:
    """The module, in which each string that is a key of `others` is its value."""
    words, changed = array("I", code), array("I", code[: 4 * _HEADER_WORDS])
    for at in _instructions(words):
        instruction = words[at : at + (words[at] >> 16)]
        if words[at] & 0xFFFF == _STRING and (text := others.get(_text(words, at))) is not None:
            padded = text.encode() + b"\0"
            padded += bytes(-len(padded) % 4)
            instruction = array("I", [(2 + len(padded) // 4) << 16 | _STRING, words[at + 1]]) + array("I", padded)
        changed += instruction
    return changed.tobytes()


def _instructions(words: array[int]) -> list[int]:
    """The place of each one's first word, whose upper half is the number of its words."""
    places, at = [], _HEADER_WORDS
    while at < len(words):
        places.append(at)
        at += words[at] >> 16 or len(words)
    return places


def _text(words: array[int], at: int) -> str:
    return words[at + 2 : at + (words[at] >> 16)].tobytes().partition(b"\0")[0].decode()

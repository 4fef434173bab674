"""Packs frame words, for the recorder; `frame_words` unpacks them. Needs the standard library alone."""

from __future__ import annotations

from aiflame.profile.schema.enums import FrameKind

KIND, MODULE, ID = 60, 40, 32
"""The lowest bit of a word's kind, of the module in a native word, and of the code object or method in other words."""


def native_word(module: int, offset: int) -> int:
    """A frame at a return address."""
    return FrameKind.NATIVE << KIND | (module & 0xFFFFF) << MODULE | offset & (1 << 39) - 1


def python_word(code: int, offset: int) -> int:
    return FrameKind.PYTHON << KIND | (code & 0xFFFFFFF) << ID | max(offset + 1, 0) & 0xFFFFFFFF


def address_word(address: int) -> int:
    return FrameKind.ADDRESS << KIND | address & (1 << 48) - 1


def mark_word(row: int) -> int:
    """A frame that names a row of `marks`."""
    return FrameKind.MARK << KIND | row & 0xFFFFFFFF

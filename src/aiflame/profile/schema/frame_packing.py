"""Makes the words that `frame_words` takes apart: for the recorder. Standard library alone."""

from __future__ import annotations

from aiflame.profile.schema.enums import FrameKind

KIND, MODULE, ID = 60, 40, 32
"""The lowest bit of the kind, of a module's number in a native word, and of another number in a word of another kind."""


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

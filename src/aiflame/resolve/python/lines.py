"""Reads the line tables of Python code objects: the line of each instruction.

3.10 has pairs of (bytes of code, signed line difference), PEP 626; 3.11 and later have location entries of varying length, described in
CPython's `Objects/locations.md` (later `InternalDocs/code_objects.md`).
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

NO_LINE = 0
_NO_LINE_3_10 = -128
_CODE_UNIT = 2
_BEGINS = 0x80
_LONGEST_NUMBER = 8
"""Bytes of a difference, six bits each: more are a broken table."""


def line_of(linetable: bytes, first_line: int, offset: int, python: int) -> int:
    """The line of the instruction at byte `offset` of a code object; 0 if it has none, or if the table cannot be read.

    `python` is PY_VERSION_HEX >> 16 of the interpreter. An offset before the first instruction belongs to the first line. In an imported
    trace `python` is 0, and the offset counts lines.
    """
    if offset < 0:
        return first_line
    if not python:
        return first_line + offset
    starts, lines = _ranges(linetable, first_line, python)
    at = bisect_right(starts, offset) - 1
    return lines[at] if at >= 0 else NO_LINE


@lru_cache(maxsize=65536)
def _ranges(linetable: bytes, first_line: int, python: int) -> tuple[list[int], list[int]]:
    """Byte offsets at which a new line begins, and that line; the last begins where the code ends, and is no line."""
    if not linetable:
        return [0], [NO_LINE]
    lengths, lines = (_decode_3_10 if python < 0x030B else _decode_3_11)(linetable, first_line)
    there = lengths > 0
    ends, lines = np.cumsum(lengths), lines[there]
    starts = (ends - lengths)[there]
    begins = np.ones(len(lines), dtype=bool)
    begins[1:] = lines[1:] != lines[:-1]
    return [*starts[begins].tolist(), int(ends[-1])], [*lines[begins].tolist(), NO_LINE]


def _decode_3_10(table: bytes, line: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bytes of code, and their line, of each entry."""
    entries = np.frombuffer(table[: len(table) // 2 * 2], np.uint8).reshape(-1, 2)
    if not len(entries):
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    differences = entries[:, 1].astype(np.int8).astype(np.int64)
    none = differences == _NO_LINE_3_10
    differences[none] = 0
    return entries[:, 0].astype(np.int64), np.where(none, NO_LINE, line + np.cumsum(differences))


def _decode_3_11(table: bytes, line: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bytes of code, and their line, of each entry. An entry begins with a byte that has its top bit set, and no other byte has."""
    data = np.frombuffer(table, np.uint8)
    begins = data >= _BEGINS
    begins[0] = True
    heads = np.flatnonzero(begins)
    kinds = data[heads] >> 3 & 15
    one_line = (kinds >= 10) & (kinds <= 12)
    differences = np.where(one_line, kinds.astype(np.int64) - 10, 0)
    for entry in np.flatnonzero((kinds == 13) | (kinds == 14)).tolist():  # line only, and the long form: both begin with a difference
        differences[entry] = _signed(table, int(heads[entry]) + 1)
    lengths = ((data[heads] & 7).astype(np.int64) + 1) * _CODE_UNIT
    return lengths, np.where(kinds == 15, NO_LINE, line + np.cumsum(differences))


def _signed(table: bytes, at: int) -> int:
    zigzag = shift = 0
    for byte in table[at : at + _LONGEST_NUMBER]:
        if byte >= _BEGINS:
            break
        zigzag |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            break
    return -(zigzag >> 1) if zigzag & 1 else zigzag >> 1

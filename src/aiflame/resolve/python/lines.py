"""Reads the line tables of Python code objects: the line of each instruction.

3.10 has pairs of (bytes of code, signed line difference), PEP 626; 3.11 and later have location entries of varying length, described in
CPython's `Objects/locations.md` (later `InternalDocs/code_objects.md`). The standard library alone is used: tests read the tables under
each interpreter, and most code objects are so small that numpy would be slower.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

NO_LINE = 0
_NO_LINE_3_10 = -128
_CODE_UNIT = 2
_LONGEST_NUMBER = 48
"""Bits of a line difference: more are a broken table."""


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
    """The byte offsets at which lines begin, and these lines; the last offset is the end of the code, without a line."""
    decode = _decode_3_10 if python < 0x030B else _decode_3_11
    starts: list[int] = []
    lines: list[int] = []
    end = 0
    for length, line in decode(linetable, first_line):
        if length and (not lines or lines[-1] != line):
            starts.append(end)
            lines.append(line)
        end += length
    starts.append(end)
    lines.append(NO_LINE)
    return starts, lines


def _decode_3_10(table: bytes, line: int) -> list[tuple[int, int]]:
    entries = []
    for at in range(0, len(table) - 1, 2):
        difference = table[at + 1] - 256 if table[at + 1] > 127 else table[at + 1]
        if difference != _NO_LINE_3_10:
            line += difference
        entries.append((table[at], NO_LINE if difference == _NO_LINE_3_10 else line))
    return entries


def _decode_3_11(table: bytes, line: int) -> list[tuple[int, int]]:
    entries = []
    at, size = 0, len(table)
    while at < size:
        head = table[at]
        at += 1
        kind = head >> 3 & 15
        length = ((head & 7) + 1) * _CODE_UNIT
        if kind in (13, 14):  # line only, and the long form: both begin with a signed difference
            zigzag = shift = 0
            while at < size and shift < _LONGEST_NUMBER:
                byte = table[at]
                at += 1
                zigzag |= (byte & 63) << shift
                shift += 6
                if not byte & 64:
                    break
            line += -(zigzag >> 1) if zigzag & 1 else zigzag >> 1
        elif 10 <= kind <= 12:  # one-line forms
            line += kind - 10
        entries.append((length, NO_LINE if kind == 15 else line))
        # Columns are skipped: an entry begins with a byte that has its top bit set, and no other byte has.
        while at < size and table[at] < 128:
            at += 1
    return entries

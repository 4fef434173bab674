"""Lines of instructions: against `co_lines()` of the running interpreter, and against tables written by hand for 3.10 and 3.11."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from aiflame.resolve.python.lines import line_of

RUNNING = sys.hexversion >> 16


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@pytest.mark.skipif(RUNNING > 0x030E, reason="a newer line table than this project knows")
def test_every_instruction_of_the_standard_library_has_the_line_that_the_interpreter_says() -> None:
    checked = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for code in codes_of(compile(path.read_bytes(), str(path), "exec", dont_inherit=True)):
            for start, end, line in code.co_lines():
                for offset in {start, end - 2} if start < end else ():
                    assert line_of(code.co_linetable, code.co_firstlineno, offset, RUNNING) == (line or 0), (code, offset)
                    checked += 1
    assert checked > 100_000


def test_before_the_first_instruction_the_line_is_the_first() -> None:
    assert line_of(b"\x80\x00", 7, -1, 0x030B) == 7


def test_past_the_last_instruction_there_is_no_line() -> None:
    assert line_of(b"\x80\x00", 7, 2, 0x030B) == 0


def test_3_10_pairs_of_length_and_difference() -> None:
    # 4 bytes on line 10, 2 on line 12, 2 on no line, 6 on line 9.
    table = bytes((4, 0, 2, 2, 2, 128, 6, 253))
    assert [line_of(table, 10, offset, 0x030A) for offset in range(0, 16, 2)] == [10, 10, 12, 0, 9, 9, 9, 0]


def test_3_11_every_form_of_entry() -> None:
    table = bytes(
        (
            *(0x80 | 0 << 3 | 1, 0x00),  # short: 2 units on the same line
            *(0x80 | 11 << 3 | 0, 4, 9),  # one line further: 1 unit
            *(0x80 | 13 << 3 | 0, 0x05),  # no columns: 1 unit, 2 lines back
            *(0x80 | 15 << 3 | 0,),  # 1 unit of no line
            *(0x80 | 14 << 3 | 0, 0x40 | 0x28, 0x03, 0x00, 0x01, 0x01),  # long: 1 unit, 116 lines further
        )
    )
    assert [line_of(table, 10, offset, 0x030B) for offset in range(0, 14, 2)] == [10, 10, 11, 9, 0, 125, 0]


@pytest.mark.parametrize("table", [b"", b"\x00", b"\xff" * 7, b"\x88", b"\xf0\x40\x40", bytes(range(256))])
@pytest.mark.parametrize("version", [0x030A, 0x030B, 0x030E])
def test_a_damaged_table_gives_some_line_and_no_error(table: bytes, version: int) -> None:
    assert isinstance(line_of(table, 1, 4, version), int)

"""Programs of filters of system calls, and their answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aiflame.recorder.attach.filters import CALLS, Instruction, action

NATIVE = Path(__file__).parents[3] / "native"
NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
HOOKS = ("cuda", "opencl", "python", "rocprofiler", "shared", "stand_in", "torch")
ROOMS = ("base", "spool", "unwind", "records", *(f"hooks/{room}" for room in HOOKS))
"""Rooms that name their own calls alone. `sampler` and `hooks/libc` name those of programs, too, which they look at."""
NOT_WHILE_ATTACHED = {"exit_group", "fchmod", "fchownat", "getppid"}
"""A broken assertion; a user who changes, by a wrapper of libc that is not in effect; no filter forbids to ask for the parent."""
ALLOW, END, ERROR, TRAP = 0x7FFF0000, 0x80000000, 0x50001, 0x30000


def load(at: int) -> Instruction:
    return (0x20, 0, 0, at)


def answer(value: int) -> Instruction:
    return (0x06, 0, 0, value)


def of_call(number: int, value: int) -> list[Instruction]:
    return [load(0), (0x15, 0, 1, number), answer(value), answer(ALLOW)]


def test_the_answer_to_a_call_and_to_the_others() -> None:
    assert [action(of_call(222, kind), 222) for kind in (ALLOW, END, ERROR, TRAP)] == [0x7FFF, 0x8000, 5, 3]
    assert action(of_call(222, END), 223) == 0x7FFF


@pytest.mark.parametrize(
    ("jump", "operand", "jumps"),
    [(0x35, 100, True), (0x35, 101, False), (0x25, 99, True), (0x25, 100, False), (0x45, 4, True), (0x45, 3, False)],
)
def test_jumps(jump: int, operand: int, jumps: bool) -> None:
    """Call 100 is at least 100, above 99, and has the bit 4."""
    program = [load(0), (jump, 0, 1, operand), answer(END), answer(ALLOW)]
    assert (action(program, 100) == 0x8000) is jumps


def test_a_jump_over_the_rest() -> None:
    assert action([(0x05, 0, 0, 1), answer(END), answer(ALLOW)], 1) == 0x7FFF


def test_arguments_are_seen_in_both_halves() -> None:
    program = [load(16 + 8), (0x54, 0, 0, 0x7E020000), (0x15, 0, 1, 0), answer(ALLOW), answer(ERROR)]
    assert action(program, 56, (0, 0x3D0F00)) == 0x7FFF
    assert action(program, 56, (0, 0x20000000)) == 5
    high = [load(16 + 4), (0x15, 0, 1, 0), answer(ALLOW), answer(END)]
    assert (action(high, 1, (1,)), action(high, 1, (1 << 32,))) == (0x7FFF, 0x8000)


def test_the_architecture() -> None:
    assert action([load(4), (0x15, 1, 0, 0xC000003E), answer(END), answer(ALLOW)], 1) == 0x7FFF


def test_memory_registers_and_the_answer_in_one() -> None:
    """The answer is computed: 0x7FFF0000 = (0x7FFF << 16), stored, moved and loaded again."""
    program = [(0x00, 0, 0, 0x7FFF), (0x64, 0, 0, 16), (0x02, 0, 0, 3), (0x00, 0, 0, 0), (0x61, 0, 0, 3), (0x87, 0, 0, 0), (0x16, 0, 0, 0)]
    assert action(program, 1) == 0x7FFF


@pytest.mark.parametrize(
    "program", [[], [load(0)], [load(4096)], [(0x28, 0, 0, 0)], [(0x34, 0, 0, 0), answer(ALLOW)], [(0x05, 0, 0, 9)], [(0xF5, 0, 0, 0)]]
)
def test_a_program_that_cannot_be_followed_counts_as_the_end(program: list[Instruction]) -> None:
    assert action(program, 1) == 0


@pytest.mark.skipif(not NUMBERS.is_file(), reason="no header with the numbers of system calls here")
def test_every_call_of_the_collector_is_asked_about() -> None:
    numbers = {match[1]: int(match[2]) for match in re.finditer(r"#define __NR_(\w+) (\d+)", NUMBERS.read_text())}
    files = [path for room in ROOMS for path in (NATIVE / room).rglob("*.?pp")]
    used = {name for path in files for name in re.findall(r"\bSYS_(\w+)", path.read_text(encoding="utf-8"))} - NOT_WHILE_ATTACHED
    assert len(used) > 20
    assert sorted(name for name in used if numbers[name] not in CALLS) == []

"""The load whose result an instruction waits for."""

from __future__ import annotations

import pytest

from aiflame.analyze.findings.gpu.sass import listing, producer

CODE = [
    "LDC R1, c[0x0][0x28] ;",
    "@!P0 LDG.E.64.CONSTANT R4, desc[UR4][R2.64] ;",
    "LDS.128 R8, [R20+0x10] ;",
    "LDL.LU R6, [R1+0x8] ;",
    "ATOMG.E.ADD.STRONG.GPU PT, R7, desc[UR6][R12.64], R5 ;",
    "FADD R15, R4, R15 ;",
    "FADD R15, R5, R15 ;",
    "FADD R15, R11, R15 ;",
    "@P1 STG.E desc[UR4][R2.64], R6 ;",
    "FADD R15, R7, R15 ;",
    "FADD R15, R30, R15 ;",
]


@pytest.mark.parametrize(
    ("at", "reason", "opcode"),
    [
        (5, "long_scoreboard", "LDG"),
        (6, "long_scoreboard", "LDG"),
        (5, "short_scoreboard", None),
        (7, "short_scoreboard", "LDS"),
        (8, "long_scoreboard", "LDL"),
        (9, "long_scoreboard", "ATOMG"),
        (10, "long_scoreboard", None),
    ],
)
def test_the_load_before_is_to_blame(at: int, reason: str, opcode: str | None) -> None:
    load = producer(listing((16 * number, text) for number, text in enumerate(CODE)), at, reason)
    assert (load.opcode if load else None) == opcode


def test_in_a_loop_the_load_may_stand_behind() -> None:
    code = listing(enumerate(["FADD R5, R4, R5", "LDG.E R4, desc[UR4][R2.64]", "BRA 0x0"]))
    load = producer(code, 0, "long_scoreboard")
    assert load is not None and load.opcode == "LDG"


def test_loads_between_are_on_their_way_at_once() -> None:
    code = listing(enumerate(["LDG.E.128 R4, [R2.64]", "LDS R9, [R3]", "LDG.E R8, [R2.64+0x10]", "FADD R5, R4, R5", "FADD R5, R8, R5"]))
    assert [(load.flying, load.bits) for at in (3, 4) if (load := producer(code, at, "long_scoreboard"))] == [(2, 128), (1, 32)]


@pytest.mark.parametrize("text", ["", ".byte 0x0", "???", "NOP;"])
def test_a_line_that_is_no_instruction_writes_nothing(text: str) -> None:
    assert not listing([(0, text)])[0].writes

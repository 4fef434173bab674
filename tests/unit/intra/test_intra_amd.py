"""Marks in kernels for AMD's GPUs, compiled by Triton for real: their places in the assembly, clocks, the wave's place, their cost.
The decoder, on captures with AMD's numbers. No such GPU has run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from intra_captures import Cta, Kernel, scope, spans

from aiflame.intra.clocks import Edges, pace
from aiflame.intra.decode import Layout, Records, paired, records

TESTS = Path(__file__).parents[2]
BUILDERS = TESTS / "unit/builders/intra"
TARGETS = [(arch, kernel) for arch in ("gfx942", "gfx950") for kernel in ("softmax", "rotary")]
TOKENS = {
    "s_memtime": "m",
    "s_memrealtime": "t",
    "buffer_load": "l",
    "buffer_store": "s",
    "; the value is there": "v",
    "s_waitcnt vmcnt": "w",
    "s_endpgm": "e",
}
"""Of a mark, a time for the block's header, a load, a store, a value that a scope needs, a wait for memory, and the kernel's end."""


@dataclass(frozen=True, slots=True)
class Assembly:
    text: str

    def tokens(self) -> str:
        """In order. Private memory, where the compiler keeps the number of records, is none of the kernel's loads and stores."""
        lines = [line for line in self.text.splitlines() if "scratch_" not in line]
        return "".join(token for line in lines for text, token in TOKENS.items() if text in line)

    def number(self, name: str) -> int:
        (value,) = re.findall(rf"^\s+\.{name}:\s+(\d+)$", self.text, re.MULTILINE)
        return int(value)


@cache
def compiled() -> dict[tuple[str, str], tuple[Assembly, Assembly]]:
    """Without and with marks."""
    pytest.importorskip("triton")
    paths = (TESTS.parent / "src", BUILDERS, TESTS / "gpu/programs")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, str(BUILDERS / "intra_amd_assembly.py")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    rows = [json.loads(line) for line in process.stdout.splitlines()]
    return {(row["arch"], row["kernel"]): (Assembly(row["plain"]), Assembly(row["marked"])) for row in rows}


@pytest.mark.parametrize("target", TARGETS)
def test_marks_stand_where_their_scopes_begin_and_end(target: tuple[str, str]) -> None:
    """The loads lie between the second mark and the third, which waits until their values are there; the stores before the last mark. The
    kernel without marks reads no clock."""
    plain, marked = compiled()[target]
    assert re.fullmatch(r"tmm" r"l+w+v+m" r"[mw]*" r"s+m" r"w*tw*t" r"e", marked.tokens()), marked.tokens()
    assert not set("mtv") & set(plain.tokens())
    assert [marked.tokens().count(one) for one in "ls"] == [plain.tokens().count(one) for one in "ls"]


@pytest.mark.parametrize("target", TARGETS)
def test_the_header_has_the_waves_place_and_the_constant_clock_in_nanoseconds(target: tuple[str, str]) -> None:
    """s_memrealtime counts at 100 MHz on all of these GPUs, and all their parts have the same one: times 10 it is in ns."""
    _, marked = compiled()[target]
    registers = re.findall(r"s_getreg_b32 s\d+, hwreg\((HW_REG_\w+), (\d+), (\d+)\)", marked.text)
    assert registers == [("HW_REG_XCC_ID", "0", "4"), ("HW_REG_HW_ID", "13", "3"), ("HW_REG_HW_ID", "8", "4")]
    times = re.findall(
        r"s_memrealtime s\[(\d+):\d+\].*?s_mul_i32 s\d+, s(\d+), 10\b.*?s_mul_hi_u32 s\d+, s(\d+), 10\b", marked.text, re.DOTALL
    )
    assert len(times) == 3 and all(int(high) == int(low) + 1 and again == low for low, high, again in times)
    assert "0xdeadbeef" in marked.text
    assert set(re.findall(r"global_store_dwordx2 .* offset:(\d+)", marked.text)) >= {"16", "24", "32"}


@pytest.mark.parametrize("target", TARGETS)
def test_marks_spill_nothing_and_leave_room_for_as_many_waves(target: tuple[str, str]) -> None:
    """A SIMD has 512 registers for each lane: eight waves, the most that there may be, where a wave takes 64."""
    plain, marked = compiled()[target]
    assert (marked.number("vgpr_spill_count"), marked.number("sgpr_spill_count")) == (0, 0)
    assert marked.number("private_segment_fixed_size") - plain.number("private_segment_fixed_size") <= 16
    assert marked.number("vgpr_count") <= 64 and marked.number("sgpr_count") <= 102


CYCLES_A_NS = 2.1
"""MI300X at its highest clock."""


def place(xcc: int, engine: int, unit: int) -> int:
    """As in the assembly for gfx942."""
    return xcc * 38 + engine * 10 + unit


def block(number: int, where: int, begin_ns: int) -> Cta:
    """Of 20 µs; its records begin 100 ns after it does. Times of the block count by 10 ns."""
    clock = round((begin_ns + 100) * CYCLES_A_NS) + where * 1_000_000_007
    return Cta(number, where, begin_ns, begin_ns + 20_000, {0: spans((0, clock, clock + 4200)), 4: spans((0, clock + 50, clock + 8450))})


@pytest.fixture(scope="module")
def decoded() -> Records:
    kernel = Kernel("k", [scope(0, "load x", "load")], warps=8, recorded=(0, 4), ring=8)
    places = [place(xcc, engine, unit) for xcc in range(8) for engine, unit in ((0, 0), (3, 7))]
    blocks = [
        block(turn * len(places) + at, where, 10 * (100_000 + at + turn * 2_500)) for turn in range(4) for at, where in enumerate(places)
    ]
    data = np.frombuffer(b"".join(kernel.memory(one) for one in blocks), np.uint8)
    return records(data, Layout(8, (0, 4), kernel.scratch_bytes))


def test_blocks_of_all_dies_are_decoded_with_clocks_of_their_own(decoded: Records) -> None:
    both = paired(decoded)
    assert (len(decoded.ctas), decoded.ctas.bad, both.unpaired) == (64, 0, 0)
    assert set(decoded.ctas.sm.tolist()) == {place(xcc, *unit) for xcc in range(8) for unit in ((0, 0), (3, 7))}
    took = (decoded.clock[both.end] - decoded.clock[both.begin]).tolist()
    assert sorted(took) == [4200] * 64 + [8400] * 64


def test_the_cycles_length_is_found_though_block_times_count_by_ten_nanoseconds(decoded: Records) -> None:
    edges = Edges.of(decoded)
    measured = pace(edges, edges.whole(decoded.dropped))
    assert measured.ns == pytest.approx(1 / CYCLES_A_NS, rel=0.005)

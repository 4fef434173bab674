"""Launches with more CTAs than the ring's memory holds: the records that remain, laid out byte by byte."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from intra_captures import Cta, Kernel, framed, read_written, scope, spans
from intra_kernels import profile_of
from rich.console import Console

from aiflame.analyze.intra.kernels import intra
from aiflame.intra.cta_ring import straight
from aiflame.intra.decode import MAGIC, Layout, records
from aiflame.intra.tables import IntraTables, LaunchTimes, tables
from aiflame.render.terminal.intra_table import print_intra

LOAD = 0
SCOPES = [scope(LOAD, "load a", "load")]
BEGIN_NS = 10**9


def kernel(blocks: int, ring: int = 4) -> Kernel:
    """A CTA's memory is so many times 128 bytes."""
    bare = Kernel("k", SCOPES, warps=1, ring=ring, spare=0)
    return Kernel("k", SCOPES, warps=1, ring=ring, spare=128 * blocks - bare.scratch_bytes)


def cta(number: int, *, begin: int | None = None, end: int | None = None) -> Cta:
    """One after the other on one multiprocessor, each for 500 ns; each with a time of its own in its records."""
    began = BEGIN_NS + 1000 * number if begin is None else begin
    clock = 2 * (began - BEGIN_NS)
    return Cta(number, begin=began, end=began + 500 if end is None else end, warps={0: spans((LOAD, clock + 10, clock + 20 + number % 7))})


class Ring:
    """Memory that CTAs write one after the other; it notes the last writer of each byte."""

    def __init__(self, kernel_of_ring: Kernel, size: int) -> None:
        self.kernel, self.memory, self.owner = kernel_of_ring, bytearray(size), np.full(size, -1)

    def write(self, one: Cta, most_bytes: int = 1 << 30) -> None:
        data = self.kernel.memory(one)[:most_bytes]
        at = (one.number * self.kernel.scratch_bytes + np.arange(len(data))) % len(self.memory)
        np.frombuffer(self.memory, np.uint8)[at] = np.frombuffer(data, np.uint8)
        self.owner[at] = one.number

    def whole(self) -> list[int]:
        """CTAs that own each byte that they wrote."""
        numbers, counts = np.unique(self.owner, return_counts=True)
        return [int(number) for number in numbers[counts == self.kernel.scratch_bytes] if number >= 0]

    def left(self, ctas: int) -> list[int]:
        memory = straight(np.frombuffer(bytes(self.memory), np.uint8), self.kernel.scratch_bytes, ctas)
        left = records(memory, Layout(1, (0,), self.kernel.scratch_bytes))
        assert left.ctas.bad == 0
        clock = [one.warps[0][0][2] for one in map(cta, left.ctas.number.tolist())]
        assert (left.clock[::2] + left.origin.get(0, 0)).tolist() == clock, "each has its own records"
        return left.ctas.number.tolist()


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 300))
def test_records_that_nobody_has_written_over_remain(blocks: int, units: int, ctas: int) -> None:
    """For CTAs of any size in a ring of any size, also for those across its end and those half overwritten."""
    ring = Ring(kernel(blocks), 128 * units)
    for number in range(ctas if units >= blocks else 0):
        ring.write(cta(number))
    assert ring.left(ctas) == ring.whole()


def test_one_lies_across_the_end() -> None:
    ring = Ring(kernel(3), 128 * 8)
    for number in range(5):
        ring.write(cta(number))
    across = 2 * 3 % 8
    assert across + 3 > 8 and ring.left(5) == [3, 4], "2 was across the end, and 3 and 4 are over its last part"
    assert ring.owner[-1] == 2


def test_old_headers_behind_few_records_count_for_nothing() -> None:
    """A ring that was not filled is not copied: the head of an earlier CTA stays within it."""
    small_kernel = kernel(3, ring=32)
    ring = Ring(small_kernel, 128 * 7)
    for number in range(40):
        ring.write(cta(number), most_bytes=128)
    left = ring.left(40)
    assert left == sorted(left) and left[-1] == 39
    places = sorted(3 * number % 7 for number in left)
    assert all(two - one >= 3 for one, two in zip(places, [*places[1:], places[0] + 7], strict=True)), "none lies over another"


def test_as_many_heads_as_there_is_room_for_are_looked_through_in_no_time() -> None:
    """512 Ki CTAs that went round in 64 MiB, 128 KiB for each, of which they wrote the first 40 bytes: to look at each pair took 20 s."""
    places, units = 1 << 19, 1025
    number = np.arange(places)
    words = np.zeros((places, 32), "<u4")
    words[number * units % places, 0] = MAGIC
    words[number * units % places, 1] = number
    words[number * units % places, 4] = 1000 + number  # began
    words[number * units % places, 8] = 1001 + number  # was done
    before = time.process_time()
    left = straight(words.view(np.uint8).reshape(-1), 128 * units, places)
    assert time.process_time() - before < 4
    assert left.view("<u4").reshape(-1, 32 * units)[:, 1].tolist() == list(range(places - places // units, places))


def test_a_cta_that_overlaps_the_next_in_time_spoils_its_records() -> None:
    """1 lies over the end of 3."""
    ring = Ring(kernel(3), 128 * 8)
    ring.write(cta(3))
    ring.write(cta(1, begin=cta(1).begin, end=cta(3).begin + 1))
    assert ring.left(8) == []
    ring.write(cta(1, begin=cta(1).begin, end=cta(3).begin - 200))
    assert ring.left(8) == [3], "CTA 1 was done before CTA 3, so only bytes that 3 did not write remain"


def test_a_number_that_does_not_fit_its_place_is_none() -> None:
    small_kernel = kernel(2)
    ring = Ring(small_kernel, 128 * 9)
    for number in range(20):
        ring.write(cta(number))
    before = ring.left(20)
    place = before[0] * small_kernel.scratch_bytes % len(ring.memory)
    for wrong in (before[0] + 1, 1 << 31):
        ring.memory[place + 4 : place + 8] = wrong.to_bytes(4, "little")
        assert ring.left(20) == before[1:]
    assert ring.left(before[2] + 1) == [before[1], before[2]], "there are no more than were launched"


def test_a_head_that_is_torn_is_a_cta_that_left_nothing() -> None:
    small_kernel = kernel(2)
    ring = Ring(small_kernel, 128 * 8)
    for number in range(8):
        ring.write(cta(number))
    at = 5 * small_kernel.scratch_bytes % len(ring.memory)
    ring.memory[at + 16 : at + 40] = bytes(24)  # it began, and never came to its end
    memory = straight(np.frombuffer(bytes(ring.memory), np.uint8), small_kernel.scratch_bytes, 8)
    recorded = records(memory, Layout(1, (0,), small_kernel.scratch_bytes)).ctas
    assert (recorded.number.tolist(), recorded.bad) == ([4, 6, 7], 1)


@given(st.binary(max_size=2048), st.integers(16, 100), st.integers(0, 1 << 20))
def test_any_memory_is_some_ctas_or_none(noise: bytes, words: int, ctas: int) -> None:
    data = np.frombuffer(noise[: len(noise) // 4 * 4], np.uint8)
    assert len(straight(data, 4 * words, ctas)) % (4 * words) == 0


class TestTables:
    CTAS, SIZE = 1000, 128 * 2 * 50 + 128
    kernel_of_ring = kernel(2)

    def frames(self, **header: object) -> tuple[bytes, bytes]:
        ring = Ring(self.kernel_of_ring, self.SIZE)
        for number in range(self.CTAS):
            ring.write(cta(number))
        head = {
            "kind": "launch", "key": "k", "device": 0, "stream": 7, "grid": [self.CTAS, 1, 1], "begin_ns": 500, "ctas": self.CTAS,
            "ring_bytes": self.SIZE, "launch": 1, **header,
        }  # fmt: skip
        return self.kernel_of_ring.frame(), framed(head, bytes(ring.memory))

    def made_of(self, tmp_path: Path, times: LaunchTimes | None = None, frames: Sequence[bytes] = ()) -> IntraTables:
        return tables(0, read_written(tmp_path / "7.captures", *(frames or self.frames())), lambda kernel, launch: times)

    def test_count_the_launchs_ctas_that_were_read(self, tmp_path: Path) -> None:
        intra_tables = self.made_of(tmp_path)
        assert intra_tables.tables["intra_launches"].select("grid", "ctas", "bad_ctas").row(0) == (self.CTAS, 50, 0)
        assert intra_tables.tables["intra_ctas"]["cta"].to_list() == list(range(self.CTAS - 50, self.CTAS))
        assert intra_tables.notes == ["950 CTAs of large launches were overwritten by later ones: the last are kept"]

    def test_end_when_the_kernel_did(self, tmp_path: Path) -> None:
        """Nothing else relates the device's timer to the profile's clock: the last CTA's end is the kernel's."""
        intra_tables = self.made_of(tmp_path, LaunchTimes(40_000, 2_000_000))
        assert intra_tables.tables["intra_ctas"]["end_ns"].max() == 2_000_000

    def test_keep_to_the_clock_of_other_launches(self, tmp_path: Path) -> None:
        first = Cta(0, begin=BEGIN_NS + 10**7, end=BEGIN_NS + 10**7 + 500, warps=cta(0).warps)
        kernel, ring = self.frames()
        shift = 77_000 - BEGIN_NS
        rans = iter([LaunchTimes(77_000 - 300, 10**9), LaunchTimes(first.begin + shift, first.end + shift)])
        written = tables(
            0, read_written(tmp_path / "7.captures", kernel, ring, self.kernel_of_ring.launch(first)), lambda kernel, launch: next(rans)
        )  # fmt: skip
        ends = written.tables["intra_ctas"].filter(launch=1)["end_ns"]
        assert ends.max() == cta(self.CTAS - 1).end + 100 + shift

    @pytest.mark.parametrize("wrong", [{"ring_bytes": 128}, {"ctas": 20}, {"ring_bytes": 3}, {"ring_bytes": -1}])
    def test_are_empty_of_a_capture_that_contradicts_itself(self, tmp_path: Path, wrong: dict[str, int]) -> None:
        captures = read_written(tmp_path / "7.captures", *self.frames(**wrong))
        assert (captures.launches, captures.damaged) == ([], 1)

    def test_of_a_part_of_the_ctas_say_nothing_of_their_whole(self, tmp_path: Path) -> None:
        (analysed,) = intra(profile_of(tmp_path / "p.aiflame", *self.frames()))
        assert (analysed.ctas_read, analysed.ctas, analysed.balance) == (50, self.CTAS, None)
        console = Console(file=io.StringIO(), width=150)
        print_intra([analysed], 10, console)
        assert "in 50 of 1,000 CTAs" in console.file.getvalue()  # type: ignore[attr-defined]

"""Decodes kernels' records from memory made by hand: rings, clocks, pairs, nests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from intra_captures import Cta, Kernel, Record, framed, read_written, scope, spans

from aiflame.errors import AiflameError
from aiflame.intra.captures import HEAD, MAGIC, Captures, read
from aiflame.intra.decode import Layout, nested, opened, paired, records
from aiflame.intra.tables import LaunchTimes, tables
from aiflame.profile.folder.door import Folder

LOAD, DOT, LOOP = 0, 1, 2
SCOPES = [scope(LOAD, "load a", "load"), scope(DOT, "dot", "mma"), scope(LOOP, "loop", "loop")]
WHOLE = 1 << 43


def found_in(tmp_path: Path, *frames: bytes) -> Captures:
    return read_written(tmp_path / "7.captures", *frames)


def decoded(kernel: Kernel, *ctas: Cta) -> tuple[list[tuple[int, int, int, int, int]], int]:
    """(CTA, warp, scope, begin, end) of each span, in cycles; and how many records have no other end."""
    data = np.frombuffer(b"".join(kernel.memory(cta) for cta in ctas), np.uint8)
    unpacked = records(data, Layout(kernel.warps, tuple(kernel.ids), kernel.scratch_bytes))
    both = paired(unpacked)
    unit, width = unpacked.unit[both.begin], len(kernel.ids)
    columns = (unpacked.ctas.number[unit // width], np.array(kernel.ids)[unit % width], unpacked.scope[both.begin])
    clocks = (unpacked.clock[both.begin], unpacked.clock[both.end])
    return list(zip(*(column.tolist() for column in (*columns, *clocks)), strict=True)), both.unpaired


def made(tmp_path: Path, *frames: bytes, times: LaunchTimes | None = None, most_spans: int = 1000) -> dict[str, pl.DataFrame]:
    return tables(0, found_in(tmp_path, *frames), lambda kernel, launch: times, most_spans).tables


def test_spans_come_by_cta_warp_and_begin_counted_from_the_multiprocessors_first_record() -> None:
    kernel = Kernel("k", SCOPES, warps=2)
    one = Cta(4, sm=1, warps={0: spans((LOAD, 1000, 1010), (DOT, 1020, 1050)), 1: spans((LOAD, 1003, 1013))})
    assert decoded(kernel, one)[0] == [(4, 0, LOAD, 0, 10), (4, 0, DOT, 20, 50), (4, 1, LOAD, 3, 13)]


def test_multiprocessors_have_clocks_of_their_own() -> None:
    kernel = Kernel("k", SCOPES, warps=1)
    here, there = (Cta(n, sm=n, warps={0: spans((LOAD, at, at + 7))}) for n, at in ((0, 5), (1, 1 << 40)))
    assert decoded(kernel, here, there)[0] == [(0, 0, LOAD, 0, 7), (1, 0, LOAD, 0, 7)]


def test_a_ring_that_wrapped_is_turned_before_pairing_and_its_losses_are_counted() -> None:
    kernel = Kernel("k", SCOPES, warps=1, ring=4)
    cta = Cta(0, warps={0: spans((LOAD, 10, 20), (DOT, 30, 45), (LOAD, 50, 65))})
    data = np.frombuffer(kernel.memory(cta), np.uint8)
    assert records(data, Layout(1, (0,), kernel.scratch_bytes)).dropped.tolist() == [2]
    assert decoded(kernel, cta) == ([(0, 0, DOT, 0, 15), (0, 0, LOAD, 20, 35)], 0)


def test_a_ring_may_hold_any_number_of_records() -> None:
    kernel = Kernel("k", SCOPES, warps=1, ring=6)
    whole = [(LOAD, at, at + 3) for at in range(0, 100, 10)]
    assert [begin for *_, begin, _ in decoded(kernel, Cta(0, warps={0: spans(*whole)}))[0]] == [0, 10, 20]


def test_an_end_whose_begin_was_overwritten_pairs_with_nothing() -> None:
    kernel = Kernel("k", SCOPES, warps=1, ring=3)
    cta = Cta(0, warps={0: spans((LOOP, 0, 100), (LOAD, 10, 20))})
    assert decoded(kernel, cta) == ([(0, 0, LOAD, 0, 10)], 1)


def test_scopes_that_were_open_when_the_oldest_record_was_written_count_from_there() -> None:
    kernel = Kernel("k", [*SCOPES, scope(3, "iteration")], warps=2, ring=5)
    warp_spans = spans((LOOP, 0, 100), (3, 10, 50), (LOAD, 20, 30), (3, 55, 95), (LOAD, 60, 70), (DOT, 80, 90))
    data = np.frombuffer(kernel.memory(Cta(0, warps={0: warp_spans, 1: spans((LOAD, 0, 9))})), np.uint8)
    unpacked = opened(records(data, Layout(2, (0, 1), kernel.scratch_bytes)))
    both = paired(unpacked)
    rows = [
        (int(unpacked.scope[begin]), int(unpacked.clock[begin]), int(unpacked.clock[end]))
        for begin, end in zip(both.begin, both.end, strict=True)
    ]
    since = rows[0][1]
    assert rows == [
        (LOOP, since, since + 30),
        (3, since, since + 25),
        (LOAD, since, since),
        (DOT, since + 10, since + 20),
        (LOAD, since - 70, since - 61),
    ]
    assert both.unpaired == 0
    assert nested(unpacked, both).parent.tolist() == [-1, 0, 1, 1, -1]


@pytest.mark.parametrize(
    ("written", "pairs", "left"),
    [
        ([(LOAD, 0, 1), (LOAD, 0, 2), (LOAD, 1, 3)], [(1, 2)], 1),
        ([(LOAD, 0, 1), (LOAD, 1, 2), (LOAD, 1, 3)], [(0, 1)], 1),
        ([(LOAD, 0, 1), (LOAD, 0, 2), (LOAD, 1, 3), (LOAD, 1, 4)], [(1, 2)], 2),
        ([(LOAD, 1, 1)], [], 1),
        ([(LOAD, 0, 1), (DOT, 0, 2), (LOAD, 1, 3), (DOT, 1, 4)], [(0, 2), (1, 3)], 0),
    ],
)
def test_an_end_pairs_with_the_begin_before_it_if_nothing_of_its_scope_lies_between(
    written: list[Record], pairs: list[tuple[int, int]], left: int
) -> None:
    scopes, unpaired = decoded(Kernel("k", SCOPES, warps=1), Cta(0, warps={0: written}))
    assert ([(begin, end) for *_, begin, end in scopes], unpaired) == (pairs, left)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40), st.integers(1, 20))
def test_pairing_agrees_with_going_through_the_records_one_by_one(steps: list[tuple[int, bool]], ring: int) -> None:
    written: list[Record] = [(number, int(ends), at) for at, (number, ends) in enumerate(steps)]
    scopes, unpaired = decoded(Kernel("k", SCOPES, warps=1, ring=ring), Cta(0, warps={0: written}))
    kept = written[-ring:]
    expected, last = [], dict[int, tuple[int, int]]()
    for number, ends, at in kept:
        if ends and number in last and not last[number][0]:
            expected.append((number, last[number][1] - kept[0][2], at - kept[0][2]))
        last[number] = ends, at
    assert sorted((one[2:] for one in scopes), key=lambda one: one[1]) == sorted(expected, key=lambda one: one[1])
    assert unpaired == len(kept) - 2 * len(expected)


def test_a_clock_of_43_bits_goes_on_where_it_wraps() -> None:
    kernel = Kernel("k", SCOPES, warps=2)
    late = Cta(0, begin=1000, warps={0: spans((LOOP, WHOLE - 50, WHOLE + 950)), 1: spans((LOAD, WHOLE + 10, WHOLE + 20))})
    assert decoded(kernel, late)[0] == [(0, 0, LOOP, 0, 1000), (0, 1, LOAD, 60, 70)]


def test_a_clock_of_32_bits_does_too_whatever_stands_above_it() -> None:
    kernel = Kernel("k", SCOPES, warps=1)
    late = Cta(0, warps={0: spans((LOOP, (5 << 32) - 50, (5 << 32) + 950), (LOAD, (5 << 32) - 10, (5 << 32) + 20))})
    recorded = records(np.frombuffer(kernel.memory(late), np.uint8), Layout(1, (0,), kernel.scratch_bytes, 32))
    both = paired(recorded)
    assert (recorded.clock[both.begin].tolist(), recorded.clock[both.end].tolist()) == ([0, 40], [1000, 70])


def test_memory_that_holds_no_cta_is_counted_and_left_out() -> None:
    kernel = Kernel("k", SCOPES, warps=1)
    good = Cta(0, warps={0: spans((LOAD, 1, 2))})
    bad = [Cta(1, magic=7), Cta(2, begin=5, end=4), Cta(3, begin=0)]
    data = np.frombuffer(b"".join(kernel.memory(cta) for cta in (*bad, good)), np.uint8)
    recorded = records(data, Layout(1, (0,), kernel.scratch_bytes)).ctas
    assert (recorded.number.tolist(), recorded.bad) == ([0], 3)


def test_memory_may_hold_no_cta_at_all() -> None:
    kernel = Kernel("k", SCOPES, warps=1)
    for data in (b"", kernel.memory(Cta(1, magic=7))):
        recorded = records(np.frombuffer(data, np.uint8), Layout(1, (0,), kernel.scratch_bytes))
        assert (len(recorded.ctas), len(paired(recorded).begin), recorded.ctas.bad) == (0, 0, len(data) > 0)


def test_a_cta_is_there_once() -> None:
    kernel = Kernel("k", SCOPES, warps=1)
    data = np.frombuffer(b"".join(kernel.memory(Cta(number, sm=place)) for place, number in enumerate((5, 6, 5))), np.uint8)
    recorded = records(data, Layout(1, (0,), kernel.scratch_bytes)).ctas
    assert (recorded.number.tolist(), recorded.sm.tolist(), recorded.bad) == ([5, 6], [0, 1], 1)


def test_a_count_that_is_damaged_costs_nothing_but_itself() -> None:
    kernel = Kernel("k", SCOPES, warps=1, ring=4)
    data = bytearray(kernel.memory(Cta(0, warps={0: spans((LOAD, 1, 2))})))
    data[40:44] = b"\xff\xff\xff\xff"
    recorded = records(np.frombuffer(bytes(data), np.uint8), Layout(1, (0,), kernel.scratch_bytes))
    assert len(recorded.unit) == 4


@given(st.binary(min_size=0, max_size=700), st.integers(1, 8))
def test_any_memory_decodes_to_something(noise: bytes, warps: int) -> None:
    kernel = Kernel("k", SCOPES, warps=warps, ring=8)
    memory = bytearray(kernel.memory(Cta(0, warps={0: spans((LOOP, 0, 100), (LOAD, 10, 20))})))
    memory[40 : 40 + len(noise)] = noise[: len(memory) - 40]
    recorded = records(np.frombuffer(bytes(memory), np.uint8), Layout(warps, tuple(range(warps)), len(memory)))
    both = paired(recorded)
    nest = nested(recorded, both)
    assert (recorded.clock[both.end] >= recorded.clock[both.begin]).all()
    assert (nest.parent < np.arange(len(both.begin))).all()


def test_marks_and_values_of_later_versions_are_no_records_of_scopes() -> None:
    kernel = Kernel("k", SCOPES, warps=1)
    mark, value = 2 << 20, 3 << 20
    data = bytearray(kernel.memory(Cta(0, warps={0: [(LOAD, 0, 5), (0, 0, 7), (0, 0, 999999), (LOAD, 1, 9)]})))
    for place, what in ((1, mark), (2, value)):
        at = 44 + 8 * place
        data[at : at + 4] = what.to_bytes(4, "little")
    recorded = records(np.frombuffer(bytes(data), np.uint8), Layout(1, (0,), kernel.scratch_bytes))
    both = paired(recorded)
    assert recorded.clock[both.end].tolist() == [4]


def test_scopes_nest_by_time_and_crossing_scopes_lie_beside_each_other() -> None:
    kernel = Kernel("k", [*SCOPES, scope(3, "copy in flight", "user")], warps=1)
    scopes = [(LOOP, 0, 100), (LOAD, 10, 20), (DOT, 30, 60), (3, 15, 55)]
    data = np.frombuffer(kernel.memory(Cta(0, warps={0: spans(*scopes)})), np.uint8)
    recorded = records(data, Layout(1, (0,), kernel.scratch_bytes))
    both = paired(recorded)
    nest = nested(recorded, both)
    parents = {int(recorded.scope[both.begin[row]]): int(parent) for row, parent in enumerate(nest.parent)}
    assert parents == {LOOP: -1, LOAD: 0, 3: -1, DOT: 0}
    assert nest.paths.tolist() == [[-1, LOOP], [0, LOAD], [0, DOT]]


def test_time_inside_a_span_is_not_its_own_and_records_cost_their_time(tmp_path: Path) -> None:
    kernel = Kernel("k", SCOPES, warps=1, header={"record_cycles": 5})
    cycles = spans((LOOP, 100, 1100), (LOAD, 200, 300), (DOT, 400, 600))
    ctas = [Cta(n, sm=0, begin=1_000_000 + 1000 * n, end=1_000_600 + 1000 * n, warps={0: _later(cycles, 2000 * n)}) for n in range(4)]
    times = made(tmp_path, kernel.frame(), kernel.launch(*ctas))["intra_times"]
    # Half a nanosecond a cycle. The loop contains its begin and four records more; the inner spans their begins.
    assert times.select("count", "took_ns", "own_ns").rows() == [
        (4, pytest.approx(4 * 0.5 * (1000 - 25)), pytest.approx(4 * 0.5 * (1000 - 25 - 95 - 195))),
        (4, pytest.approx(4 * 0.5 * 95), pytest.approx(4 * 0.5 * 95)),
        (4, pytest.approx(4 * 0.5 * 195), pytest.approx(4 * 0.5 * 195)),
    ]


def test_a_records_cost_is_the_smallest_distance_that_is_common(tmp_path: Path) -> None:
    kernel = Kernel("k", SCOPES, warps=1, header={"record_cycles": None})
    cta = Cta(0, warps={0: spans(*((LOAD, at, at + 17) for at in range(0, 1000, 100)))})
    assert made(tmp_path, kernel.frame(), kernel.launch(cta))["intra_kernels"]["record_cycles"].to_list() == [17]
    far = Cta(0, warps={0: spans(*((LOAD, at, at + 41) for at in range(0, 1000, 100)))})
    assert made(tmp_path, kernel.frame(), kernel.launch(far))["intra_kernels"]["record_cycles"].to_list() == [0]


def _later(records: list[Record], cycles: int) -> list[Record]:
    return [(number, ends, at + cycles) for number, ends, at in records]


def test_cycles_become_nanoseconds_by_ctas_that_followed_each_other(tmp_path: Path) -> None:
    """1.6 GHz, 3 µs from a CTA's begin to its first record: the CTA alone would give a pace that is far too slow."""
    kernel = Kernel("k", SCOPES, warps=1)
    ctas = [
        Cta(n, sm=n % 2, begin=10**9 + at, end=10**9 + at + 9000, warps={0: spans((LOAD, clock, clock + 1600))})
        for n in range(8)
        for at in [10_000 * (n // 2)]
        for clock in [7777 + (at + 3000) * 16 // 10]
    ]
    launch = made(tmp_path, kernel.frame(), kernel.launch(*ctas))
    assert launch["intra_launches"]["ns_per_cycle"].to_list() == [pytest.approx(0.625, rel=1e-3)]
    assert launch["intra_times"]["took_ns"].to_list() == [pytest.approx(8000, rel=1e-3)]


def test_one_cta_a_multiprocessor_is_placed_by_the_next_launch(tmp_path: Path) -> None:
    kernel = Kernel("k", SCOPES, warps=1)

    def launch(at: int) -> bytes:
        ctas = [
            Cta(n, sm=n, begin=10**9 + at, end=10**9 + at + 9000, warps={0: spans((LOAD, clock, clock + 1600))})
            for n in range(3)
            for clock in [n * 100 + (at + 3000) * 16 // 10]
        ]
        return kernel.launch(*ctas)

    rates = made(tmp_path, kernel.frame(), launch(0), launch(100_000))["intra_launches"]["ns_per_cycle"]
    assert rates.to_list() == [pytest.approx(0.625, rel=1e-3)] * 2


def test_records_lie_within_their_cta_whatever_was_measured(tmp_path: Path) -> None:
    kernel = Kernel("k", SCOPES, warps=1)
    cta = Cta(0, begin=5000, end=6000, warps={0: spans((LOAD, 0, 4000))})
    stored = made(tmp_path, kernel.frame(), kernel.launch(cta, begin_ns=70_000))
    begin, end = stored["intra_spans"].select("begin_ns", "end_ns").row(0)
    assert 70_000 - 32 <= begin <= end <= 71_000 + 32


def test_a_launch_stands_where_the_device_says_that_its_kernel_ran(tmp_path: Path) -> None:
    kernel = Kernel("k", SCOPES, warps=1)
    ctas = [Cta(n, sm=n, begin=5000 + 100 * n, end=6000 + 100 * n, warps={0: spans((LOAD, 0, 400))}) for n in range(2)]
    stored = made(tmp_path, kernel.frame(), kernel.launch(*ctas), times=LaunchTimes(90_000, 92_000))
    assert stored["intra_ctas"]["begin_ns"].to_list() == [90_000, 90_100]


def test_spans_are_kept_of_so_many_and_times_of_all(tmp_path: Path) -> None:
    kernel = Kernel("k", SCOPES, warps=1)
    cta = Cta(0, warps={0: spans(*((LOAD, at, at + 50) for at in range(0, 1000, 100)))})
    stored = made(tmp_path, kernel.frame(), *[kernel.launch(cta)] * 3, most_spans=25)
    assert stored["intra_launches"]["kept"].to_list() == [True, True, True]
    assert stored["intra_spans"].group_by("launch").len().sort("launch")["len"].to_list() == [10, 10, 10]
    stored = made(tmp_path, kernel.frame(), *[kernel.launch(cta)] * 3, most_spans=20)
    assert stored["intra_spans"]["launch"].unique().to_list() == [1, 2]
    assert stored["intra_times"]["count"].to_list() == [10, 10, 10]


class TestFiles:
    kernel = Kernel("k", SCOPES, warps=1)
    cta = Cta(0, warps={0: spans((LOAD, 1, 2))})

    def test_frames_follow_each_other(self, tmp_path: Path) -> None:
        captures = found_in(tmp_path, self.kernel.frame(), self.kernel.launch(self.cta), self.kernel.launch(self.cta, launch=2))
        assert [launch.number for launch in captures.launches] == [1, 2]
        assert (captures.pid, captures.torn, captures.damaged) == (7, 0, 0)

    def test_a_last_frame_that_is_cut_off_is_counted(self, tmp_path: Path) -> None:
        whole = self.kernel.frame() + self.kernel.launch(self.cta)
        for cut in (5, 9, len(self.kernel.launch(self.cta)) - 1):
            captures = found_in(tmp_path, whole[:-cut])
            assert (len(captures.launches), captures.torn, captures.damaged) == (0, 1, 0)

    def test_bytes_between_frames_cost_nothing_else(self, tmp_path: Path) -> None:
        captures = found_in(tmp_path, self.kernel.frame(), b"garbage!" * 5, self.kernel.launch(self.cta))
        assert (len(captures.launches), captures.damaged) == (1, 1)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"ctas": 2}, {"ctas": -1}, {"key": "other"}, {"grid": [0, 1, 1]}, {"grid": None}, {"ctas": None},
            {"device": "first"}, {"begin_ns": -5}, {"stream": 1 << 70},
        ],
    )  # fmt: skip
    def test_a_launch_that_contradicts_itself_is_left_out(self, tmp_path: Path, wrong: dict[str, object]) -> None:
        captures = found_in(tmp_path, self.kernel.frame(), self.kernel.launch(self.cta, **wrong), self.kernel.launch(self.cta))
        assert (len(captures.launches), captures.damaged) == (1, 1)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"num_warps": 0}, {"num_warps": 1 << 40}, {"warp_ids": [9]}, {"warp_ids": []}, {"scratch_bytes": 3}, {"scopes": None},
            {"scopes": [{"id": 999}]}, {"scopes": [{}]}, {"scopes": ["a"]},
        ],
    )  # fmt: skip
    def test_a_kernel_that_cannot_be_is_left_out_with_its_launches(self, tmp_path: Path, wrong: dict[str, object]) -> None:
        frame = Kernel("k", SCOPES, warps=1, header=wrong).frame()
        captures = found_in(tmp_path, frame, self.kernel.launch(self.cta))
        assert (len(captures.kernels), len(captures.launches), captures.damaged) == (0, 0, 2)

    @pytest.mark.parametrize("text", [b"[]", b"{", b"\xff\xfe", b"[" * 100_000, json.dumps({"kind": "later"}).encode()])
    def test_a_frame_of_another_kind_or_none_is_passed_over(self, tmp_path: Path, text: bytes) -> None:
        frame = HEAD.pack(MAGIC, 1, len(text), 0) + text
        assert len(found_in(tmp_path, self.kernel.frame(), frame, self.kernel.launch(self.cta)).launches) == 1

    def test_a_file_that_is_none_holds_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "9.captures").symlink_to("/etc/passwd")
        with pytest.raises(AiflameError, match="symbolic link"):
            read(Folder.open(tmp_path), 9)
        assert read_written(tmp_path / "8.captures").launches == []

    @given(st.integers(0, 400), st.binary(min_size=1, max_size=4))
    def test_no_damage_is_more_than_damage(self, at: int, noise: bytes) -> None:
        data = bytearray(self.kernel.frame() + self.kernel.launch(self.cta))
        data[at : at + len(noise)] = noise
        path = Path(f"/tmp/aiflame-test-{os.getpid()}") / "7.captures"
        try:
            tables(0, read_written(path, bytes(data)), lambda kernel, launch: None)
        finally:
            path.unlink()
            path.parent.rmdir()


def test_frames_are_padded_so_that_they_begin_at_multiples_of_eight(tmp_path: Path) -> None:
    odd = framed({"kind": "later"}, b"12345")
    assert len(found_in(tmp_path, odd, Kernel("k", SCOPES).frame()).kernels) == 1

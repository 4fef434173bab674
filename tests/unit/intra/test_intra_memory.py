"""The device memory of records: taken and given back, kept apart by context, bounded, and reused in rounds by the blocks of large grids."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

pytest.importorskip("triton")

from intra_program import MADE_BESIDE, Program, loaded, recipe_of

from aiflame.intra import compile_hook, device, device_ring
from aiflame.intra.cta_ring import straight


def test_memory_is_clear_when_it_is_used_again(program: Program) -> None:
    program.record(every=1)
    assert all(program.launch(times=5))
    assert program.driver.blocks_cleared
    assert program.cuda.calls.count("cuMemAlloc_v2") == 1


def test_memory_of_a_context_that_was_destroyed_is_not_used_in_the_one_at_its_address(program: Program) -> None:
    program.record(every=1)
    for allocations in (1, 1, 2, 2):
        assert program.launch() == [True]
        program.end_copies()
        assert program.cuda.calls.count("cuMemAlloc_v2") == allocations
        program.cuda.context = 1 + len(program.driver.launched) // 2


def test_nothing_is_asked_of_a_context_that_was_destroyed(program: Program) -> None:
    program.record(every=1)
    program.cuda.copied = False
    assert program.launch() == [True]
    program.cuda.calls.clear()
    program.cuda.context += 1
    assert program.launch() == [True]
    assert "cuEventQuery" not in program.cuda.calls
    assert program.notes == ["inside kernels: records are lost: their context was destroyed"]
    program.cuda.copied = True
    assert [launch.number for launch in program.end().launches] == [2]


def test_a_driver_that_knows_no_numbers_of_contexts_is_asked_for_addresses_alone(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> int:
        raise AttributeError("undefined symbol: cuCtxGetId")

    monkeypatch.setattr(program.cuda, "cuCtxGetId", missing, raising=False)
    program.record(every=1)
    assert program.launch(times=3) == [True] * 3
    assert program.cuda.calls.count("cuMemAlloc_v2") == 1


@pytest.mark.parametrize("failing", MADE_BESIDE)
def test_where_memory_cannot_be_made_ready_it_is_given_back(program: Program, failing: str) -> None:
    """And later copies never use the program's own stream."""
    program.cuda.failing = failing
    program.record(every=1)
    assert program.launch(times=3) == [False] * 3
    assert program.cuda.calls.count("cuMemFree_v2") == program.cuda.calls.count("cuMemAlloc_v2") == 3
    program.cuda.failing = ""
    assert program.launch() == [True]


def test_a_launch_without_memory_for_its_records_is_noted(program: Program) -> None:
    program.record(memory=0)
    assert program.launch(times=4) == [False] * 4
    assert program.notes == ["inside kernels: there is no memory for the records of add with 4 blocks"]


def test_while_copies_are_on_their_way_memory_stays_bounded(program: Program) -> None:
    program.record(every=1, memory=4 << 20)
    program.cuda.copied = False
    assert program.launch(times=4) == [True, True, False, False]
    program.cuda.copied = True
    assert program.launch() == [True]
    captures = program.end()
    assert [launch.number for launch in captures.launches] == [1, 2, 5]
    assert captures.launches[-1].dropped_launches == 2


def test_without_memory_the_kernel_itself_runs(program: Program) -> None:
    program.record()
    program.cuda.out_of_memory = True
    assert program.launch(times=2) == [False, False]


def test_a_twin_that_cannot_be_launched_gives_its_place_back(program: Program) -> None:
    program.record(every=1)
    program.driver.too_large = True
    assert program.launch(times=2) == [False, False]
    assert ["out of resources" in note for note in program.notes] == [True]


class TestMoreBlocksThanThereIsMemoryFor:
    """2 MiB for a launch, and 128 bytes for each block."""

    BLOCKS, FIT = 40_000, 16_384

    def test_share_the_memory_in_turn_and_the_last_remain(self, program: Program) -> None:
        program.cuda.has_virtual_memory = True
        program.record(every=1, memory=8 << 20)
        assert program.launch(times=2, blocks=self.BLOCKS) == [True, True]
        assert program.driver.blocks_cleared
        captures = program.end()
        (kernel,) = captures.kernels.values()
        assert [(one.ctas, one.ring_bytes, len(one.data)) for one in captures.launches] == [(self.BLOCKS, 2 << 20, 2 << 20)] * 2
        left = straight(captures.launches[1].data, kernel.scratch_bytes, self.BLOCKS).view("<u4").reshape(-1, kernel.scratch_bytes // 4)
        assert left[:, 1].tolist() == list(range(self.BLOCKS - self.FIT, self.BLOCKS))

    def test_are_found_a_place_once(self, program: Program) -> None:
        """Addresses are led to memory when a larger grid comes; nothing is ever taken away."""
        program.cuda.has_virtual_memory = True
        program.record(every=1, memory=8 << 20)
        for blocks, rounds in ((self.BLOCKS, 3), (self.BLOCKS, 3), (2 * self.BLOCKS, 5), (4, 5)):
            assert program.launch(blocks=blocks) == [True]
            assert program.cuda.calls.count("cuMemMap") == rounds
        assert program.cuda.calls.count("cuMemCreate") == 1
        assert not {"cuMemUnmap", "cuMemAddressFree", "cuMemRelease"} & {*program.cuda.calls}

    def test_are_no_matter_of_a_graph_that_is_captured(self, program: Program) -> None:
        program.cuda.has_virtual_memory = True
        program.record(every=1, memory=8 << 20)
        program.cuda.capturing = True
        assert program.launch(blocks=self.BLOCKS) == [False]
        assert "cuMemCreate" not in program.cuda.calls

    def test_are_not_recorded_where_the_device_cannot_do_that(self, program: Program) -> None:
        program.record(every=1, memory=8 << 20)
        assert program.launch(blocks=2 * self.BLOCKS) == [False]

    @pytest.mark.parametrize("failing", ["cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", *MADE_BESIDE])
    def test_are_not_recorded_where_memory_cannot_be_had_and_it_is_given_back(self, program: Program, failing: str) -> None:
        program.cuda.has_virtual_memory, program.cuda.failing = True, failing
        program.record(every=1, memory=8 << 20)
        assert program.launch(blocks=2 * self.BLOCKS) == [False]
        assert program.cuda.pieces == {}
        program.cuda.failing = ""
        assert program.launch(blocks=2 * self.BLOCKS) == [True]

    def test_are_too_many_at_last(self, program: Program) -> None:
        program.cuda.has_virtual_memory = True
        pool = device.Pool(8 << 20, 2 << 20)
        assert pool.take(device_ring.MOST_ROUNDS * (2 << 20) + 1) is None
        assert "cuMemMap" not in program.cuda.calls

    def test_have_a_place_however_it_is_counted(self, program: Program) -> None:
        """Triton counts it in 32 bits with a sign: behind 2 GiB it is before the first. In any case it is where 64 bits would lead."""
        program.cuda.has_virtual_memory = True
        slot = device.Pool(256 << 20, 64 << 20).take(5 << 30)
        assert slot is not None and slot.ring is not None and slot.bytes == 64 << 20
        for place in (0, (1 << 31) - 128, 1 << 31, (1 << 31) + 4224, 3 << 30, (1 << 32) + 12 * 4224, (5 << 30) - 128):
            signed = (place + (1 << 31)) % (1 << 32) - (1 << 31)
            for counted in {place, signed, place % (1 << 32)}:
                ctypes.memset(slot.device + counted, 7, 128)
                assert ctypes.string_at(slot.device + place % slot.bytes, 128) == b"\7" * 128
                ctypes.memset(slot.device + place % slot.bytes, 0, 128)
        slot.ring.give_back()

    def test_are_not_given_memory_that_cannot_be_counted(self, program: Program) -> None:
        assert device.Pool(16 << 30, 4 << 30).take((1 << 31) + 1) is None
        assert "cuMemAlloc_v2" not in program.cuda.calls

    @pytest.mark.parametrize(("most", "ring"), [(64 << 20, 64 << 20), (63 << 20, 32 << 20), (3 << 20, 2 << 20), (4 << 30, 2 << 30)])
    def test_go_round_in_a_power_of_two(self, program: Program, most: int, ring: int) -> None:
        program.cuda.has_virtual_memory = True
        device_memory = device_ring.Ring.make(most)
        assert device_memory is not None and device_memory.bytes == ring
        device_memory.give_back()
        assert device_ring.Ring.make(1 << 20) is None

    def test_have_a_place_whatever_was_launched_before(self, program: Program) -> None:
        """Memory that small launches have had is never given back: that would wait for the device."""
        program.cuda.has_virtual_memory = True
        pool = device.Pool(16 << 20, 4 << 20)
        small = [pool.take(100) for _ in range(20)]
        assert [slot.bytes for slot in small if slot] == [2 << 20] * 6 + [4 << 20]
        for slot in small:
            if slot is not None:
                slot.busy = False
        large = pool.take(100 << 20)
        assert large is small[6] and large is not None and large.ring is not None and large.ring.rounds == 25

    def test_have_rings_of_a_kibibyte_at_least(self) -> None:
        few = [compile_hook.fitting(recipe_of("loop"), loaded(), 1 << 20, 64 << 20, go_round=go_round) for go_round in (True, False)]
        assert [(one.segment_bytes, one.warps) for one in few] == [(1024, (0, 2)), (128, (0,))]
        roles = loaded(roles="partition0() num_warps(2)")
        assert compile_hook.fitting(recipe_of("loop"), roles, 1 << 20, 64 << 20, go_round=True).warps is None

"""Launches with records inside, on a machine without a device: which are taken, what is written, and what is left alone."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")

import intra_add  # noqa: E402
import torch  # noqa: E402
from intra_fakes import FakeCuda, FakeTriton  # noqa: E402

from aiflame.intra import captures, compile_hook, device, device_ring, runtime  # noqa: E402
from aiflame.intra import driver as cuda_driver  # noqa: E402
from aiflame.intra.captures import Captures  # noqa: E402
from aiflame.intra.catalog import chosen  # noqa: E402
from aiflame.intra.cta_ring import straight  # noqa: E402
from aiflame.intra.errors import Refused  # noqa: E402
from aiflame.intra.passes import Kernel, pass_  # noqa: E402
from aiflame.profile.folder.door import Folder  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton.knobs.cache, "dir", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(cuda_driver, "call", fake)
    return fake


@pytest.fixture
def driver() -> Iterator[FakeTriton]:
    fake = FakeTriton()
    for kernel in vars(intra_add).values():
        if isinstance(kernel, triton.JITFunction):
            kernel.device_caches.clear()
    triton.runtime.driver.set_active(fake)
    yield fake
    triton.runtime.driver._active = None


class Program:
    """A recorded program that launches kernels."""

    def __init__(self, folder: Path, cuda: FakeCuda, driver: FakeTriton) -> None:
        self.folder, self.cuda, self.driver = folder, cuda, driver
        self.notes: list[str] = []
        self.x, self.y = torch.zeros(4096), torch.zeros(4096)
        self._session: runtime.Session | None = None

    def record(self, **settings: Any) -> None:
        chosen = runtime.Settings(**{"passes": ("regions",), **settings})
        self._session = runtime.Session(chosen, self.folder, self.notes.append)
        self._session.start()

    def launch(self, kernel: Any = intra_add.add, times: int = 1, blocks: int = 4) -> list[bool]:
        """Which of the launches were of the instrumented twin."""
        before = len(self.driver.launched)
        for _ in range(times):
            kernel[(blocks,)](self.x, self.y, 4096, BLOCK=1024)
        return [mode.startswith("aiflame_") for mode in self.driver.launched[before:]]

    def end_copies(self) -> None:
        assert self._session is not None
        self._session.collect()

    def end(self) -> Captures:
        if self._session is not None:
            self._session.stop(0.2)
            self._session = None
        (file,) = self.folder.glob("*.captures")
        return captures.read(Folder.open(self.folder), int(file.stem))


@pytest.fixture
def program(tmp_path: Path, cuda: FakeCuda, driver: FakeTriton) -> Iterator[Program]:
    one = Program(tmp_path, cuda, driver)
    yield one
    if one._session is not None:
        one._session.stop(0)


def test_launches_one_two_four_and_so_on_are_of_the_twin(program: Program) -> None:
    program.record()
    assert program.launch(times=9) == [number in (1, 2, 4, 8) for number in range(1, 10)]
    found = program.end()
    (kernel,) = found.kernels.values()
    assert kernel.name == "add" and [scope.name for scope in kernel.scopes] == ["kernel"]
    assert [launch.number for launch in found.launches] == [1, 2, 4, 8]
    assert {(launch.grid, launch.ctas, launch.dropped_launches) for launch in found.launches} == {((4, 1, 1), 4, 0)}
    words = [launch.data.view(np.uint32)[: kernel.scratch_bytes] for launch in found.launches]
    assert all(one[0] == 0xDEADBEEF and one[1] == 0 for one in words)


def test_every_nth_launch_is_taken_until_there_are_enough(program: Program) -> None:
    program.record(every=3, launches=4)
    assert [number for number, taken in enumerate(program.launch(times=12), 1) if taken] == [1, 2, 3, 4]


def test_memory_is_clear_when_it_is_used_again(program: Program) -> None:
    program.record(every=1)
    assert all(program.launch(times=5))
    assert program.driver.blocks_cleared
    assert program.cuda.calls.count("cuMemAlloc_v2") == 1


def test_memory_of_a_context_that_was_destroyed_is_not_used_in_the_one_at_its_address(program: Program) -> None:
    program.record(every=1)
    for made in (1, 1, 2, 2):
        assert program.launch() == [True]
        program.end_copies()
        assert program.cuda.calls.count("cuMemAlloc_v2") == made
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


def test_the_programs_stream_is_given_an_event_and_nothing_else(program: Program) -> None:
    program.record()
    program.launch()
    touching = {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuStreamWaitEvent"}
    assert [call for call in program.cuda.calls if call in touching] == ["cuStreamSynchronize", "cuStreamWaitEvent"]
    assert "cuMemcpyDtoHAsync_v2" in program.cuda.calls


MADE_BESIDE = ["cuStreamCreate", "cuMemHostAlloc", "cuEventCreate", "cuMemsetD8Async", "cuStreamSynchronize"]


@pytest.mark.parametrize("failing", MADE_BESIDE)
def test_where_memory_cannot_be_made_ready_it_is_given_back(program: Program, failing: str) -> None:
    """And what comes later never goes to the program's own stream."""
    program.cuda.failing = failing
    program.record(every=1)
    assert program.launch(times=3) == [False] * 3
    assert program.cuda.calls.count("cuMemFree_v2") == program.cuda.calls.count("cuMemAlloc_v2") == 3
    program.cuda.failing = ""
    assert program.launch() == [True]


def test_what_was_launched_is_not_launched_again(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.Pool, "copy_out", lambda *_: 1 // 0)
    program.record(every=1)
    assert program.launch(times=2) == [True, True]
    assert "division" in program.notes[-1]


class Hooks:
    """A program's own around its launches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.raising = ""
        self.error: type[BaseException] = ZeroDivisionError
        for when in ("enter", "exit"):
            chain = triton.knobs.HookChain()
            chain.add(functools.partial(self._call, when))
            monkeypatch.setattr(triton.knobs.runtime, f"launch_{when}_hook", chain)

    def _call(self, when: str, metadata: Any) -> None:
        self.calls.append(f"{when} {metadata.get()['name']}")
        if when == self.raising:
            raise self.error(f"of {when}")


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Hooks:
    return Hooks(monkeypatch)


class TestHooksOfTheProgramsOwn:
    def test_are_called_around_a_twin_as_around_any_kernel(self, program: Program, hooks: Hooks) -> None:
        program.record()
        assert program.launch(times=3) == [True, True, False]
        assert hooks.calls == ["enter add", "exit add"] * 3

    @pytest.mark.parametrize("recorded", [False, True])
    @pytest.mark.parametrize(("raising", "calls", "launches"), [("enter", ["enter add"], 0), ("exit", ["enter add", "exit add"], 1)])
    def test_raise_to_the_program_and_nothing_is_launched_twice(
        self, program: Program, hooks: Hooks, recorded: bool, raising: str, calls: list[str], launches: int
    ) -> None:
        if recorded:
            program.record(every=1)
        hooks.raising = raising
        with pytest.raises(ZeroDivisionError, match=f"of {raising}"):
            program.launch()
        assert (hooks.calls, len(program.driver.launched)) == (calls, launches)
        hooks.raising = ""
        assert program.launch() == [recorded]
        assert not recorded or len(program.end().launches) == launches + 1
        assert program.notes == []

    def test_are_called_once_where_a_twin_cannot_be_launched(self, program: Program, hooks: Hooks) -> None:
        program.record()
        program.driver.too_large = True
        assert program.launch() == [False]
        assert hooks.calls == ["enter add", "exit add"]

    @pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
    def test_have_memory_given_back_when_they_let_no_launch_be(self, program: Program, hooks: Hooks, error: type[BaseException]) -> None:
        program.record(every=1)
        hooks.raising, hooks.error = "enter", error
        for _ in range(2 * runtime.SLOTS):
            with pytest.raises(error):
                program.launch()
        assert program.cuda.calls.count("cuMemAlloc_v2") == 1


def test_what_a_launcher_raises_behind_a_launch_is_the_programs(program: Program) -> None:
    program.record(every=1)
    program.driver.after_launch = ZeroDivisionError("late")
    with pytest.raises(ZeroDivisionError, match="late"):
        program.launch()
    assert len(program.driver.launched) == 1
    program.driver.after_launch = None
    assert program.launch() == [True]
    assert program.cuda.calls.count("cuMemAlloc_v2") == 2, "the first may still be written to"


def test_a_further_recording_counts_anew_and_takes_no_more_memory(program: Program) -> None:
    program.record(every=1, launches=2)
    program.cuda.copied = False
    assert program.launch(times=3) == [True, True, False]
    program.record(every=1, launches=2)
    program.cuda.copied = True
    assert program.launch(times=3) == [True, True, False]
    assert program.cuda.calls.count("cuMemAlloc_v2") == 2
    assert len(program.end().launches) == 4


def test_a_launch_into_a_graph_is_of_the_kernel_itself(program: Program) -> None:
    program.record(every=1)
    program.launch()
    program.cuda.capturing = True
    assert program.launch(times=3) == [False] * 3
    program.cuda.capturing = False
    assert program.launch() == [True]
    assert program.end().launches[-1].dropped_launches == 3


def test_nobody_waits_for_a_thread_that_compiles_a_twin(program: Program) -> None:
    program.record()
    assert program._session is not None
    with ThreadPoolExecutor(1) as elsewhere, program._session._lock:
        assert elsewhere.submit(program.launch).result(30) == [False]
    assert program.launch() == [True]
    (launch,) = program.end().launches
    assert launch.dropped_launches == 1


def test_a_launch_that_there_is_no_memory_for_is_told_of(program: Program) -> None:
    program.record(memory=0)
    assert program.launch(times=4) == [False] * 4
    assert program.notes == ["inside kernels: there is no memory for the records of add with 4 blocks"]


def test_no_call_can_spoil_a_capture_of_another_thread(program: Program) -> None:
    """Between the two exchanges of the thread's mode nothing is forbidden to it."""
    program.record()
    program.launch()
    calls = program.cuda.calls
    exchanges = [at for at, call in enumerate(calls) if call == "cuThreadExchangeStreamCaptureMode"]
    for careful in ("cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamSynchronize", "cuEventQuery"):
        for at in [at for at, call in enumerate(calls) if call == careful]:
            assert sum(one < at for one in exchanges) % 2 == 1, careful


def test_while_copies_are_on_their_way_memory_stays_bounded(program: Program) -> None:
    program.record(every=1, memory=4 << 20)
    program.cuda.copied = False
    assert program.launch(times=4) == [True, True, False, False]
    program.cuda.copied = True
    assert program.launch() == [True]
    found = program.end()
    assert [launch.number for launch in found.launches] == [1, 2, 5]
    assert found.launches[-1].dropped_launches == 2


def test_without_memory_the_kernel_itself_runs(program: Program) -> None:
    program.record()
    program.cuda.out_of_memory = True
    assert program.launch(times=2) == [False, False]


def test_a_twin_that_cannot_be_launched_gives_its_place_back(program: Program) -> None:
    program.record(every=1)
    program.driver.too_large = True
    assert program.launch(times=2) == [False, False]
    assert ["out of resources" in note for note in program.notes] == [True]


def test_a_driver_that_fails_is_no_matter_of_the_programs(program: Program) -> None:
    program.record(every=1)
    program.cuda.failing = "cuEventRecord"
    assert program.launch(times=2) == [True, True], "the launch was made; its records are lost"
    program.cuda.failing = "cuStreamIsCapturing"
    assert program.launch() == [False], "where it cannot be told, a graph may be captured"
    assert any("cuEventRecord" in note for note in program.notes)


def test_room_for_records_gets_smaller_where_there_are_many_blocks(program: Program) -> None:
    program.record(passes=("loop",), memory=64 << 20)
    assert program.launch(intra_add.sums, blocks=4) == [True]
    assert program.launch(intra_add.add_other, blocks=4) == [False], "there is no loop in it"
    program.driver.launched.clear()
    (few,) = program.end().kernels.values()
    intra_add.sums.device_caches.clear()
    program.record(passes=("loop",), memory=64 << 20)
    program.launch(intra_add.sums, blocks=8192)
    *_, many = program.end().kernels.values()
    assert many.scratch_bytes * 8192 <= 16 << 20 < few.scratch_bytes * 8192


class TestMoreBlocksThanThereIsMemoryFor:
    """2 MiB for a launch, and 128 bytes for each block."""

    BLOCKS, FIT = 40_000, 16_384

    def test_go_round_in_what_there_is_and_the_last_are_left(self, program: Program) -> None:
        program.cuda.has_virtual_memory = True
        program.record(every=1, memory=8 << 20)
        assert program.launch(times=2, blocks=self.BLOCKS) == [True, True]
        assert program.driver.blocks_cleared
        found = program.end()
        (kernel,) = found.kernels.values()
        assert [(one.ctas, one.ring_bytes, len(one.data)) for one in found.launches] == [(self.BLOCKS, 2 << 20, 2 << 20)] * 2
        left = straight(found.launches[1].data, kernel.scratch_bytes, self.BLOCKS).view("<u4").reshape(-1, kernel.scratch_bytes // 4)
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
        made = device_ring.Ring.make(most)
        assert made is not None and made.bytes == ring
        made.give_back()
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
        few = [compile_hook.fitting(_recipe("loop"), _loaded(), 1 << 20, 64 << 20, go_round=go_round) for go_round in (True, False)]
        assert [(one.segment_bytes, one.warps) for one in few] == [(1024, (0, 2)), (128, (0,))]
        roles = _loaded(roles="partition0() num_warps(2)")
        assert compile_hook.fitting(_recipe("loop"), roles, 1 << 20, 64 << 20, go_round=True).warps is None


def _loaded(target: str = "cuda", arch: Any = 90, warps: int = 4, registers: int | None = 40, shared: int = 0, roles: str = "") -> Any:
    """A compiled kernel, as far as it is asked."""
    metadata = SimpleNamespace(target=SimpleNamespace(backend=target, arch=arch), num_warps=warps, shared=shared)
    return SimpleNamespace(asm={"ttgir": f'"ttg.num-warps" = {warps} {roles}'}, metadata=metadata, n_regs=registers)


class TestRoom:
    """Of 12 blocks with 4 warps and 40 registers each that fit, a quarter of 228 KiB is for records."""

    @pytest.mark.parametrize(
        ("kernel", "bytes_each"),
        [
            (_loaded(), 4864),
            (_loaded(warps=8, registers=128, shared=98_304), 17_408),
            (_loaded(registers=None), 0),
            (_loaded("hip", "gfx942"), 0),
            (_loaded(arch=42), 0),
        ],
    )
    def test_in_shared_memory_is_what_costs_no_block_its_place(self, kernel: Any, bytes_each: int) -> None:
        assert compile_hook.fitting(_recipe("loop"), kernel, 4, 1 << 26).shared_bytes == bytes_each

    def test_is_none_where_none_is_wanted_and_all_that_there_is_where_it_must_be(self) -> None:
        recipe = _recipe("loop")
        assert compile_hook.fitting(dataclasses.replace(recipe, shared=False), _loaded(), 4, 1 << 26).shared_bytes == 0
        forced = dataclasses.replace(recipe, shared=True)
        assert compile_hook.fitting(forced, _loaded(shared=230_000), 4, 1 << 26).shared_bytes == 232_448 - 230_000 - 128
        assert compile_hook.fitting(forced, _loaded("hip", "gfx942", shared=60_000), 4, 1 << 26).shared_bytes == 65_536 - 60_000 - 128

    @pytest.mark.parametrize(
        ("blocks", "segment"),
        [(132, 16384), (100, 32768), (1024, 4096), (2048, 4096), (4096, 2048), (8192, 1024)],
    )
    def test_gets_smaller_where_there_are_many_blocks(self, blocks: int, segment: int) -> None:
        found = compile_hook.fitting(_recipe("loop"), _loaded(), blocks, 64 << 20)
        assert (found.segment_bytes, found.warps) == (segment, None)

    @pytest.mark.parametrize(
        ("blocks", "segment", "warps"), [(16_384, 1024, (0, 2)), (32_768, 512, (0, 2)), (1 << 17, 128, (0, 2)), (1 << 18, 128, (0,))]
    )
    def test_is_rather_for_fewer_warps_than_less_than_a_kibibyte(self, blocks: int, segment: int, warps: tuple[int, ...]) -> None:
        found = compile_hook.fitting(_recipe("loop"), _loaded(), blocks, 64 << 20)
        assert (found.segment_bytes, found.warps) == (segment, warps)

    def test_of_warps_that_there_are_not_is_none_whatever_the_grid(self) -> None:
        """The compiler says that there are none of these."""
        assert compile_hook.fitting(dataclasses.replace(_recipe("loop"), warps=(9,)), _loaded(), 1 << 20, 64 << 20).warps == (9,)

    def test_is_for_the_warps_of_all_roles(self) -> None:
        kernel = _loaded(roles="partition0() num_warps(2) { } partition1() num_warps(1) { }")
        four = compile_hook.fitting(_recipe("loop"), kernel, 1024, 64 << 20)
        assert (four.segment_bytes, four.warps) == (4096, None)

    @pytest.mark.parametrize(
        ("room", "warps", "made"),
        [
            (131_072, None, ([0, 1, 2, 3], 32768, True)),
            (16_384, None, ([0, 1, 2, 3], 4096, True)),
            (9728, None, ([0, 2], 4096, True)),
            (9728, (0, 1, 2, 3), ([0, 1, 2, 3], 2048, True)),
            (1024, None, ([0, 2], 512, True)),
            (1000, None, ([0, 1, 2, 3], 32768, False)),
            (0, None, ([0, 1, 2, 3], 32768, False)),
        ],
    )
    def test_is_used_as_far_as_it_goes(
        self, program: Program, room: int, warps: tuple[int, ...] | None, made: tuple[list[int], int, bool]
    ) -> None:
        plain = intra_add.sums.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
        recipe = dataclasses.replace(_recipe("loop"), warps=warps, shared_bytes=room)
        twin = compile_hook.twin(plain, recipe)
        said = compile_hook.description(twin)
        assert (said["warp_ids"], said["segment_bytes"], said["shared"]) == made
        kept = len(made[0]) * made[1]
        assert int(twin.metadata.shared) == -(-int(plain.metadata.shared) // 8) * 8 + (kept if made[2] else 0)
        assert int(twin.metadata.profile_scratch_size) == -(-(40 + 4 * 4 + kept) // 128) * 128

    def test_of_a_kernel_without_marks_in_loops_is_no_more_than_it_fills(self, program: Program) -> None:
        plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
        said = compile_hook.description(compile_hook.twin(plain, dataclasses.replace(_recipe("regions"), shared_bytes=256)))
        assert (said["segment_bytes"], said["warp_ids"], said["shared"]) == (16, [0, 1, 2, 3], True)


def test_records_lie_in_shared_memory_until_a_block_ends(program: Program) -> None:
    program.record()
    program.launch()
    (kernel,) = program.end().kernels.values()
    assert kernel.instrumented.shared > kernel.plain.shared


def test_records_can_go_to_global_memory_at_once(program: Program) -> None:
    program.record(shared=False)
    program.launch()
    (kernel,) = program.end().kernels.values()
    assert kernel.instrumented.shared == kernel.plain.shared


def test_disk_is_bounded(program: Program) -> None:
    program.record(every=1, disk=10_000)
    program.launch(times=20)
    assert sum(len(launch.data) for launch in program.end().launches) <= 10_000
    assert any("limit" in note for note in program.notes)


def test_an_autotuner_measures_kernels_as_they_are(program: Program) -> None:
    configs = [triton.Config({"BLOCK": block}) for block in (512, 1024)]
    measured: list[str] = []

    def bench(call: Any, quantiles: Any = None) -> list[float]:
        before = len(program.driver.launched)
        call()
        measured.extend(program.driver.launched[before:])
        return [1.0, 1.0, 1.0]

    tuned = triton.autotune(configs, key=["n"], do_bench=bench)(intra_add.add)
    program.record(every=1)
    tuned[(4,)](program.x, program.y, 4096)
    assert measured == ["", ""]
    assert program.driver.launched[-1].startswith("aiflame_")
    assert [launch.number for launch in program.end().launches] == [1], "launches of the autotuner's are not counted"


def test_only_kernels_that_are_named_are_taken(program: Program) -> None:
    program.record(kernels="other$")
    assert program.launch() + program.launch(intra_add.add_other) == [False, True]


def test_without_a_session_nothing_happens(program: Program) -> None:
    program.record()
    program.launch()
    program.end()
    assert program.launch(times=4) == [False] * 4


def test_another_allocator_of_profile_memory_is_put_back(program: Program) -> None:
    holder = triton.runtime._allocation._profile_allocator
    theirs = object()
    before = holder.get()
    holder.set(theirs)
    program.record()
    assert program.launch() == [True]
    assert holder.get() is theirs
    holder.set(before)


def test_the_docs_example_of_a_pass_works_as_it_stands(program: Program, tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "intra.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    mine = tmp_path / "mine.py"
    mine.write_text(example)
    program.record(passes=(), files=(str(mine),))
    assert program.launch(intra_add.exponentials) == [True]
    (kernel,) = program.end().kernels.values()
    assert [(scope.name, scope.line) for scope in kernel.scopes] == [("x to y", 61), ("exp y", 63)]


# Kernels that stay as they are ------------------------------------------------------------------------------------------------


@pass_("broken")
def broken(kernel: Kernel) -> None:
    kernel.wrap(next(kernel.ops("tt.load")))
    raise ZeroDivisionError("of mine")


@pass_("crossing")
def crossing(kernel: Kernel) -> None:
    (loop,) = kernel.loops
    kernel.span(loop.children[0], loop, "in and out")


@pytest.mark.parametrize(
    ("kernel", "passes", "why"),
    [
        (intra_add.add, ("regions", "broken"), "the pass broken failed: of mine"),
        (intra_add.calls_far, ("regions",), "not inlined"),
        (intra_add.forgets_an_end, ("regions",), "scope 'mine'"),
        (intra_add.add, ("mma",), "nothing to time"),
        (intra_add.sums, ("crossing",), "not one behind the other in the same block"),
    ],
)
def test_a_kernel_that_cannot_be_instrumented_stays_as_it_is_and_that_is_said_once(
    program: Program, kernel: Any, passes: tuple[str, ...], why: str
) -> None:
    program.record(passes=passes, every=1)
    assert program.launch(kernel, times=3) == [False] * 3
    assert [why in note for note in program.notes] == [True], program.notes


# Keys of the compiler's cache -------------------------------------------------------------------------------------------------


def test_neither_the_kernel_nor_its_twin_is_ever_served_for_the_other(program: Program) -> None:
    plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    recipe = _recipe("regions")
    twin = compile_hook.twin(plain, recipe)
    for compiled in (False, True):  # the second time all of it comes from the cache
        assert ("%clock" in twin.asm["ptx"], "%clock" in plain.asm["ptx"]) == (True, False)
        assert plain.hash != twin.hash and compile_hook.description(twin)["scopes"]
        if not compiled:
            intra_add.add.device_caches.clear()
            plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
            twin = compile_hook.twin(plain, recipe)
    assert compile_hook.twin(plain, _recipe("loads")).hash != twin.hash, "other passes, another kernel"


PASSES = """
def small(kernel):
    return LIMIT + len({name for name in ("first", "second", "third") if (lambda: name)()})

LIMIT = 1

def to(most):
    def limited(kernel):
        return most
    return limited
"""


def test_the_same_pass_has_the_same_twin_in_every_process_and_a_changed_one_another(tmp_path: Path) -> None:
    def mode(text: str, what: str) -> str:
        (tmp_path / "passes.py").write_text(text)
        program = f"import passes; from aiflame.intra.compile_hook import Recipe; print(Recipe((('small', passes.{what}),)).mode)"
        sources = Path(compile_hook.__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": f"{sources}:{tmp_path}", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True).stdout

    first = mode(PASSES, "small")
    assert first == mode(PASSES, "small")
    assert first != mode(PASSES.replace("LIMIT = 1", "LIMIT = 2"), "small"), "what it calls or names counts, too"
    assert mode(PASSES, "to(1)") == mode(PASSES, "to(1)") != mode(PASSES, "to(2)")


def test_a_twin_is_compiled_as_its_kernel_was(program: Program) -> None:
    plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,), num_warps=8, num_stages=2)
    twin = compile_hook.twin(plain, _recipe("regions"))
    ours, theirs = twin.metadata._asdict(), plain.metadata._asdict()
    different = {name for name in theirs if ours[name] != theirs[name]}
    assert different == {"hash", "instrumentation_mode", "profile_scratch_size", "profile_scratch_align"}


def test_scopes_that_the_author_has_written_are_kept(program: Program) -> None:
    plain = intra_add.has_scopes.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    assert "%clock" not in plain.asm["ptx"]
    said = compile_hook.description(compile_hook.twin(plain, _recipe("stores")))
    assert {(row["name"], row["pass"]) for row in said["scopes"]} == {("mine", "user"), ("store at 39", "stores")}


@pytest.mark.parametrize(("bits", "reads"), [(43, 4), (32, 2)])
def test_a_clock_of_32_bits_is_read_at_once(program: Program, bits: int, reads: int) -> None:
    plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    twin = compile_hook.twin(plain, dataclasses.replace(_recipe("regions"), clock_bits=bits))
    assert len(re.findall(r"%clock", twin.asm["ptx"])) == reads
    assert compile_hook.description(twin)["clock_bits"] == bits


def test_warps_that_a_kernel_has_not_are_left_out(program: Program) -> None:
    plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
    some = dataclasses.replace(_recipe("regions"), warps=(1, 9))
    assert compile_hook.description(compile_hook.twin(plain, some))["warp_ids"] == [1]
    with pytest.raises(Refused, match="no warp"):
        compile_hook.twin(plain, dataclasses.replace(some, warps=(9,)))


def _recipe(*names: str) -> compile_hook.Recipe:
    return compile_hook.Recipe(tuple(chosen(names)))

"""How much room each warp gets for its records, in shared and in global memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

pytest.importorskip("triton")

import intra_add
import torch
from intra_program import Program, loaded, recipe_of

from aiflame.intra import compile_hook


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


class TestRoom:
    """If 12 blocks with 4 warps and 40 registers each fit, a quarter of 228 KiB is for records."""

    @pytest.mark.parametrize(
        ("kernel", "bytes_each"),
        [
            (loaded(), 4864),
            (loaded(warps=8, registers=128, shared=98_304), 17_408),
            (loaded(registers=None), 0),
            (loaded("hip", "gfx942"), 0),
            (loaded(arch=42), 0),
        ],
    )
    def test_shared_memory_holds_only_records_that_cost_no_block_its_place(self, kernel: Any, bytes_each: int) -> None:
        assert compile_hook.fitting(recipe_of("loop"), kernel, 4, 1 << 26).shared_bytes == bytes_each

    def test_is_none_where_none_is_wanted_and_all_that_there_is_where_it_must_be(self) -> None:
        recipe = recipe_of("loop")
        assert compile_hook.fitting(dataclasses.replace(recipe, shared=False), loaded(), 4, 1 << 26).shared_bytes == 0
        forced = dataclasses.replace(recipe, shared=True)
        assert compile_hook.fitting(forced, loaded(shared=230_000), 4, 1 << 26).shared_bytes == 232_448 - 230_000 - 128
        assert compile_hook.fitting(forced, loaded("hip", "gfx942", shared=60_000), 4, 1 << 26).shared_bytes == 65_536 - 60_000 - 128

    @pytest.mark.parametrize(
        ("blocks", "segment"),
        [(132, 16384), (100, 32768), (1024, 4096), (2048, 4096), (4096, 2048), (8192, 1024)],
    )
    def test_gets_smaller_where_there_are_many_blocks(self, blocks: int, segment: int) -> None:
        recipe = compile_hook.fitting(recipe_of("loop"), loaded(), blocks, 64 << 20)
        assert (recipe.segment_bytes, recipe.warps) == (segment, None)

    @pytest.mark.parametrize(
        ("blocks", "segment", "warps"), [(16_384, 1024, (0, 2)), (32_768, 512, (0, 2)), (1 << 17, 128, (0, 2)), (1 << 18, 128, (0,))]
    )
    def test_is_rather_for_fewer_warps_than_less_than_a_kibibyte(self, blocks: int, segment: int, warps: tuple[int, ...]) -> None:
        recipe = compile_hook.fitting(recipe_of("loop"), loaded(), blocks, 64 << 20)
        assert (recipe.segment_bytes, recipe.warps) == (segment, warps)

    def test_of_warps_that_there_are_not_is_none_whatever_the_grid(self) -> None:
        """The compiler says that there are none of these."""
        assert compile_hook.fitting(dataclasses.replace(recipe_of("loop"), warps=(9,)), loaded(), 1 << 20, 64 << 20).warps == (9,)

    def test_is_for_the_warps_of_all_roles(self) -> None:
        kernel = loaded(roles="partition0() num_warps(2) { } partition1() num_warps(1) { }")
        four = compile_hook.fitting(recipe_of("loop"), kernel, 1024, 64 << 20)
        assert (four.segment_bytes, four.warps) == (4096, None)

    @pytest.mark.parametrize(
        ("room", "warps", "chosen"),
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
        self, program: Program, room: int, warps: tuple[int, ...] | None, chosen: tuple[list[int], int, bool]
    ) -> None:
        plain = intra_add.sums.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
        recipe = dataclasses.replace(recipe_of("loop"), warps=warps, shared_bytes=room)
        twin = compile_hook.twin(plain, recipe)
        said = compile_hook.description(twin)
        assert (said["warp_ids"], said["segment_bytes"], said["shared"]) == chosen
        kept = len(chosen[0]) * chosen[1]
        assert int(twin.metadata.shared) == -(-int(plain.metadata.shared) // 8) * 8 + (kept if chosen[2] else 0)
        assert int(twin.metadata.profile_scratch_size) == -(-(40 + 4 * 4 + kept) // 128) * 128

    def test_of_a_kernel_without_marks_in_loops_is_no_more_than_it_fills(self, program: Program) -> None:
        plain = intra_add.add.warmup(torch.float32, torch.float32, 4096, BLOCK=256, grid=(1,))
        said = compile_hook.description(compile_hook.twin(plain, dataclasses.replace(recipe_of("regions"), shared_bytes=256)))
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

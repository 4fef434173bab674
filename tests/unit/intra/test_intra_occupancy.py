"""How many CTAs fit on a multiprocessor, and how much shared memory each can spare."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiflame.intra.occupancy import SHARED, at_once, of_cta, spare_shared

CAPABILITIES = sorted(SHARED)


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "fit"),
    [
        ("90", 128, 32, 0, 16), ("90", 256, 128, 0, 2), ("90", 256, 64, 100_000, 2), ("90", 1024, 64, 0, 1),
        ("90", 384, 168, 200_000, 1), ("80", 128, 255, 0, 2), ("86", 32, 16, 0, 16), ("42", 128, 32, 0, -1), ("90", 128, -1, 0, -1),
    ],
)  # fmt: skip
def test_how_many_ctas_fit(capability: str, threads: int, registers: int, shared: int, fit: int) -> None:
    assert at_once(capability, threads, registers, shared) == fit


@pytest.mark.parametrize(
    ("registers", "shared", "spare"),
    [
        # 228 KiB for two, one KiB of each taken by the system.
        (128, 98_304, 17_408),
        (128, 100_000, 15_616),
        # One fits by its registers: a quarter of the multiprocessor's, or all of it where that much is used already.
        (255, 0, 228 * 256),
        (255, 57_000, 228 * 256),
        (255, 60_000, 232_448 - 60_032),
        # One CTA uses all the memory that it may have.
        (255, 232_448, 0),
        # As many as there are warps for: 8 with 7,296 bytes each, a quarter of 228 KiB.
        (32, 0, 7296),
        (-1, 0, 0),
    ],
)
def test_shared_memory_that_each_can_spare(registers: int, shared: int, spare: int) -> None:
    assert spare_shared("90", 256, registers, shared) == spare


@given(st.sampled_from(CAPABILITIES), st.integers(1, 32), st.integers(1, 255), st.integers(0, 240_000))
def test_as_many_fit_when_it_is_taken(capability: str, warps: int, registers: int, shared: int) -> None:
    spare = spare_shared(capability, 32 * warps, registers, shared)
    before, after = (at_once(capability, 32 * warps, registers, shared_bytes) for shared_bytes in (shared, shared + spare))
    assert after == before
    assert not spare or shared + spare <= of_cta(capability)


def test_a_device_that_is_not_known_has_nothing_to_spare() -> None:
    assert spare_shared("42", 128, 32, 0) == 0
    assert of_cta("42") == of_cta("90")

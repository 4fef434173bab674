"""Colours: readable, distinct, and the same for a name everywhere."""

from __future__ import annotations

import colorsys
import math
from itertools import combinations

import pytest

from aiflame.attribute.tree import Kind
from aiflame.render.colors import (
    DIFF_STEPS,
    LABEL,
    SEARCH,
    SHADES,
    TONES,
    contrast,
    diff_fill,
    fill,
    limit_fills,
    oklch,
    palette_css,
    shade_of,
)

READABLE = 4.5  # WCAG AA


def hue(color: str) -> tuple[float, float]:
    """Degrees, and how saturated."""
    red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    degrees, _, saturation = colorsys.rgb_to_hls(red, green, blue)[0] * 360, None, max(red, green, blue) - min(red, green, blue)
    return degrees, saturation


def test_every_kind_has_a_tone() -> None:
    assert set(TONES) == set(Kind)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_labels_are_readable_on_every_frame(theme: str) -> None:
    fills = [fill(kind, shade, theme) for kind in Kind for shade in range(SHADES)]
    fills += [diff_fill(step, theme) for step in range(-len(DIFF_STEPS), len(DIFF_STEPS) + 1)]
    fills += limit_fills(theme)
    assert min(contrast(color, LABEL) for color in [*fills, SEARCH[theme]]) >= READABLE


LINEAR = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
"""Linear RGB as people see it, by Machado, Oliveira and Fernandes (2009)."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("eyes", LINEAR)
def test_classes_of_limits_are_told_apart_by_everybody(theme: str, eyes: str) -> None:
    def seen(color: str) -> tuple[float, ...]:
        linear = [(int(color[at : at + 2], 16) / 255) ** 2.2 for at in (1, 3, 5)]
        mixed = [sum(part * value for part, value in zip(row, linear, strict=True)) for row in LINEAR[eyes]]
        return tuple(255 * max(part, 0.0) ** (1 / 2.2) for part in mixed)

    colors = [seen(color) for color in limit_fills(theme)]
    assert min(math.dist(one, other) for one, other in combinations(colors, 2)) > 25


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (Kind.PYTHON, 320, 350),
        (Kind.C, -5, 16),
        (Kind.CPP, 40, 60),
        (Kind.OS_KERNEL, 20, 38),
        (Kind.GPU_KERNEL, 170, 196),
        (Kind.GPU_LINE, 170, 196),
        (Kind.GPU_COPY, 200, 220),
        (Kind.GPU_INSTRUCTION, 80, 150),
        (Kind.GPU_STALL, 70, 150),
        (Kind.GPU_OFFSET, 80, 165),
        (Kind.CPU_INSTRUCTION, 80, 150),
        (Kind.REGION, 240, 290),
        (Kind.LAYER, 240, 295),
    ],
)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_kind_keeps_to_its_hue(kind: Kind, low: float, high: float, theme: str) -> None:
    for shade in range(SHADES):
        degrees, saturation = hue(fill(kind, shade, theme))
        assert low <= (degrees - 360 if degrees > 350 else degrees) <= high
        assert saturation > 0.1


@pytest.mark.parametrize("kind", [Kind.BOUNDARY, Kind.UNATTRIBUTED])
def test_a_frame_without_a_kind_is_gray(kind: Kind) -> None:
    assert all(hue(fill(kind, shade, "light"))[1] < 0.03 for shade in range(SHADES))


def test_a_name_has_one_shade_and_names_differ() -> None:
    shades = shade_of(f"function_{number}" for number in range(200))
    assert shades == shade_of(f"function_{number}" for number in range(200))
    assert set(shades) == set(range(SHADES))
    assert shade_of(["gemm"]) == [4]


def test_shades_of_a_kind_differ() -> None:
    assert len({fill(Kind.PYTHON, shade, "light") for shade in range(SHADES)}) == SHADES


def test_a_difference_goes_from_blue_over_gray_to_red() -> None:
    reach = len(DIFF_STEPS)
    assert 200 < hue(diff_fill(-reach, "light"))[0] < 240
    assert hue(diff_fill(0, "light"))[1] < 0.01
    assert hue(diff_fill(reach, "light"))[0] < 16
    depths = [hue(diff_fill(step, "light"))[1] for step in range(reach + 1)]
    assert depths == sorted(depths)


def test_oklch_knows_white_and_black_and_red() -> None:
    assert (oklch(1, 0, 0), oklch(0, 0, 0)) == ("#ffffff", "#000000")
    assert oklch(0.628, 0.2577, 29.23) == "#ff0000"


def test_contrast_is_wcags() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("differential", [True, False])
def test_every_class_has_a_rule(differential: bool) -> None:
    rules = palette_css("light", None if differential else list(Kind))
    count = 2 * len(DIFF_STEPS) + 1 if differential else len(Kind) * SHADES
    assert all(f".s{number}{{" in rules for number in range(count))

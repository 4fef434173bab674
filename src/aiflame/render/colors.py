"""Colours of frames: a hue for each kind, a stable shade for each name, both readable in light and in dark themes.

Colours are given in OKLCH, where equal steps look equal, and converted to sRGB here; labels are near-black in both themes.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Iterable

from aiflame.attribute.tree import Kind
from aiflame.values import dataclass

SHADES = 6
LABEL = "#141519"
SEARCH = {"light": "#ee4fe4", "dark": "#f062e8"}
DIFF_STEPS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.95)
"""A change below the first step has no colour; each further step is one shade deeper."""


LIMIT_TONES = ((0.70, 0.175, 42.0), (0.79, 0.130, 62.0), (0.90, 0.085, 98.0), (0.81, 0.085, 240.0), (0.69, 0.140, 252.0))
"""OKLCH of the classes of a share of a limit, from below 20% to 80% or more: orange to blue over a pale yellow, which people who see few
colours can distinguish, too."""
NO_LIMIT = (0.87, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Tone:
    """A kind's colour in OKLCH (light theme) and its name in the legend."""

    label: str
    lightness: float
    chroma: float
    hue: float


TONES: dict[Kind, Tone] = {
    Kind.ROOT: Tone("all", 0.88, 0.006, 260),
    Kind.PROCESS: Tone("process", 0.80, 0.035, 262),
    Kind.THREAD: Tone("thread", 0.86, 0.030, 255),
    Kind.STEP: Tone("step", 0.84, 0.055, 278),
    Kind.PHASE: Tone("phase", 0.78, 0.090, 288),
    Kind.REGION: Tone("region", 0.75, 0.120, 298),
    Kind.LAYER: Tone("layer", 0.80, 0.095, 306),
    Kind.OP: Tone("op", 0.87, 0.070, 318),
    Kind.FAMILY: Tone("family or category", 0.82, 0.075, 182),
    Kind.PYTHON: Tone("Python", 0.82, 0.105, 354),
    Kind.C: Tone("C", 0.72, 0.155, 26),
    Kind.CPP: Tone("C++", 0.88, 0.140, 95),
    Kind.CPU_LINE: Tone("CPU source line", 0.91, 0.065, 82),
    Kind.OS_KERNEL: Tone("OS kernel", 0.79, 0.145, 62),
    Kind.WAIT: Tone("waiting", 0.80, 0.060, 235),
    Kind.BOUNDARY: Tone("launch", 0.76, 0.0, 0),
    Kind.GPU_KERNEL: Tone("GPU kernel", 0.84, 0.105, 198),
    Kind.GPU_SCOPE: Tone("inside a GPU kernel", 0.86, 0.085, 170),
    Kind.GPU_LINE: Tone("GPU source line", 0.90, 0.075, 196),
    Kind.GPU_COPY: Tone("GPU copy", 0.78, 0.115, 250),
    Kind.CPU_INSTRUCTION: Tone("CPU instruction", 0.82, 0.130, 140),
    Kind.GPU_INSTRUCTION: Tone("GPU instruction", 0.80, 0.150, 146),
    Kind.GPU_STALL: Tone("stall", 0.85, 0.160, 128),
    Kind.GPU_OFFSET: Tone("offset", 0.89, 0.095, 150),
    Kind.GPU_IDLE: Tone("GPU idle", 0.92, 0.022, 235),
    Kind.UNATTRIBUTED: Tone("unattributed", 0.91, 0.0, 0),
}
"""The tone of each kind, in the order of the legend."""
_PALE = (Kind.GPU_IDLE, Kind.UNATTRIBUTED)
"""Idle time and unknown code have colours near the page's own in both themes."""


def shade_of(names: Iterable[str]) -> list[int]:
    """A shade for each name: the same in every file and every run."""
    return [zlib.crc32(name.encode("utf-8", "replace")) % SHADES for name in names]


def kind_class(kind: int, shade: int) -> int:
    """The number in a frame's CSS class."""
    return kind * SHADES + shade


def fill(kind: Kind, shade: int, theme: str) -> str:
    tone = TONES[kind]
    step = shade / (SHADES - 1) - 0.5
    lightness = tone.lightness + 0.045 * step
    chroma = tone.chroma * (1 + 0.18 * step)
    if theme == "dark":
        lightness, chroma = (lightness - 0.30, chroma) if kind in _PALE else (lightness - 0.065, chroma * 0.95)
        lightness = max(lightness, 0.61)
    return oklch(lightness, chroma, tone.hue + 10 * step)


def diff_fill(step: int, theme: str) -> str:
    """`step` from -len(DIFF_STEPS) (removed, deep blue) through 0 (no change) to +len(DIFF_STEPS) (new, deep red)."""
    depth = abs(step) / len(DIFF_STEPS)
    calm = 0.905 if theme == "light" else 0.80
    return oklch(calm - (calm - 0.66) * depth, 0.175 * depth, 25 if step > 0 else 255)


def limit_fills(theme: str) -> list[str]:
    """The colours of the classes of a share of a limit; the last is for frames without a known limit."""
    dim = 0.065 if theme == "dark" else 0.0
    tones = [(max(lightness - dim, 0.61), chroma, hue) for lightness, chroma, hue in LIMIT_TONES]
    unknown = (0.62, 0.0, 0.0) if theme == "dark" else NO_LIMIT
    return [oklch(*tone) for tone in (*tones, unknown)]


def palette_css(theme: str, kinds: Iterable[int] | None, *, limits: bool = False) -> str:
    """The rules that fill frames of some kinds; None: frames of a differential graph. `limits`: by their share of the limit instead."""
    if limits:
        rules = [f".s{place}{{fill:{color}}}" for place, color in enumerate(limit_fills(theme))]
    elif kinds is None:
        reach = len(DIFF_STEPS)
        rules = [f".s{step + reach}{{fill:{diff_fill(step, theme)}}}" for step in range(-reach, reach + 1)]
    else:
        rules = [f".s{kind_class(kind, shade)}{{fill:{fill(kind, shade, theme)}}}" for kind in map(Kind, kinds) for shade in range(SHADES)]
    rules.append(f".match{{fill:{SEARCH[theme]}}}")
    return "\n".join(rules)


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two #rrggbb colours."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@functools.cache
def oklch(lightness: float, chroma: float, hue: float) -> str:
    """#rrggbb, with less chroma if sRGB lacks the colour. https://bottosson.github.io/posts/oklab/"""
    while True:
        red, green, blue = _linear_srgb(lightness, chroma, math.radians(hue))
        if chroma <= 0 or all(-0.0005 <= part <= 1.0005 for part in (red, green, blue)):
            return "#" + "".join(f"{_encode(part):02x}" for part in (red, green, blue))
        chroma = max(0.0, chroma - 0.004)


def _linear_srgb(lightness: float, chroma: float, radians: float) -> tuple[float, float, float]:
    a, b = chroma * math.cos(radians), chroma * math.sin(radians)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _encode(part: float) -> int:
    part = min(max(part, 0.0), 1.0)
    return round(255 * (12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055))

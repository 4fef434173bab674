"""docs/limits.md has the peaks of each device, as they are reckoned with."""

from __future__ import annotations

from pathlib import Path

from aiflame.attribute.limits.peaks import DEVICES, Peaks, peaks

PAGE = (Path(__file__).parents[4] / "docs/limits.md").read_text(encoding="utf-8")


def row(name: str, of: Peaks) -> str:
    figures = (of.bf16, of.tf32, of.fp8, of.fp64, of.fp32)
    return f"| {name} | {of.memory / 1e12:g} | {' | '.join(f'{one / 1e12:g}' if one else '–' for one in figures)} | {of.source} |"


def test_the_page_has_the_figures_of_each_device() -> None:
    listed = [line for line in PAGE.partition("| source |\n")[2].splitlines()[1:] if line.startswith("| ")]
    names = [line.split(" | ")[0].removeprefix("| ") for line in listed]
    reckoned = [peaks(f"NVIDIA {name}") for name in names]
    assert reckoned == [of for _, of in DEVICES]
    assert listed == [row(name, of) for name, of in zip(names, reckoned, strict=True) if of is not None]

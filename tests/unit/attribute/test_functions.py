"""The functions of a profile's stacks."""

from __future__ import annotations

from pathlib import Path

from profiles import python, sealed

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.stacks.functions import functions
from aiflame.resolve.symbols import resolve


def test_functions_come_in_the_order_of_the_stacks(tmp_path: Path) -> None:
    """So one profile makes the same report each time."""
    names = [f"f{number}" for number in range(60)]
    profile = sealed(
        tmp_path / "p",
        processes=[{}],
        codes=[{"process": 0, "qualname": name, "filename": "a.py"} for name in names],
        stacks=[{"process": 0, "parent": number, "frame": python(number + 1, 0)} for number in range(len(names))],
    )
    resolve(profile)
    frames = functions(Analysis.of(profile)).frames["name"].to_list()
    assert [name for name in frames if name in names] == names

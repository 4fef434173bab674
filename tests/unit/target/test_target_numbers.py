"""Python that runs inside the program imports nothing of ours: the numbers that it repeats are those of `profile/schema/`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import aiflame
from aiflame.profile.schema import control_schema, enums

TARGET = Path(aiflame.__file__).parent / "target"
REPEATED = re.compile(r'^([A-Z_, ]+) = ([0-9, ]+)\n"""((?:\w+\.\w+(?:, )?)+)"""$', re.MULTILINE)
"""`A, B = 1, 2` with a comment that says of which codes they are."""
FOUND = [
    (path.name, name, int(number))
    for path in sorted(TARGET.glob("*.py"))
    for match in REPEATED.finditer(path.read_text())
    for name, number in zip(match[3].split(", "), match[2].split(","), strict=True)
]


@pytest.mark.parametrize(("file", "name", "number"), FOUND)
def test_a_repeated_number_is_that_of_the_code(file: str, name: str, number: int) -> None:
    enum, member = name.split(".")
    assert (getattr(enums, enum, None) or getattr(control_schema, enum))[member] == number


def test_there_are_some() -> None:
    assert {name for _, name, _ in FOUND} >= {"Feature.KEEP_IR", "Feature.TRACE_TORCH", "CallBackend.TORCH"}

"""constraints.txt: every package that the Makefile installs has one release."""

from __future__ import annotations

import re
from pathlib import Path

import pins
import pytest

ROOT = Path(__file__).resolve().parents[3]

VARIABLE = re.compile(r"^(PACKAGES|BUILD_TOOLS|TOOLS|HEADERS|TEST_PACKAGES|SITE_TOOLS|HOOK_TOOLS) [:+]= (.*)", re.MULTILINE)
LINE = re.compile(r"([a-z0-9-]+)==[\w.]+(?: ; (python_version [<>]=? \"3\.\d+\"(?: and )?)+)?")


def requirements() -> list[str]:
    return [word for _, words in VARIABLE.findall((ROOT / "Makefile").read_text()) for word in words.split()]


def pinned() -> list[str]:
    return [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


def test_every_package_of_the_makefile_has_a_pin() -> None:
    names = {line.partition("==")[0] for line in pinned()}
    without = [one for one in requirements() if pins.canonical(one.partition("==")[0]) not in names and not re.search(r"==[\d.]+$", one)]
    assert len(requirements()) > 30 and not without, f"`make pins` pins {without}"


def test_a_pin_is_a_name_and_a_release() -> None:
    assert [line for line in pinned() if not LINE.fullmatch(line)] == []


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        ({"3.10": "2.0", "3.11": "2.0"}, ["a==2.0"]),
        ({"3.11": "2.0"}, ["a==2.0"]),
        ({"3.10": "1.0", "3.11": "2.0", "3.12": "2.0"}, ['a==1.0 ; python_version < "3.11"', 'a==2.0 ; python_version >= "3.11"']),
        (
            {"3.10": "1", "3.11": "2", "3.12": "3"},
            [
                'a==1 ; python_version < "3.11"',
                'a==2 ; python_version >= "3.11" and python_version < "3.12"',
                'a==3 ; python_version >= "3.12"',
            ],
        ),
    ],
)
def test_every_python_finds_one_release(releases: dict[str, str], expected: list[str]) -> None:
    assert pins.lines("a", releases) == expected

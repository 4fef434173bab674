"""A stack takes over from the last one what is the same, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from live import EVERYTHING, Outcome, Process, plain, processes

from aiflame.profile.codes import FrameKind
from aiflame.profile.control import ControlPage

LIBRARY = Path(os.environ.get("AIFLAME_TEST_PROGRAMS", Path(__file__).parents[2] / "build/dev/tests/collector")) / "liblaunch_capture.so"
PROGRAM = Path(__file__).with_name("capture_scenes.py")

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"no {LIBRARY}: `make test` builds it")

Launches = Callable[[str], tuple[Process, list[int]]]


@pytest.fixture
def launches(tmp_path: Path) -> Launches:
    """A scene's process, and the stacks of its launches in their order."""

    def run(scene: str) -> tuple[Process, list[int]]:
        profile = tmp_path / "p"
        (profile / "spool").mkdir(parents=True)
        ControlPage.create(profile, features=EVERYTHING).close()
        assert plain([sys.executable, PROGRAM, LIBRARY, profile, scene], tmp_path) == Outcome(0, "", "")
        (process,) = processes(profile)
        return process, process.table("launches")["stack"].to_list()

    return run


def python_of(process: Process, stack: int) -> list[tuple[str, int]]:
    """Functions and offsets in them, outermost first."""
    nodes = {row: (parent, frame) for row, parent, frame in process.table("stacks").select("id", "parent", "frame").iter_rows()}
    codes = dict(process.table("codes").select("id", "qualname").iter_rows())
    found = []
    while stack:
        stack, frame = nodes[stack]
        if frame >> 60 == FrameKind.PYTHON:
            found.append((str(codes[frame >> 32 & 0xFFFFFFF]).split(".")[-1], frame & 0xFFFFFFFF))
    return found[::-1]


def test_code_that_comes_and_goes_at_one_address(launches: Launches) -> None:
    process, stacks = launches("codes")
    names = [[name for name, _ in python_of(process, stack)] for stack in stacks]
    assert names == [["<module>", "codes", f"made_{number:03}", "inside", "launch"] for number in range(100)]


def test_code_that_is_replaced_at_one_address(launches: Launches) -> None:
    process, stacks = launches("replaced")
    names = [[name for name, _ in python_of(process, stack)] for stack in stacks]
    assert names == [["<module>", "replaced", f"made_{number:03}", "launch"] for number in range(100)]


def test_callers_that_take_turns(launches: Launches) -> None:
    process, stacks = launches("callers")
    names = [[name for name, _ in python_of(process, stack)] for stack in stacks]
    assert names == [["<module>", "callers", ("even", "odd")[number % 2], "common", "launch"] for number in range(100)]
    assert len(set(stacks)) == 2


def test_two_lines_of_a_function(launches: Launches) -> None:
    process, stacks = launches("lines")
    assert stacks == stacks[:2] * 50
    first, second = (python_of(process, stack) for stack in stacks[:2])
    assert [name for name, _ in first] == [name for name, _ in second]
    assert [here == there for here, there in zip(first, second, strict=True)] == [True, False, True]


def test_two_places_of_a_native_function(launches: Launches) -> None:
    process, stacks = launches("native")
    assert stacks == stacks[:2] * 50
    assert stacks[0] != stacks[1]
    assert python_of(process, stacks[0]) == python_of(process, stacks[1])


def test_stacks_of_many_depths(launches: Launches) -> None:
    process, stacks = launches("depths")
    depths = [sum(name == "deeper" for name, _ in python_of(process, stack)) for stack in stacks]
    assert depths == [number * 7 % 30 + 1 for number in range(100)]
    assert len(set(stacks)) == 30

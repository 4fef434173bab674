"""A stack reuses exactly those frames of the last one that are the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from capture_ways import Way, ways
from live import EVERYTHING, Outcome, Process, plain, processes

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.enums import FrameKind
from built import BUILT
from interpreters import VERSIONS, interpreter

LIBRARY = BUILT / "liblaunch_capture.so"
PROGRAM = Path(__file__).with_name("capture_scenes.py")

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"no {LIBRARY}: `make test` builds it")

Launches = Callable[[str], tuple[Process, list[int]]]


@pytest.fixture(params=VERSIONS)
def launches(tmp_path: Path, request: pytest.FixtureRequest) -> Launches:
    """A scene's process, and the stacks of its launches in their order."""
    python = interpreter(request.param)
    if not python:
        pytest.skip(f"no CPython {request.param} here")

    def run(scene: str) -> tuple[Process, list[int]]:
        profile = tmp_path / "p"
        (profile / "spool").mkdir(parents=True)
        ControlPage.create(Folder.open(profile), features=EVERYTHING).close()
        assert plain([python, PROGRAM, LIBRARY, profile, scene], tmp_path) == Outcome(0, "", "")
        (process,) = processes(profile)
        return process, process.table("launches")["stack"].to_list()

    return run


def python_of(process: Process, stack: int) -> list[tuple[str, int]]:
    """Functions and offsets in them, outermost first."""
    nodes = {row: (parent, frame) for row, parent, frame in process.table("stacks").select("id", "parent", "frame").iter_rows()}
    codes = dict(process.table("codes").select("id", "qualname").iter_rows())
    frames = []
    while stack:
        stack, frame = nodes[stack]
        if frame >> 60 == FrameKind.PYTHON:
            frames.append((str(codes[frame >> 32 & 0xFFFFFFF]).split(".")[-1], frame & 0xFFFFFFFF))
    return frames[::-1]


def layers_of(process: Process, stack: int) -> list[tuple[int, str]]:
    """Addresses and types of the modules whose calls are in it, outermost first."""
    nodes = {row: (parent, frame) for row, parent, frame in process.table("stacks").select("id", "parent", "frame").iter_rows()}
    layers = {row: (address, str(name)) for row, address, name in process.table("layers").select("id", "address", "type").iter_rows()}
    frames = []
    while stack:
        stack, frame = nodes[stack]
        if frame >> 60 == FrameKind.LAYER:
            frames.append(layers[frame & 0xFFFFFFFF])
    return frames[::-1]


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


def test_stacks_that_are_known_by_heart(launches: Launches) -> None:
    process, stacks = launches("shuffled")
    way_of_stack: dict[int, Way] = {}
    for stack, way in zip(stacks, ways(), strict=True):
        assert way_of_stack.setdefault(stack, way) == way
    assert sorted(way_of_stack.values()) == sorted(set(ways()))
    for stack, (caller, _, _, depth) in way_of_stack.items():
        names = [name for name, _ in python_of(process, stack)]
        assert names == ["<module>", "shuffled", ("even", "odd")[caller], *["common"] * (depth + 1), "launch"]
    lines = {line: {python_of(process, stack)[-2][1] for stack, way in way_of_stack.items() if way[1] == line} for line in (0, 1)}
    assert len(lines[0]) == len(lines[1]) == 1
    assert lines[0] != lines[1]


def test_code_that_is_replaced_under_a_stack_that_is_known(launches: Launches) -> None:
    process, stacks = launches("replaced_and_repeated")
    names = [python_of(process, stack)[-2][0] for stack in stacks]
    assert names[::2] == ["steady"] * 300
    assert names[1::2] == [f"made_{number // 6:03}" for number in range(300)]


@pytest.mark.parametrize("scene", ["layers", "celled_layers"])
def test_modules_that_take_turns(launches: Launches, scene: str) -> None:
    process, stacks = launches(scene)
    rows = [layers_of(process, stack) for stack in stacks]
    assert all(len(row) == 1 for row in rows)
    assert rows == [rows[0], rows[1], rows[2], rows[1], rows[0], rows[2]] * 20
    assert [type_name for ((_, type_name),) in rows[:3]] == ["First", "First", "Second"]
    assert rows[0] != rows[1]


def test_modules_at_one_address(launches: Launches) -> None:
    process, stacks = launches("layers_that_go")
    types = [type_name for stack in stacks for _, type_name in layers_of(process, stack)]
    assert types == [("First", "Second")[number // 4 % 2] for number in range(120)]


def test_most_stacks_are_known_at_a_glance(launches: Launches) -> None:
    _, stacks = launches("known")
    assert stacks == stacks[:10] * 20
    assert len(set(stacks)) == 10


def test_a_program_with_limited_memory_keeps_it(launches: Launches) -> None:
    _, stacks = launches("limited")
    assert stacks == stacks[:10] * 5
    assert len(set(stacks)) == 10


def test_a_capture_left_by_a_jump_leaves_no_state_behind(launches: Launches) -> None:
    launches("left")


def test_a_launch_that_comes_alone_is_known(launches: Launches) -> None:
    _, stacks = launches("from_one_place")
    assert stacks == stacks[:1] * 20


def test_alternating_successors_of_a_launch_are_recognized(launches: Launches) -> None:
    _, stacks = launches("in_turns")
    assert stacks == stacks[:24] * 20
    assert len(set(stacks)) == 13


def test_memory_of_frames_that_are_gone_is_not_looked_at(launches: Launches) -> None:
    _, stacks = launches("unlinked")
    assert len(stacks) == 3000
    assert len(set(stacks)) == 2


def test_callers_of_a_function_that_aligns_its_stack(launches: Launches) -> None:
    _, stacks = launches("aligned")
    stack_of_turn = {(number * 7 + number // 5) % 4: stack for number, stack in enumerate(stacks)}
    assert len(set(stack_of_turn.values())) == len(stack_of_turn) == 4
    assert stacks == [stack_of_turn[(number * 7 + number // 5) % 4] for number in range(400)]

"""How long each phase of each step took."""

from __future__ import annotations

import json

import polars as pl
import pytest
from rich.console import Console

from aiflame.analyze.phases import WHOLE, over_steps, phase_times
from aiflame.analyze.top import to_json, top
from aiflame.attribute.tree import GPU_TIME, Frame, Kind, Tree, from_stacks
from aiflame.errors import AiflameError
from aiflame.render.terminal.top_table import print_steps

FIRST, SECOND = Frame("a.py (1)", Kind.PROCESS), Frame("a.py (2)", Kind.PROCESS)
FORWARD, BACKWARD = Frame("Forward", Kind.PHASE), Frame("Backward", Kind.PHASE)
LAYER, ATTN, OP = Frame("layers.0", Kind.LAYER), Frame("attn", Kind.LAYER), Frame("aten::mm", Kind.OP)
KERNEL, IDLE = Frame("gemm", Kind.GPU_KERNEL), Frame("[GPU idle]", Kind.GPU_IDLE)


def step(number: int) -> Frame:
    return Frame(f"Step.{number}", Kind.STEP)


def tree() -> Tree:
    stacks = [
        ((FIRST, step(0), FORWARD, LAYER, ATTN, OP, KERNEL), 10),
        ((FIRST, step(0), FORWARD, LAYER, OP, KERNEL), 20),
        ((FIRST, step(0), BACKWARD, KERNEL), 50),
        ((FIRST, step(10), FORWARD, LAYER, ATTN, KERNEL), 40),
        ((SECOND, step(0), FORWARD, KERNEL), 60),
        ((FIRST, Frame("[no step]", Kind.UNATTRIBUTED), FORWARD, KERNEL), 5),
        ((FIRST, IDLE), 1000),
    ]
    return from_stacks(stacks, GPU_TIME)


def test_each_phase_of_each_step_has_its_time() -> None:
    assert phase_times(tree()).rows() == [
        ("a.py (1)", 0, "Backward", 50),
        ("a.py (1)", 0, "Forward", 30),
        ("a.py (1)", 10, "Forward", 40),
        ("a.py (1)", None, "Forward", 5),
        ("a.py (2)", 0, "Forward", 60),
    ]


def test_over_all_steps_a_phase_that_a_step_has_not_counts_as_nothing() -> None:
    assert over_steps(phase_times(tree())).rows() == [
        (WHOLE, 3, 180, 40, 60, 80),
        ("Forward", 3, 130, 30, 40, 60),
        ("Backward", 3, 50, 0, 0, 50),
    ]


def test_steps_are_printed_with_their_phases() -> None:
    console = Console(width=80, record=True)
    print_steps(over_steps(phase_times(tree())), GPU_TIME, console)
    lines = [line.split() for line in console.export_text().splitlines()]
    assert lines[1] == ["180", "ns", "40", "ns", "60", "ns", "80", "ns", "Step", "(3", "steps)"]
    assert lines[3] == ["50", "ns", "0", "ns", "0", "ns", "50", "ns", "Backward"]


def rows(by: str) -> dict[str, tuple[int, int]]:
    return {name: (own, total) for name, own, total in top(tree(), by).select("name", "self", "total").rows()}


def test_layers_are_listed_by_their_whole_paths_and_hold_those_inside_them() -> None:
    outside = (165 - 50 + 50 - 50, 165 - 50 + 50 - 50)
    assert rows("layer") == {"[GPU idle]": (1000, 1000), "[no layer]": outside, "layers.0": (20, 70), "layers.0.attn": (50, 50)}


def test_the_same_step_of_two_processes_is_one_row() -> None:
    frames = rows("step")
    assert frames == {"[GPU idle]": (1000, 1000), "Step.0": (140, 140), "Step.10": (40, 40), "[no step]": (5, 5)}


def test_the_json_of_steps_has_their_total() -> None:
    answer = json.loads(to_json(top(tree(), "step"), tree(), "gpu-time", 1, over_steps(phase_times(tree()))))
    assert answer["steps"][0] == {"phase": "", "steps": 3, "total": 180, "min": 40, "median": 60, "max": 80}
    assert [row["kind"] for row in answer["rows"]] == ["gpu_idle"]


@pytest.mark.parametrize(
    ("by", "says"),
    [("step", "nothing in it clearly repeats"), ("region", "the program marked no region"), ("op", "no op of torch is known")],
)
def test_an_unknown_list_is_refused(by: str, says: str) -> None:
    with pytest.raises(AiflameError, match=says):
        top(from_stacks([((FIRST, KERNEL), 1)], GPU_TIME), by)


def test_nothing_has_no_steps() -> None:
    assert over_steps(phase_times(from_stacks([], GPU_TIME))).is_empty()
    assert phase_times(from_stacks([], GPU_TIME)).schema == {"process": pl.String, "step": pl.Int64, "phase": pl.String, "value": pl.Int64}

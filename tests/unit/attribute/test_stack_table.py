"""The stacks of a profile as one table: where each is, who called it, and the nearest marked one above it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from profiles import native, python, sealed

from aiflame.attribute.stacks.table import StackTable, outermost_layers, stack_table
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.tables.store import Profile

LAYER = FrameKind.LAYER << 60
WORDS = [python(1, 0), LAYER | 5, python(2, 0), LAYER | 6, native(1, 0x40)]


def numbers(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def profile(path: Path, *callers: int) -> Profile:
    """Process 0 has a stack of one frame, process 1 one stack for each word."""
    rows = [{"process": 1, "parent": parent, "frame": word} for parent, word in zip(callers or range(5), WORDS, strict=False)]
    return sealed(path / "p", processes=[{}, {}], stacks=[*rows, {"process": 0, "frame": python(1, 4)}])


def table(path: Path, *callers: int) -> StackTable:
    return stack_table(profile(path, *callers))


def test_stacks_are_sorted_and_each_knows_the_row_of_its_caller(tmp_path: Path) -> None:
    stacks = table(tmp_path)
    assert stacks.rows["process"].to_list() == [0, 1, 1, 1, 1, 1]
    assert stacks.caller.tolist() == [-1, -1, 1, 2, 3, 4]
    assert stacks.parent.tolist() == [-1, 0, 0, 2, 3, 4, 5]
    assert stacks.words.tolist() == [python(1, 4), *WORDS]


def test_a_caller_that_comes_later_is_never_followed(tmp_path: Path) -> None:
    assert table(tmp_path, 3, 1, 2, 9).caller.tolist() == [-1, -1, 1, 2, -1]


def test_stacks_are_found_by_process_and_id(tmp_path: Path) -> None:
    stacks = table(tmp_path)
    assert stacks.keys.find(numbers(1, 0, 0, 2), numbers(5, 1, 2, 1)).tolist() == [5, 0, -1, -1]
    assert stacks.keys.at(numbers(7, 1, 2, 3, 4, 5), numbers(1, 0, 0), numbers(5, 1, 2)).tolist() == [5, 7, 0]


def test_the_nearest_marked_stack_at_or_above_each(tmp_path: Path) -> None:
    stacks = table(tmp_path)
    marked = np.array([False, True, False, True, False, False])
    assert stacks.nearest(marked).tolist() == [-1, 1, 1, 3, 3, 3]
    assert stacks.nearest(marked, strict=True).tolist() == [-1, -1, 1, 1, 3, 3]


def test_the_outermost_layer_of_a_stack(tmp_path: Path) -> None:
    assert outermost_layers(profile(tmp_path)).tolist() == [0, 0, 5, 5, 5, 5]


def test_stacks_of_the_first_processes_alone(tmp_path: Path) -> None:
    stacks = table(tmp_path)
    assert stacks.of_processes_before(2) is stacks
    assert stacks.of_processes_before(1).keys.key.tolist() == [1]


def test_a_profile_without_stacks_has_an_empty_table(tmp_path: Path) -> None:
    empty = sealed(tmp_path / "p")
    stacks = stack_table(empty)
    assert stacks.keys.find(numbers(0), numbers(1)).tolist() == [-1]
    assert outermost_layers(empty).tolist() == stacks.nearest(np.zeros(0, dtype=np.bool_)).tolist() == []

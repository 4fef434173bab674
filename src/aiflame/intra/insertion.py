"""Marks go into a kernel: by the compiler's builder, and never as text.

A builder can be put behind an operation or at the start of a block. All places are therefore given by the operations that were there
before anything was inserted, and marks of one place go in from the last to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiflame.intra.ops import Op
from aiflame.intra.passes import Scope


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    start: bool


def insert(scopes: Sequence[Scope], builder: Any, record: Any) -> list[str]:
    """Puts the start and end of each scope into the kernel; `record(builder, is_start, name)` makes a mark. Returns the marks' names, in
    the order of scopes."""
    names = [f"aiflame{number}" for number in range(len(scopes))]
    for (block_op, index), marks in _places(scopes, names).items():
        for mark in reversed(marks):
            if index == 0:
                builder.set_insertion_point_to_start(block_op.block)
            else:
                builder.set_insertion_point_after(block_op.siblings[index - 1].raw)
            record(builder, mark.start, mark.name)
    return names


def _places(scopes: Sequence[Scope], names: Sequence[str]) -> dict[tuple[Op, int], list[Mark]]:
    """(First operation of a block, how many operations of the block stand before) → marks, from the first to the last. At one place
    scopes end before others start; of those that start together the longest comes first, and of those that end together the shortest."""
    ends: dict[tuple[Op, int], list[tuple[int, int, Mark]]] = {}
    starts: dict[tuple[Op, int], list[tuple[int, int, Mark]]] = {}
    for number, (scope, name) in enumerate(zip(scopes, names, strict=True)):
        block = scope.first.siblings[0]
        length = scope.last.index - scope.first.index
        starts.setdefault((block, scope.first.index), []).append((-length, number, Mark(name, True)))
        ends.setdefault((block, scope.last.index + 1), []).append((length, -number, Mark(name, False)))
    return {
        place: [mark for _, _, mark in sorted(ends.get(place, []), key=_order)]
        + [mark for _, _, mark in sorted(starts.get(place, []), key=_order)]
        for place in ends.keys() | starts.keys()
    }


def _order(row: tuple[int, int, Mark]) -> tuple[int, int]:
    return row[:2]

"""Marks go into a kernel: by the compiler's builder, and never as text.

A builder can be put behind an operation or at the start of a block. All places are therefore given by the operations that were there
before anything was inserted, and marks of one place go in from the last to the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiflame.intra.ops import Op
from aiflame.intra.passes import Scope


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    start: bool
    needs: tuple[Op, ...] = ()


def insert(scopes: Sequence[Scope], builder: Any, record: Any, until_there: Callable[[Any, Op], None] | None = None) -> list[str]:
    """Puts the start and end of each scope into the kernel; `record(builder, is_start, name)` makes a mark, `until_there(builder, op)` what
    a warp does not pass before a value is there. Returns the marks' names, in the order of scopes."""
    names = [f"aiflame{number}" for number in range(len(scopes))]
    for (block_op, index), marks in _places(scopes, names).items():
        for mark in reversed(marks):
            _go(builder, block_op, index)
            record(builder, mark.start, mark.name)
            for op in mark.needs if until_there is not None else ():
                _go(builder, block_op, index)
                until_there(builder, op)  # type: ignore[misc]
    return names


def _go(builder: Any, block_op: Op, index: int) -> None:
    if index == 0:
        builder.set_insertion_point_to_start(block_op.block)
    else:
        builder.set_insertion_point_after(block_op.siblings[index - 1].raw)


def until_there(builder: Any, op: Op) -> None:
    """For NVIDIA's assembler, which moves arithmetic across clock reads, but no event of the performance monitor. This one is never
    triggered but by one value of each register, and changes nothing then."""
    value = op.raw.get_result(0)
    element = re.match(r"tensor<(?:\d+x)+([^,>]+)", str(value.get_type()))
    bits = _BITS.get(element[1], 0) if element else 0
    if not bits:
        return
    constraint = "f" if element is not None and element[1] == "f32" else "r"
    passed_on = " ".join(f"mov.b32 ${at}, ${at + _REGISTERS};" for at in range(_REGISTERS))
    text = f"{{ .reg .pred p; .reg .b32 t; mov.b32 t, ${_REGISTERS}; setp.eq.b32 p, t, 0x7fffdead; @p pmevent 7; {passed_on} }}"
    constraints = ",".join([f"={constraint}"] * _REGISTERS + [constraint] * _REGISTERS)
    builder.create_inline_asm(text, constraints, [value], [value.get_type()], False, _REGISTERS * 32 // bits)


_REGISTERS = 4
"""What one load instruction brings."""
_BITS = {"f32": 32, "i32": 32, "f16": 16, "bf16": 16, "i16": 16, "i8": 8, "f8E4M3FN": 8, "f8E5M2": 8}


def _places(scopes: Sequence[Scope], names: Sequence[str]) -> dict[tuple[Op, int], list[Mark]]:
    """(First operation of a block, how many operations of the block stand before) → marks, from the first to the last. At one place
    scopes end before others start; of those that start together the longest comes first, and of those that end together the shortest."""
    ends: dict[tuple[Op, int], list[tuple[int, int, Mark]]] = {}
    starts: dict[tuple[Op, int], list[tuple[int, int, Mark]]] = {}
    for number, (scope, name) in enumerate(zip(scopes, names, strict=True)):
        block = scope.first.siblings[0]
        length = scope.last.index - scope.first.index
        starts.setdefault((block, scope.first.index), []).append((-length, number, Mark(name, True)))
        ends.setdefault((block, scope.last.index + 1), []).append((length, -number, Mark(name, False, scope.needs)))
    return {
        place: [mark for _, _, mark in sorted(ends.get(place, []), key=_order)]
        + [mark for _, _, mark in sorted(starts.get(place, []), key=_order)]
        for place in ends.keys() | starts.keys()
    }


def _order(row: tuple[int, int, Mark]) -> tuple[int, int]:
    return row[:2]

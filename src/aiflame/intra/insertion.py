"""Inserts marks into a kernel with the compiler's builder, never as text.

A builder can insert after an operation or at the start of a block. So all places are given by the original operations, and the marks of
one place are inserted from the last to the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from aiflame.intra.ops import Op
from aiflame.intra.passes import Scope
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    start: bool
    needs: tuple[Op, ...] = ()


def insert(scopes: Sequence[Scope], builder: Any, record: Any, until_there: Callable[[Any, Op], None] | None = None) -> list[str]:
    """Inserts the start and end of each scope; returns the marks' names, in the order of scopes.

    `record(builder, is_start, name)` makes a mark, `until_there(builder, op)` makes a warp wait until the value of `op` has arrived."""
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


def until_there(module: str) -> Callable[[Any, Op], None] | None:
    """The function that makes a warp wait for the value of a load, for the target of this module; None: there is none."""
    targets = {"cuda": _until_there_on_nvidia, "hip": _until_there_on_amd}
    return next((function for backend, function in targets.items() if f'ttg.target = "{backend}:' in module), None)


def _until_there_on_amd(builder: Any, op: Op) -> None:
    """An empty piece of assembly that takes the value: the compiler waits for the operands (`s_waitcnt`), and moves it past no clock read.
    Its results are its operands, in the same registers."""
    value = op.raw.get_result(0)
    bits, _ = _element(value)
    if not bits:
        return
    count = _LOADED_BITS // max(bits, 32)
    constraints = ",".join(["=v"] * count + [str(at) for at in range(count)])
    builder.create_inline_asm("; the value is there", constraints, [value], [value.get_type()], False, _LOADED_BITS // bits)


def _element(value: Any) -> tuple[int, str]:
    """Bits of an element of a tensor and the constraint letter of its register; 0 for others."""
    element = re.match(r"tensor<(?:\d+x)+([^,>]+)", str(value.get_type()))
    return _ELEMENTS.get(element[1], (0, "")) if element else (0, "")


def _until_there_on_nvidia(builder: Any, op: Op) -> None:
    """NVIDIA's assembler moves arithmetic across clock reads, but not a `pmevent`: this one only triggers for one value of a register, and
    has no effect then."""
    value = op.raw.get_result(0)
    bits, constraint = _element(value)
    if not bits:
        return
    register = max(bits, 32)
    count = _LOADED_BITS // register
    passed_on = " ".join(f"mov.b{register} ${at}, ${at + count};" for at in range(count))
    asks = f".reg .pred p; .reg .b{register} t; mov.b{register} t, ${count}; setp.eq.b{register} p, t, 0x7fffdead; @p pmevent 7;"
    constraints = ",".join([f"={constraint}"] * count + [constraint] * count)
    builder.create_inline_asm(f"{{ {asks} {passed_on} }}", constraints, [value], [value.get_type()], False, _LOADED_BITS // bits)


_LOADED_BITS = 128
"""The most bits that one load instruction brings to a thread."""
_ELEMENTS = {"f64": (64, "d"), "i64": (64, "l"), "f32": (32, "f"), "i32": (32, "r"), "f16": (16, "r"), "bf16": (16, "r"), "i16": (16, "r")}
_ELEMENTS |= dict.fromkeys(("i8", "f8E4M3FN", "f8E5M2"), (8, "r"))
"""Bits, and the constraint letter of their register; narrow elements share a register."""


def _places(scopes: Sequence[Scope], names: Sequence[str]) -> dict[tuple[Op, int], list[Mark]]:
    """(First operation of a block, number of operations of the block before the place) → marks, from the first to the last. At one place
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

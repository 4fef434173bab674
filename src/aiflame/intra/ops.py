"""A kernel as passes see it: the operations of Triton's GPU dialect in program order, with their places and operands.

It is read through the compiler's own bindings. Some of these abort the process when a result, region or block does not exist, so only
counted ones are accessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

HOLDERS = {"tt.func", "scf.for", "scf.while", "scf.if", "ttg.warp_specialize", "ttg.warp_specialize.partitions"}
"""Operations whose regions may contain marks; regions of others (`tt.reduce`, `tt.map_elementwise` …) are only arithmetic."""
LOOPS = {"scf.for", "scf.while"}

_PLACE = re.compile(r'(?:"([^"]*)"\((?:"[^"]*"\()*)?"([^"]*)":(\d+):\d+')
"""The outermost name of a location, its file and its line."""
_LIBRARIES = ("/triton/language/", "/torch/_inductor/")
"""Operations inlined from these folders get the line of the call: `tl.max` has no line of its own in the user's program."""


@dataclass(eq=False, slots=True)
class Op:
    """An operation of the kernel."""

    name: str
    """The operation's name in the dialect: `tt.load`, `ttng.warp_group_dot`."""
    number: int
    """Place in program order, from 0: an enclosing operation comes before its content."""
    variable: str
    """The variable to which the source assigns it, if known."""
    file: str
    line: int
    operands: tuple[int, ...]
    """Ids of the values that it uses; the same numbers as in `results`."""
    results: tuple[int, ...]
    parent: Op | None
    """The operation whose region contains it: a loop, the function …"""
    region: int
    """The number of that region."""
    block: Any = field(repr=False)
    index: int = field(repr=False)
    """Place in its block, from 0."""
    raw: Any = field(repr=False)
    regions: int = 0
    siblings: list[Op] = field(default_factory=list, repr=False)
    """All operations of its block, including itself."""
    children: list[Op] = field(default_factory=list, repr=False)
    """The operations in its regions, in program order."""

    @property
    def loop(self) -> Op | None:
        """The innermost loop around it."""
        return next((one for one in self.enclosing() if one.name in LOOPS), None)

    @property
    def can_be_marked(self) -> bool:
        return self.parent is not None and all(one.name in HOLDERS for one in self.enclosing())

    @property
    def last(self) -> bool:
        """True if it ends its block, so that no mark can follow."""
        return self.siblings[-1] is self

    def enclosing(self) -> Iterator[Op]:
        """The enclosing operations, from the inside out."""
        one = self.parent
        while one is not None:
            yield one
            one = one.parent

    def inside(self) -> Iterator[Op]:
        """All operations in its regions, at any depth, in program order."""
        for child in self.children:
            yield child
            yield from child.inside()

    def __str__(self) -> str:
        return f"{self.name} at {self.file.rpartition('/')[2] or '?'}:{self.line}"


def read(module: Any, builder: Any) -> list[Op]:
    """All operations of the functions of a module, in program order."""
    order: dict[int, list[tuple[Any, Any, int]]] = {}
    held: dict[int, list[int]] = {}
    blocks: dict[int, Any] = {}

    def visit(operation: Any) -> None:  # from the inside out; those of a block in order
        block = operation.get_block()
        if block is None:
            return
        here = block.id()
        if here not in blocks:
            blocks[here] = block
            held.setdefault(block.get_parent().id(), []).append(here)
        order.setdefault(here, []).append((operation, block, operation.get_num_regions()))

    module.walk(visit)
    inner = {operation.get_region(at).id() for rows in order.values() for operation, _, count in rows for at in range(count)}
    ops: list[Op] = []

    def add(region: int, parent: Op | None, number: int) -> None:
        for block in held.get(region, []):
            siblings: list[Op] = []
            for index, (operation, where, count) in enumerate(order[block]):
                one = _op(operation, where, index, parent, number, len(ops), builder)
                one.regions, one.siblings = count, siblings
                siblings.append(one)
                ops.append(one)
                if parent is not None:
                    parent.children.append(one)
                for at in range(count):
                    add(operation.get_region(at).id(), one, at)

    for region in [each for each in held if each not in inner]:
        add(region, None, 0)
    return ops


def _op(operation: Any, block: Any, index: int, parent: Op | None, region: int, number: int, builder: Any) -> Op:
    builder.set_insertion_point_after(operation)
    places = _PLACE.findall(str(builder.get_loc()))  # from the inside out, if calls were inlined
    variable, file, line = next((one for one in places if not any(folder in one[1] for folder in _LIBRARIES)), (*places, ("", "", 0))[0])
    results = tuple(operation.get_result(at).id() for at in range(operation.get_num_results()))
    return Op(
        name=operation.get_name(),
        number=number,
        variable="" if _is_path(variable) else variable,
        file=file,
        line=int(line),
        operands=tuple(operation.get_operand(at).id() for at in range(operation.get_num_operands())),
        results=results,
        parent=parent,
        region=region,
        block=block,
        index=index,
        raw=operation,
    )


def _is_path(name: str) -> bool:
    return "/" in name

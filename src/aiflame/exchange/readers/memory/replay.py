"""The life of each block of one device's memory, from the allocator's trace and from the blocks that are live when it ends."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from aiflame.attribute.arrays.types import Ints
from aiflame.errors import AiflameError
from aiflame.values import dataclass

BEFORE = -2
"""The stack of a block that was allocated before the trace begins."""
_MOST_BYTES = 1 << 44
"""Bytes of one block; more is cut."""
NEVER = 1 << 62
ALLOC, FREED = "alloc", ("free_completed", "free")
"""`free_requested` is no end: the block is taken until the streams that use it are through, which `free_completed` says."""


@dataclass(frozen=True, slots=True)
class Block:
    address: int
    size: int
    stack: int
    block_bytes: int = 0
    """Bytes of the allocator's block."""


@dataclass(frozen=True, slots=True)
class Lives:
    """A row for each block of memory that was live at any moment of the trace."""

    stack: Ints
    """number that the caller gave, or BEFORE"""
    size: Ints
    address: Ints
    born: Ints
    """event that allocated it; -1: live when the trace begins"""
    died: Ints
    """event that freed it; NEVER: live when the trace ends"""
    missing: int
    """blocks that the trace allocates and never frees, and that are not live at its end by the snapshot"""

    def live(self, event: int) -> Ints:
        """The rows that are live when an event has happened; -1: when the trace begins."""
        return np.flatnonzero((self.born <= event) & (self.died > event))

    def peak(self, events: int) -> tuple[int, int]:
        """The first event after which the most bytes are live (-1: the most are live when the trace begins), and how many these are."""
        change = np.zeros(events + 1, dtype=np.int64)
        np.add.at(change, self.born + 1, self.size)
        ends = self.died < NEVER
        np.subtract.at(change, self.died[ends] + 1, self.size[ends])
        total = np.cumsum(change)
        most = int(np.argmax(total))
        return most - 1, int(total[most])


def replay(events: Iterable[Mapping[str, Any]], stacks: Iterable[int], live_at_end: Iterable[Block]) -> Lives:
    """`stacks`: of each event."""
    stack, size, place, born, died = (array("q") for _ in range(5))
    open_rows: dict[int, int] = {}

    def add(address: int, amount: int, of: int, event: int) -> int:
        values = (of, min(amount, _MOST_BYTES), min(address, NEVER), event, NEVER)
        for column, value in zip((stack, size, place, born, died), values, strict=True):
            column.append(value)
        return len(stack) - 1

    for number, (event, of) in enumerate(zip(events, stacks, strict=True)):
        action, address = event.get("action"), whole(event.get("addr"))
        if action == ALLOC:
            if address in open_rows:  # its end is not in the trace
                died[open_rows[address]] = number
            open_rows[address] = add(address, whole(event.get("size")), of, number)
        elif action in FREED:
            row = open_rows.pop(address, None)
            died[add(address, whole(event.get("size")), BEFORE, -1) if row is None else row] = number
    traced = set(open_rows)
    for block in live_at_end:
        if block.address in traced:
            traced.discard(block.address)
        elif block.address not in open_rows:
            open_rows[block.address] = add(block.address, block.size, block.stack, -1)
    if sum(size) >= NEVER:
        raise AiflameError("the blocks of the snapshot add up to more bytes than any machine has: it is damaged")
    stacks_of, sizes, places, begins, ends = (np.array(column, dtype=np.int64) for column in (stack, size, place, born, died))
    return Lives(stacks_of, sizes, places, begins, ends, len(traced))


def whole(value: object) -> int:
    """A number of the file; 0 for any other value, and for numbers that have no place in a table."""
    return value if type(value) is int and 0 <= value < 1 << 64 else 0

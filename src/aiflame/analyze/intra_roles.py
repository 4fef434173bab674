"""Roles of a warp-specialized kernel (producer, consumer): how much of its time each works, and who holds the others up.

A role works while one of its warps is in it and does not wait for another role. What only one role works at is its part of the critical
path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from aiflame.analyze.intra_data import Bools, Inside, Line
from aiflame.analyze.spans import Spans, union, without

_WAITS = re.compile(r"ttng\.wait_barrier|(?:ttg|amdg|amdgpu)\.async_wait|ttg\.barrier|gpu\.barrier|ttng\.async_tma_store_wait")
"""Not for a multiplication of its own: that is work."""


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    warps: tuple[int, ...]
    time_ns: int
    """From its begin to its end, over CTAs."""
    working: float
    """Of that."""
    critical: float
    """Of the time that any role works, what this one works alone."""


def roles(inside: Inside) -> list[Role]:
    """None of a kernel without roles; those first that hold the others up most."""
    told = inside.scopes.filter(pl.col("kind") == "role").sort("scope")
    if len(told) < 2:
        return []
    line = inside.line
    scope = inside.spans["scope"].to_numpy()[line.order]
    waits = np.isin(scope, [row["scope"] for row in inside.scopes.iter_rows(named=True) if _WAITS.fullmatch(row["op"])])
    named = [(name, scope == number) for number, name in told.select("scope", "name").rows()]
    named = [(name, mine) for name, mine in named if mine.any()]
    active = [_active(line, mine) for _, mine in named]
    working = [_working(line, mine, waits) for _, mine in named]
    anyone = _all(working).total()
    found = []
    for place, (name, mine) in enumerate(named):
        alone = without(working[place], _all([one for at, one in enumerate(working) if at != place]))
        warps = tuple(np.unique(line.unit[mine] & 0xFFFF).tolist())
        time = active[place].total()
        found.append(Role(name, warps, time, working[place].total() / max(time, 1), alone.total() / max(anyone, 1)))
    return sorted(found, key=lambda one: (-one.critical, one.name))


def _active(line: Line, mine: Bools) -> Spans:
    return union(line.begin[mine], line.end[mine])


def _working(line: Line, mine: Bools, waits: Bools) -> Spans:
    """Warps are kept apart first, then laid upon each other."""
    units, dense = np.unique(line.unit, return_inverse=True)
    move = (dense - line.cta) * line.step
    works = without(union((line.begin + move)[mine], (line.end + move)[mine]), union((line.begin + move)[waits], (line.end + move)[waits]))
    back = ((units >> 16) - np.arange(len(units)))[works.begin // line.step] * line.step
    return union(works.begin + back, works.end + back)


def _all(parts: list[Spans]) -> Spans:
    none = np.zeros(0, dtype=np.int64)
    return union(np.concatenate([none, *(one.begin for one in parts)]), np.concatenate([none, *(one.end for one in parts)]))

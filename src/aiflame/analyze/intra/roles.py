"""Roles of a warp-specialized kernel (producer, consumer): the role of each warp, and how much of the time each role works.

A role works while one of its warps is in it and does not wait for another role.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.analyze.intra.data import Inside, Line
from aiflame.analyze.intra.kinds import is_role_wait
from aiflame.analyze.spans import Spans, union, without
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    warps: tuple[int, ...]
    time_ns: int
    """From its begin to its end, summed over CTAs."""
    working: float
    """The share of that time in which it works."""
    alone: float
    """The share of the time with any working role in which this one works alone."""
    critical: float
    """Its share of the critical path, if there is one; otherwise `alone`."""


@dataclass(frozen=True, slots=True)
class RolesOfSpans:
    names: tuple[str, ...]
    role: Ints
    """The role of each span of the line, as a place in `names`; -1: none."""
    whole: Mask
    """For each span of the line, whether it is the whole time of a warp in this role, from begin to end."""


def roles_of_spans(inside: Inside) -> RolesOfSpans | None:
    """None for a kernel without roles."""
    role_scopes = inside.scopes.filter(pl.col("kind") == "role").sort("scope")
    if role_scopes.is_empty():
        return None
    line = inside.line
    scope = inside.spans["scope"].to_numpy()[line.order]
    names: list[str] = []
    role, whole = np.full(len(scope), -1, dtype=np.int64), np.zeros(len(scope), dtype=np.bool_)
    for number, name in role_scopes.select("scope", "name").rows():
        mine = scope == number
        if mine.any():
            role[np.isin(line.unit, np.unique(line.unit[mine]))] = len(names)
            whole |= mine
            names.append(name)
    return RolesOfSpans(tuple(names), role, whole)


def role_of_warps(inside: Inside) -> dict[int, str]:
    """The role of each warp, in a kernel with roles."""
    spans = roles_of_spans(inside)
    if spans is None:
        return {}
    rows = np.flatnonzero(spans.whole)
    return {int(warp): spans.names[role] for warp, role in zip(inside.line.unit[rows] & 0xFFFF, spans.role[rows], strict=True)}


def roles(inside: Inside, critical: Mapping[str, float]) -> list[Role]:
    """None for a kernel without roles. The roles that delay the others most come first. `critical`: shares of the critical path by role."""
    spans = roles_of_spans(inside)
    if spans is None or len(spans.names) < 2:
        return []
    line = inside.line
    scope = inside.spans["scope"].to_numpy()[line.order]
    waits = np.isin(scope, [row["scope"] for row in inside.scopes.to_dicts() if is_role_wait(row)])
    each = [spans.whole & (spans.role == number) for number in range(len(spans.names))]
    active = [union(line.begin[mine], line.end[mine]) for mine in each]
    working = [_working(line, mine, waits) for mine in each]
    anyone = _all(working).total()
    rows = []
    for place, (name, mine) in enumerate(zip(spans.names, each, strict=True)):
        alone = without(working[place], _all([one for at, one in enumerate(working) if at != place])).total() / max(anyone, 1)
        warps = tuple(np.unique(line.unit[mine] & 0xFFFF).tolist())
        time = active[place].total()
        rows.append(Role(name, warps, time, working[place].total() / max(time, 1), alone, critical.get(name, 0.0) if critical else alone))
    return sorted(rows, key=lambda one: (-one.critical, one.name))


def _working(line: Line, mine: Mask, waits: Mask) -> Spans:
    """The union of the times in which a role's warps work."""
    units, dense = np.unique(line.unit, return_inverse=True)
    move = (dense - line.cta) * line.step
    works = without(union((line.begin + move)[mine], (line.end + move)[mine]), union((line.begin + move)[waits], (line.end + move)[waits]))
    back = ((units >> 16) - np.arange(len(units)))[works.begin // line.step] * line.step
    return union(works.begin + back, works.end + back)


def _all(parts: list[Spans]) -> Spans:
    none = np.zeros(0, dtype=np.int64)
    return union(np.concatenate([none, *(one.begin for one in parts)]), np.concatenate([none, *(one.end for one in parts)]))

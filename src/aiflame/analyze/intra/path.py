"""The critical path through the roles of a kernel: from each CTA's end back to its begin, along the waits.

At a wait that really took time, the path continues at the awaited role: for a copy at the producer when it issued that copy, with the
copy's time as a part of the path; otherwise at the role that worked last before the wait ended.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter

import numpy as np

from aiflame.analyze.intra.data import Inside
from aiflame.analyze.intra.flow import NO_WAIT_NS, Flow
from aiflame.analyze.intra.kinds import is_role_wait, waits_for_its_math
from aiflame.analyze.intra.roles import RolesOfSpans, roles_of_spans
from aiflame.attribute.arrays.types import Floats, Ints, Mask
from aiflame.values import dataclass, field

MOST_CTAS = 64
"""The most CTAs that are followed, evenly spaced: all do the same."""
IN_FLIGHT = "copies in flight"


@dataclass(frozen=True, slots=True)
class PathPart:
    role: str
    """Empty: the time of copies."""
    scope: str
    """Empty: time of the role outside of its scopes."""
    share: float
    """Share of the path."""


@dataclass(frozen=True, slots=True)
class RolePath:
    ctas: int
    parts: list[PathPart]
    """The parts, the longest first."""

    def of_role(self) -> dict[str, float]:
        shares: dict[str, float] = {}
        for part in self.parts:
            shares[part.role] = shares.get(part.role, 0.0) + part.share
        return shares

    @property
    def in_flight(self) -> float:
        return sum(part.share for part in self.parts if not part.role)


@dataclass(slots=True)
class _Warp:
    """The records of one warp in its role, in lists ordered by time."""

    begin: int
    end: int
    wait_begin: list[int] = field(default_factory=list)
    wait_end: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    """Rows of the line: waits that really took time."""
    arrivals: list[int] = field(default_factory=list)
    """Begins of all its waits."""
    leaf_begin: list[int] = field(default_factory=list)
    leaf_end: list[int] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    """Rows of the line: scopes without inner scopes."""


def role_path(inside: Inside, copies: Flow | None) -> RolePath | None:
    """None for a kernel without roles, or whose roles recorded no waits, or hand on copies for which they do not wait themselves."""
    roles = roles_of_spans(inside)
    if roles is None or len(roles.names) < 2 or not waits_for_its_math(str(inside.kernel["arch"])):
        return None
    line = inside.line
    scope = inside.spans["scope"].to_numpy()[line.order].astype(np.int64)
    rows = {row["scope"]: row for row in inside.scopes.to_dicts()}
    waits = np.isin(scope, [number for number, row in rows.items() if is_role_wait(row)]) & (roles.role >= 0)
    if not waits.any():
        return None
    took = inside.spans["took_ns"].to_numpy()[line.order].astype(np.float64)
    real = waits & (took > _unwaited(scope, took, waits))
    ctas = np.unique(line.cta[roles.whole])
    chosen = ctas[np.linspace(0, len(ctas) - 1, min(MOST_CTAS, len(ctas))).astype(np.int64)]
    issued = _issued(copies, chosen)
    sums: Counter[tuple[str, str]] = Counter()
    inner = _leaves(inside, scope, {number for number, row in rows.items() if row["kind"] not in ("role", "region", "loop")})
    for cta in chosen.tolist():
        warps = _warps(inside, roles, cta, waits, real, inner)
        for role, row, length in _walk(warps, issued, -1 if copies is None else copies.producer):
            name = IN_FLIGHT if role < 0 else "" if row < 0 else str(rows[int(scope[row])]["name"])
            sums[roles.names[role] if role >= 0 else "", name] += length
    whole = max(sum(sums.values()), 1)
    parts = [PathPart(role, name, length / whole) for (role, name), length in sums.items() if length > 0]
    return RolePath(len(chosen), sorted(parts, key=lambda one: (-one.share, one.role, one.scope)))


def _unwaited(scope: Ints, took: Floats, waits: Mask) -> Floats:
    """For each span: twice the usual time of its scope without waiting."""
    least = np.zeros(256)
    for number in np.unique(scope[waits]).tolist():
        least[number] = min(float(np.quantile(took[scope == number], 0.05)), NO_WAIT_NS)
    limits: Floats = 2 * least[scope]
    return limits


def _issued(copies: Flow | None, chosen: Ints) -> dict[int, int]:
    """Row of a consumer's wait → the time when the last copy that it waits for was issued."""
    if copies is None:
        return {}
    latest: dict[tuple[int, int], int] = {}
    mine = np.isin(copies.cta, chosen)
    for cta, number, begin in zip(copies.cta[mine].tolist(), copies.number[mine].tolist(), copies.begin[mine].tolist(), strict=True):
        latest[cta, number] = max(begin, latest.get((cta, number), 0))
    at = zip(copies.waits.tolist(), copies.wait_ctas.tolist(), copies.wait_numbers.tolist(), strict=True)
    return {row: latest[cta, number] for row, cta, number in at if (cta, number) in latest}


def _leaves(inside: Inside, scope: Ints, kinds: set[int]) -> Mask:
    line = inside.line
    alone = np.ones(len(scope), dtype=np.bool_)
    alone[:-1] = (line.unit[1:] != line.unit[:-1]) | (line.begin[1:] >= line.end[:-1])
    leaves: Mask = alone & np.isin(scope, list(kinds))
    return leaves


def _warps(inside: Inside, roles: RolesOfSpans, cta: int, waits: Mask, real: Mask, leaves: Mask) -> dict[int, _Warp]:
    """The first recorded warp of each role: its other warps do the same."""
    line = inside.line
    low, high = np.searchsorted(line.cta, [cta, cta + 1])
    rows = np.arange(low, high)
    of_roles = {}
    for role in range(len(roles.names)):
        mine = rows[roles.role[rows] == role]
        whole = mine[roles.whole[mine]]
        if not len(whole):
            continue
        mine = mine[line.unit[mine] == line.unit[whole[0]]]
        whole = whole[line.unit[whole] == line.unit[whole[0]]]
        warp = _Warp(int(line.begin[whole].min()), int(line.end[whole].max()))
        inner = mine[(line.begin[mine] >= warp.begin) & (line.end[mine] <= warp.end)]
        warp.waits = inner[real[inner]].tolist()
        warp.wait_begin, warp.wait_end = line.begin[warp.waits].tolist(), line.end[warp.waits].tolist()
        warp.arrivals = line.begin[inner[waits[inner]]].tolist()
        warp.leaves = inner[leaves[inner]].tolist()
        warp.leaf_begin, warp.leaf_end = line.begin[warp.leaves].tolist(), line.end[warp.leaves].tolist()
        of_roles[role] = warp
    return of_roles


def _walk(warps: dict[int, _Warp], issued: dict[int, int], producer: int) -> list[tuple[int, int, int]]:
    """(role, row of a scope in it or -1, length); role -1: copies in flight."""
    parts: list[tuple[int, int, int]] = []
    left = {role: len(warp.waits) for role, warp in warps.items()}
    role = max(warps, key=lambda one: (warps[one].end, -one), default=-1)
    if role < 0:
        return parts
    now = warps[role].end
    while True:
        warp = warps[role]
        at = min(bisect_right(warp.wait_end, now), left[role]) - 1
        if at < 0:
            parts += _spent(warp, role, warp.begin, now)
            return parts
        left[role] = at
        row, ended = warp.waits[at], warp.wait_end[at]
        parts += _spent(warp, role, ended, now)
        if row in issued and producer in warps and issued[row] < ended:
            now = issued[row]
            parts.append((-1, -1, ended - now))
            role = producer
            continue
        other, now = _worked_last(warps, role, ended)
        if other < 0:
            now = warp.wait_begin[at]
        parts.append((role, row, ended - now))
        role = other if other >= 0 else role


def _spent(warp: _Warp, role: int, begin: int, end: int) -> list[tuple[int, int, int]]:
    """The work of a role in a stretch of time, by scope."""
    parts, remainder = [], max(end - begin, 0)
    for at in range(bisect_right(warp.leaf_end, begin), bisect_left(warp.leaf_begin, end)):
        length = min(warp.leaf_end[at], end) - max(warp.leaf_begin[at], begin)
        parts.append((role, warp.leaves[at], length))
        remainder -= length
    return [*parts, (role, -1, remainder)]


def _worked_last(warps: dict[int, _Warp], role: int, moment: int) -> tuple[int, int]:
    """The other role that worked last before a moment, and until when. If several worked, the one that comes to its next wait first: it
    hands over its data before that wait."""
    best, until, nearest = -1, -1, 0
    for other, warp in warps.items():
        if other == role or warp.begin >= moment:
            continue
        at = bisect_left(warp.wait_begin, moment) - 1
        waits = at >= 0 and warp.wait_end[at] >= moment
        last = warp.wait_begin[at] if waits else min(moment, warp.end)
        following = bisect_left(warp.arrivals, last)
        distance = warp.arrivals[following] - last if following < len(warp.arrivals) else 1 << 62
        if last > until or (last == until and distance < nearest):
            best, until, nearest = other, last, distance
    return best, until

"""The overlap of a kernel's copies and math, the exposed part of copies, and the kernel's time if no copy were exposed.

A copy is in flight from its issue to the end of the wait for it, and so is an asynchronous multiplication. In kernels with pipelined
stages, the wait for a copy comes some waits later; in kernels with roles, another role waits for it. If all CTAs of a multiprocessor were
recorded, they count together: while one waits, another may multiply.
"""

from __future__ import annotations

import re

import numpy as np

from aiflame.analyze.intra.data import Inside, Line
from aiflame.analyze.intra.flow import Flow
from aiflame.analyze.intra.kinds import (
    OWN_COPY_WAITS,
    Row,
    is_arrival,
    is_async_math,
    is_copy,
    is_copy_wait,
    is_dot_wait,
    is_load_issue,
    is_math,
    is_whole_math,
    waits_for_its_math,
)
from aiflame.analyze.intra.roles import roles_of_spans
from aiflame.analyze.spans import Spans, both, union, without
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.values import dataclass

_NUMBER = re.compile(r" #\d+$")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Times are sums over CTAs (with `of_sms` over multiprocessors) of the time that records cover."""

    of_sms: bool
    window_ns: int
    copies_ns: int
    """Time in which any copy is in flight."""
    math_ns: int
    """Time in which any multiplication is in flight."""
    both_ns: int
    exposed_ns: int
    """Time in which a copy is in flight, a warp waits for copies, and nothing is multiplied."""

    @property
    def overlapped(self) -> float:
        """The share of the copies' time that math overlaps."""
        return self.both_ns / self.copies_ns if self.copies_ns else 0.0

    @property
    def exposed(self) -> float:
        """Exposed time as a share of all time."""
        return self.exposed_ns / self.window_ns if self.window_ns else 0.0

    @property
    def bound(self) -> float:
        """The share of the time that would be left if math hid all copies."""
        return 1 - self.exposed

    @property
    def two_buffers(self) -> float:
        """The same if each copy overlapped only the multiplication before it: the longer of both counts."""
        either = self.copies_ns + self.math_ns - self.both_ns
        return 1 - (either - max(self.copies_ns, self.math_ns)) / self.window_ns if self.window_ns else 1.0


def overlap(inside: Inside, handed_on: Flow | None = None) -> Overlap | None:
    """None if copies or math were not recorded. `handed_on`: copies that one role makes for others."""
    line = inside.line
    (copies, waiting), math = _copies(inside, line, handed_on), _math(inside, line)
    if handed_on is not None and not len(math) and waits_for_its_math(str(inside.kernel["arch"])):
        math = _worked(inside, line, handed_on)
    if not len(copies) or not len(math):
        return None
    windows = Spans(*_long(line.window_begin, line.window_end))
    of_sms = inside.is_whole and len(inside.ctas) > 1
    if of_sms:
        (copies, waiting, math), windows = _on_sms(inside, line, (copies, waiting, math))
    copies, math = both(copies, windows), both(math, windows)
    exposed = without(both(copies, waiting), math)
    return Overlap(of_sms, windows.total(), copies.total(), math.total(), both(copies, math).total(), exposed.total())


def _long(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    return begin[end > begin], end[end > begin]


def _copies(inside: Inside, line: Line, handed_on: Flow | None) -> tuple[Spans, Spans]:
    """Asynchronous copies, and loads for which a wait or the next multiplication waits; and the times in which warps hand them over or wait
    for them instead of working."""
    scope = inside.spans["scope"].to_numpy()[line.order]
    rows: list[Row] = inside.scopes.to_dicts()
    of_copies = [row["scope"] for row in rows if is_copy_wait(row)]
    math = [row["scope"] for row in rows if is_math(row) or is_whole_math(row)]
    begins = np.isin(scope, math or [row["scope"] for row in rows if is_dot_wait(row)])
    by_roles = handed_on is not None
    flights = [(handed_on.begin, handed_on.end)] if handed_on is not None else []
    waits = [(line.begin[handed_on.waits], line.end[handed_on.waits])] if handed_on is not None else []
    for row in rows:
        mine = scope == row["scope"]
        if not is_load_issue(row) or (by_roles and is_copy(row)):
            continue
        pairs = [one["scope"] for one in rows if one["pair"] == row["scope"]]
        if pairs or is_copy(row):
            later = 1 if pairs else _waits_later(row, rows)
            flights.append(_in_flight(line, mine, np.isin(scope, pairs or of_copies), later))
            of_it = mine | np.isin(scope, pairs or of_copies)
            waits.append((line.begin[of_it], line.end[of_it]))
        elif row["kind"] == "load":
            until = np.maximum(line.end[mine], _begin_after(line, mine, begins))
            flights.append((line.begin[mine], until))
            waits.append((line.begin[mine], until))
    # While a warp waits for a copy, one is in flight, even if the record of its issue was overwritten.
    loads = {row["scope"] for row in rows if is_load_issue(row)}
    whole = [row["scope"] for row in rows if is_arrival(row)]
    alone = np.isin(scope, whole + [row["scope"] for row in rows if row["pair"] in loads or row["op"] in OWN_COPY_WAITS])
    if not flights and not whole:
        return _joined([]), _joined([])
    stood = (line.begin[alone], line.end[alone])
    return _joined([*flights, stood]), _joined([*waits, stood])


def _waits_later(row: Row, rows: list[Row]) -> int:
    """The number of the wait after a copy that waits for it: the number of its stages, which equals the number of copies of the same data
    before their innermost loop."""
    name = _NUMBER.sub("", row["name"])
    alike = [one for one in rows if _NUMBER.sub("", one["name"]) == name and is_copy(one)]
    inner = max(one["loop"] for one in alike)
    before = sorted(one["scope"] for one in alike if one["loop"] != inner)
    return before.index(row["scope"]) + 1 if row["loop"] != inner else max(len(before), 1)


def _math(inside: Inside, line: Line) -> Spans:
    scope = inside.spans["scope"].to_numpy()[line.order]
    rows: list[Row] = inside.scopes.to_dicts()
    dot_waits = [row for row in rows if is_dot_wait(row)]
    waiting = np.isin(scope, [row["scope"] for row in dot_waits])
    inner = {row["loop"] for row in rows if is_async_math(row)} & {row["loop"] for row in dot_waits} - {-1}
    parts = []
    for row in rows:
        mine = scope == row["scope"]
        if is_async_math(row) and dot_waits:
            parts.append(_in_flight(line, mine, waiting, _dot_waits_later(row, dot_waits) if row["loop"] in inner else 1))
        elif is_math(row) or is_whole_math(row) or is_dot_wait(row):
            parts.append((line.begin[mine], line.end[mine]))
    return _joined(parts)


def _dot_waits_later(row: Row, waits: list[Row]) -> int:
    """A wait behind the loop shows that the waits in the loop leave one multiplication running: it ends with the wait after the next.
    Except if that wait is for a multiplication for which nothing in the loop waits."""
    mine = [one for one in waits if one["pair"] in (row["scope"], -1)]
    waited = any(one["loop"] == row["loop"] for one in mine)
    return 2 if waited and any(one["loop"] != row["loop"] for one in mine) else 1


def _worked(inside: Inside, line: Line, handed_on: Flow) -> Spans:
    """Used as math if no multiplication was recorded: the time of consumers between one wait for copies and the next; after the last wait,
    the usual time."""
    roles = roles_of_spans(inside)
    rows = np.unique(handed_on.waits)
    if roles is None or len(rows) < 2:
        return _joined([])
    after, same = line.end[rows], np.append(line.unit[rows][1:] == line.unit[rows][:-1], False)
    until = np.append(line.begin[rows][1:], 0)
    usual = int(np.median((until - after)[same])) if same.any() else 0
    whole = np.flatnonzero(roles.whole)
    of_unit = whole[np.minimum(np.searchsorted(line.unit[whole], line.unit[rows]), len(whole) - 1)]
    until = np.where(same, until, np.minimum(after + usual, np.maximum(line.end[of_unit], after)))
    return union(after, until)


def _in_flight(line: Line, issue: Mask, wait: Mask, later: int) -> tuple[Ints, Ints]:
    """From each issue to the end of the n-th wait after it on the same warp; issues without such a wait are left out."""
    issues, waits = np.flatnonzero(issue), np.flatnonzero(wait)
    at = np.searchsorted(waits, issues) + later - 1
    good = at < len(waits)
    issues, ending = issues[good], waits[at[good]]
    same = line.unit[ending] == line.unit[issues]
    return line.begin[issues[same]], line.end[ending[same]]


def _begin_after(line: Line, mine: Mask, of: Mask) -> Ints:
    """When the next of the spans `of` begins on the same warp; otherwise 0."""
    rows, others = np.flatnonzero(mine), np.flatnonzero(of)
    if not len(others):
        return np.zeros(len(rows), dtype=np.int64)
    at = np.minimum(np.searchsorted(others, rows), len(others) - 1)
    good = (others[at] > rows) & (line.unit[others[at]] == line.unit[rows])
    begins: Ints = np.where(good, line.begin[others[at]], 0)
    return begins


def _joined(parts: list[tuple[Ints, Ints]]) -> Spans:
    none = np.zeros(0, dtype=np.int64)
    return union(np.concatenate([none, *(begin for begin, _ in parts)]), np.concatenate([none, *(end for _, end in parts)]))


def _on_sms(inside: Inside, line: Line, parts: tuple[Spans, ...]) -> tuple[tuple[Spans, ...], Spans]:
    """The same with a stretch for each multiprocessor of a launch; and the time in which no running CTA of it lacks records."""
    ctas = inside.ctas.select("launch", "sm", "begin_ns").with_row_index("place")
    groups = ctas.select("launch", "sm").unique(maintain_order=True).with_row_index("group")
    group = ctas.join(groups, on=["launch", "sm"], how="left", maintain_order="left")["group"].to_numpy().astype(np.int64)
    move = (group - np.arange(len(group))) * line.step
    begin = inside.ctas["begin_ns"].to_numpy() - line.zero + group * line.step

    def moved(spans: Spans) -> Spans:
        by = move[spans.begin // line.step]
        return union(spans.begin + by, spans.end + by)

    windows = union(line.window_begin + move, line.window_end + move)
    missing = union(begin, line.window_begin + move)
    return tuple(moved(one) for one in parts), without(windows, missing)

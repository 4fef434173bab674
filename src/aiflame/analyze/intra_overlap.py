"""What of a kernel's copies and math overlaps, what of the copies is exposed, and what the kernel would take if none were.

A copy is in flight from where it is issued to the end of the wait that it is waited for with; so is a multiplication that goes on by
itself. With kernels whose stages are pipelined, a copy is waited for some waits later. A multiprocessor's CTAs count together where all
were recorded: while one waits, another may multiply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from aiflame.analyze.intra_data import Bools, Inside, Ints, Line
from aiflame.analyze.spans import Spans, both, union, without

_COPIES = re.compile(r"ttg\.async_copy_global_to_local|ttng\.async_tma_(?:copy_global_to_local|gather)|amdg\.buffer_load_to_local")
_COPY_WAITS = re.compile(r"(?:ttg|amdg|amdgpu)\.async_wait|ttng\.wait_barrier")
_OWN_COPY_WAITS = re.compile(r"(?:ttg|amdg|amdgpu)\.async_wait")
"""A barrier may be waited at for other things, too."""
_ASYNC_DOTS = re.compile(r"ttng\.(?:warp_group_dot|tc_gen5_mma)(?:_scaled)?")
_LOADS = re.compile(r"tt\.(?:load|gather|descriptor_load|descriptor_gather)|(?:amdg|amdgpu)\.buffer_load")
_DOT_WAITS = re.compile(r"ttng\.warp_group_dot_wait")
_NUMBER = re.compile(r" #\d+$")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Times are sums over CTAs (or over multiprocessors, `of_sms`) of what records cover."""

    of_sms: bool
    window_ns: int
    copies_ns: int
    """Some copy is in flight."""
    math_ns: int
    """Some multiplication is."""
    both_ns: int
    exposed_ns: int
    """A copy is in flight, and no multiplication."""

    @property
    def overlapped(self) -> float:
        """Of the copies' time, what lies under math."""
        return self.both_ns / self.copies_ns if self.copies_ns else 0.0

    @property
    def exposed(self) -> float:
        """Of all the time."""
        return self.exposed_ns / self.window_ns if self.window_ns else 0.0

    @property
    def bound(self) -> float:
        """What would be left of the time if math hid all copies."""
        return 1 - self.exposed

    @property
    def two_buffers(self) -> float:
        """The same if each copy overlapped the multiplication before it: the longer of both counts."""
        either = self.copies_ns + self.math_ns - self.both_ns
        return 1 - (either - max(self.copies_ns, self.math_ns)) / self.window_ns if self.window_ns else 1.0


@dataclass(frozen=True, slots=True)
class Bubble:
    """A wait of a pipeline: what a warp stands there."""

    name: str
    place: str
    count: int
    share: float
    """Of the time of warps that run it."""
    fill_ns: float
    """The first time of each warp, the median."""
    steady_ns: float
    """All other times, the mean."""
    p95_ns: float


def overlap(inside: Inside) -> Overlap | None:
    """None where copies or math were not recorded."""
    line = inside.line
    copies, math = _copies(inside, line), _math(inside, line)
    if not len(copies) or not len(math):
        return None
    windows = Spans(*_long(line.window_begin, line.window_end))
    of_sms = inside.is_whole and len(inside.ctas) > 1
    if of_sms:
        copies, math, windows = _on_sms(inside, line, copies, math)
    copies, math = both(copies, windows), both(math, windows)
    return Overlap(
        of_sms, windows.total(), copies.total(), math.total(), both(copies, math).total(), without(copies, math).total()
    )  # fmt: skip


def _long(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    return begin[end > begin], end[end > begin]


def _copies(inside: Inside, line: Line) -> Spans:
    """Asynchronous copies, and loads that are waited for or whose value the next multiplication needs."""
    scope = inside.spans["scope"].to_numpy()[line.order]
    rows = inside.scopes.to_dicts()
    paired = {row["pair"] for row in rows if row["pair"] >= 0}
    of_copies = [row["scope"] for row in rows if _COPY_WAITS.fullmatch(row["op"])]
    math = [row["scope"] for row in rows if _is_math(row) or _is_whole(row, _ASYNC_DOTS)]
    begins = np.isin(scope, math or [row["scope"] for row in rows if _DOT_WAITS.fullmatch(row["op"])])
    parts = []
    for row in rows:
        number = row["scope"]
        if not (row["kind"] in ("load", "async") and row["phase"] in ("span", "issue")):
            continue
        mine = scope == number
        if number in paired:
            parts.append(_in_flight(line, mine, np.isin(scope, [one["scope"] for one in rows if one["pair"] == number]), 1))
        elif _COPIES.fullmatch(row["op"]):
            parts.append(_in_flight(line, mine, np.isin(scope, of_copies), _waits_later(row, rows)))
        elif row["kind"] == "load":
            until = _begin_after(line, mine, begins)
            parts.append((line.begin[mine], np.maximum(line.end[mine], until)))
    # While a warp waits for a copy one is in flight, also where the record of its issue was overwritten.
    loads = {row["scope"] for row in rows if row["kind"] in ("load", "async")}
    whole = [row["scope"] for row in rows if _is_whole(row, _LOADS) or _is_whole(row, _COPIES)]
    waiting = np.isin(scope, [row["scope"] for row in rows if row["pair"] in loads or _OWN_COPY_WAITS.fullmatch(row["op"])] + whole)
    return _joined([*parts, (line.begin[waiting], line.end[waiting])] if parts or whole else [])


def _waits_later(row: dict[str, object], rows: list[dict[str, object]]) -> int:
    """Which wait after it a copy is waited for with: as many stages as copies of the same were made before their innermost loop."""
    name = _NUMBER.sub("", str(row["name"]))
    alike = [one for one in rows if _NUMBER.sub("", str(one["name"])) == name and _COPIES.fullmatch(str(one["op"]))]
    inner = max(int(str(one["loop"])) for one in alike)
    before = sorted(int(str(one["scope"])) for one in alike if one["loop"] != inner)
    return before.index(int(str(row["scope"]))) + 1 if row["loop"] != inner else max(len(before), 1)


def _math(inside: Inside, line: Line) -> Spans:
    scope = inside.spans["scope"].to_numpy()[line.order]
    rows = inside.scopes.to_dicts()
    dot_waits = [row for row in rows if _DOT_WAITS.fullmatch(row["op"])]
    waiting = np.isin(scope, [row["scope"] for row in dot_waits])
    issued = [row for row in rows if _is_math(row) and _ASYNC_DOTS.fullmatch(row["op"])]
    inner = {row["loop"] for row in issued} & {row["loop"] for row in dot_waits} - {-1}
    # A wait behind the loop means that the waits in it leave one multiplication going: it ends with the wait after the next.
    later = 2 if inner and any(row["loop"] not in inner for row in dot_waits) else 1
    parts = []
    for row in rows:
        mine = scope == row["scope"]
        if row in issued and dot_waits:
            parts.append(_in_flight(line, mine, waiting, later if row["loop"] in inner else 1))
        elif _is_math(row) or _is_whole(row, _ASYNC_DOTS) or row in dot_waits:
            parts.append((line.begin[mine], line.end[mine]))
    return _joined(parts)


def _is_math(row: dict[str, object]) -> bool:
    return row["kind"] == "mma" and row["phase"] in ("span", "issue")


def _is_whole(row: dict[str, object], ops: re.Pattern[str]) -> bool:
    """From where it is issued to the end of the wait for it, in one scope."""
    return row["kind"] == "wait" and row["phase"] == "span" and ops.fullmatch(str(row["op"])) is not None


def _in_flight(line: Line, issue: Bools, wait: Bools, later: int) -> tuple[Ints, Ints]:
    """From each issue to the end of the n-th wait after it on the same warp; those that nobody waits for have no end and are left out."""
    issues, waits = np.flatnonzero(issue), np.flatnonzero(wait)
    at = np.searchsorted(waits, issues) + later - 1
    good = at < len(waits)
    issues, found = issues[good], waits[at[good]]
    same = line.unit[found] == line.unit[issues]
    return line.begin[issues[same]], line.end[found[same]]


def _begin_after(line: Line, mine: Bools, of: Bools) -> Ints:
    """When the next of some spans begins on the same warp; else 0."""
    rows, others = np.flatnonzero(mine), np.flatnonzero(of)
    if not len(others):
        return np.zeros(len(rows), dtype=np.int64)
    at = np.minimum(np.searchsorted(others, rows), len(others) - 1)
    good = (others[at] > rows) & (line.unit[others[at]] == line.unit[rows])
    found: Ints = np.where(good, line.begin[others[at]], 0)
    return found


def _joined(parts: list[tuple[Ints, Ints]]) -> Spans:
    none = np.zeros(0, dtype=np.int64)
    return union(np.concatenate([none, *(begin for begin, _ in parts)]), np.concatenate([none, *(end for _, end in parts)]))


def _on_sms(inside: Inside, line: Line, copies: Spans, math: Spans) -> tuple[Spans, Spans, Spans]:
    """The same with a stretch for each multiprocessor of a launch; only where no CTA that runs there lacks its records."""
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
    return moved(copies), moved(math), without(windows, missing)


def bubbles(inside: Inside) -> list[Bubble]:
    """Waits by what warps stand there, the longest first."""
    rows = inside.scopes.filter(pl.col("kind").is_in(["wait", "barrier"]))
    warps = inside.warps.select("launch", "cta", "warp", "covered_ns")
    found = []
    for row in rows.iter_rows(named=True):
        spans = inside.spans.filter(pl.col("scope") == row["scope"]).sort("launch", "cta", "warp", "begin_ns")
        if spans.is_empty():
            continue
        key = ["launch", "cta", "warp"]
        of_warp = spans.group_by(key, maintain_order=True).agg(first=pl.col("took_ns").first(), all=pl.col("took_ns").sum())
        covered = float(of_warp.join(warps, on=key, how="left")["covered_ns"].sum() or 0)
        rest = spans.filter(pl.int_range(pl.len()).over(key) > 0)["took_ns"]
        steady = rest if len(rest) else spans["took_ns"]
        found.append(
            Bubble(
                row["name"],
                f"{row['file']}:{row['line']}" if row["line"] else row["file"],
                len(spans),
                float(of_warp["all"].cast(pl.Float64).sum()) / max(covered, 1.0),
                float(of_warp["first"].median() or 0),  # type: ignore[arg-type]
                float(steady.mean() or 0),  # type: ignore[arg-type]
                float(steady.quantile(0.95) or 0),
            )
        )
    return sorted(found, key=lambda one: (-one.share, one.name))

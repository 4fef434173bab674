"""What was recorded inside a kernel, in sentences; and what speaks against believing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aiflame.analyze.amounts import amount
from aiflame.analyze.intra.balance import Balance
from aiflame.analyze.intra.bubbles import Bubble
from aiflame.analyze.intra.changes import Changes
from aiflame.analyze.intra.data import Inside
from aiflame.analyze.intra.overlap import Overlap
from aiflame.analyze.intra.path import RolePath
from aiflame.analyze.intra.roles import Role
from aiflame.analyze.intra.scopes import ScopeTime
from aiflame.analyze.places import short_place

EXPOSED = 0.1
"""Of the time: below this, hiding copies wins less than a stage of a pipeline costs in shared memory."""
MORE_STAGES = ": try more stages (num_stages)"
WAITS = 0.1
TAIL = 0.1
CRITICAL = 0.5
"""Of the critical path."""
IN_FLIGHT = 0.25
"""Of the critical path, copies that nothing else hides."""
UNEVEN = 1.5
"""A warp's time in a scope, relative to the median warp's."""
WORTH = 0.1
"""Of the warps' time: a scope below it is not worth a word."""
SLOW_SM = 1.2
OVERHEAD = 0.15
DROPPED = 0.01
UNCERTAIN = 0.02
"""Relative error of a clock's pace."""


@dataclass(frozen=True, slots=True)
class IntraFinding:
    kind: str
    """no-overlap, wait, hot-scope, role, copies-late, tail, uneven-warps, slow-sm"""
    sentence: str
    share: float
    """The number in it, of the kernel's time or of its warps'."""
    recoverable: float
    """Of the kernel's time, what better code might win at most."""
    place: str = ""


def findings(
    took_ns: float,
    scopes: Sequence[ScopeTime],
    overlap: Overlap | None,
    bubbles: Sequence[Bubble],
    roles: Sequence[Role],
    path: RolePath | None,
    balance: Balance | None,
) -> list[IntraFinding]:
    """Those that promise most first."""
    of_roles = [*_roles(roles, bubbles, path), *_copies_late(bubbles, overlap, path)]
    waits = [] if of_roles else [one for one in bubbles[:1] if one.share >= WAITS]
    told = {one.name for one in (bubbles if roles else waits)} | {one.name for one in roles}
    found = [
        *_no_overlap(took_ns, overlap, path),
        *_waits(waits, overlap),
        *of_roles,
        *_tail(balance),
        *_uneven(scopes),
        *_hot([one for one in scopes if one.name not in told]),
    ]
    return sorted(found, key=lambda one: (-one.recoverable, one.kind, one.sentence))


def _ns(value: float) -> str:
    return amount(round(value), "ns")


def _no_overlap(took_ns: float, told: Overlap | None, path: RolePath | None) -> Iterator[IntraFinding]:
    if told is None or told.exposed < EXPOSED:
        return
    only = "" if told.overlapped >= 0.5 else "only "
    hidden = (
        f"math hides {only}{told.overlapped:.0%} of its copies" if told.overlapped >= 0.005 else "copies and math do not overlap at all"
    )
    sentence = (
        f"{hidden}: {told.exposed:.0%} of the time copies are waited for and nothing is multiplied. "
        f"Fully overlapped this kernel would take {_ns(took_ns * told.bound)} instead of {_ns(took_ns)}, if memory delivers that fast"
    )
    if path is None or path.in_flight >= IN_FLIGHT:
        sentence += MORE_STAGES
    yield IntraFinding("no-overlap", sentence, told.exposed, told.exposed)


def _waits(bubbles: Sequence[Bubble], told: Overlap | None) -> Iterator[IntraFinding]:
    """The longest wait. What a kernel waits for its own multiplications is its work where copies are hidden; a kernel that multiplies
    nothing may well do nothing but wait for memory."""
    for one in bubbles:
        first = f", {_ns(one.fill_ns)} the first time" if one.fill_ns > 2 * max(one.steady_ns, 1) else ""
        at = f" ({short_place(one.place)})" if one.place else ""
        sentence = f"warps stand {one.share:.0%} of their time at `{one.name}`{at}, {_ns(one.steady_ns)} each time{first}"
        known = min(one.share, told.exposed) if told is not None else one.share
        gain = 0.0 if one.of == "math" or (one.of == "loads" and told is None) else known
        yield IntraFinding("wait", sentence, one.share, gain, one.place)


def _roles(roles: Sequence[Role], bubbles: Sequence[Bubble], path: RolePath | None) -> Iterator[IntraFinding]:
    if len(roles) < 2 or roles[0].critical < CRITICAL or roles[0].working < WORTH:
        return
    first, others = roles[0], roles[1:]
    idle = min(others, key=lambda one: (one.working, one.name))
    what = f"{first.critical:.0%} of the critical path is its work" if path else f"{first.critical:.0%} of the time it alone works"
    inner = [part for part in path.parts if part.role == first.name and part.scope] if path else []
    most = f" ({inner[0].share:.0%} `{inner[0].scope}`)" if inner and inner[0].share >= WORTH else ""
    where = next((f", {_at(one)}" for one in bubbles if one.role == idle.name), "")
    sentence = f"`{first.name}` holds the others up: {what}{most}; `{idle.name}` waits {1 - idle.working:.0%} of its time{where}"
    yield IntraFinding("role", sentence, first.critical, 0.0)


def _copies_late(bubbles: Sequence[Bubble], told: Overlap | None, path: RolePath | None) -> Iterator[IntraFinding]:
    """Neither role is slow: what is copied comes late, and too little of it is asked for ahead."""
    if path is None or path.in_flight < IN_FLIGHT:
        return
    waits = "".join(f"; `{one.role}` waits {_at(one)}" for one in [one for one in bubbles if one.role and one.share >= WORTH][:2])
    said = told is not None and told.exposed >= EXPOSED
    sentence = f"{path.in_flight:.0%} of the critical path lies in copies that nothing hides{waits}{'' if said else MORE_STAGES}"
    yield IntraFinding("copies-late", sentence, path.in_flight, path.in_flight)


def _at(one: Bubble) -> str:
    return f"{_ns(one.steady_ns)} each time at `{one.name}`"


def _tail(told: Balance | None) -> Iterator[IntraFinding]:
    if told is None:
        return
    if told.tail >= TAIL:
        sentence = (
            f"{told.tail:.0%} of its multiprocessors' time has no work left: {told.ctas:,} CTAs on {told.sms} multiprocessors "
            f"make {told.waves:.1f} waves of {max(round(told.at_once), 1)} each"
        )
        yield IntraFinding("tail", sentence, told.tail, told.tail)
    if told.slowest_ratio >= SLOW_SM and told.sms > 1:
        sentence = f"CTAs on multiprocessor {told.slowest_sm} take {told.slowest_ratio:.1f} times what they take on the others"
        yield IntraFinding("slow-sm", sentence, told.slowest_ratio, 0.0)


def _uneven(scopes: Sequence[ScopeTime]) -> Iterator[IntraFinding]:
    for one in scopes:
        spread = one.by_warp
        if spread is not None and spread.count > 1 and one.share >= WORTH and spread.ratio >= UNEVEN and one.kind not in ("role", "region"):
            sentence = (
                f"`{one.name}` takes warp {spread.most} {spread.ratio:.1f} times what it takes the median warp: "
                f"{_ns(spread.most_ns)} a CTA instead of {_ns(spread.median_ns)}"
            )
            yield IntraFinding("uneven-warps", sentence, one.share, 0.0, one.place)
            return


def _hot(scopes: Sequence[ScopeTime]) -> Iterator[IntraFinding]:
    inner = [one for one in scopes if not one.beside]
    hottest = max(inner, key=lambda one: one.own_share, default=None)
    if hottest is not None and hottest.own_share >= WORTH:
        at = f" ({short_place(hottest.place)})" if hottest.place else ""
        sentence = f"{hottest.own_share:.0%} of its warps' time is in `{hottest.name}`{at}, {_ns(hottest.median_ns)} each time"
        yield IntraFinding("hot-scope", sentence, hottest.own_share, 0.0, hottest.place)


def warnings(inside: Inside, told: Changes) -> list[str]:
    """What instrumentation changed, and what is missing."""
    return [*_changed(told), *_missing(inside)]


def _changed(told: Changes) -> Iterator[str]:
    plain, now = told.at_once
    if 0 <= now < plain:
        yield (
            f"instrumented, {now} CTAs fit on a multiprocessor instead of {plain} "
            f"({told.registers[0]} → {told.registers[1]} registers, {_bytes(told.shared[0])} → {_bytes(told.shared[1])} shared): "
            "what overlaps between CTAs is not what overlaps without"
        )
    elif 0 <= told.registers[0] < told.registers[1]:
        yield f"instrumented, it takes {told.registers[1]} registers a thread instead of {told.registers[0]}"
    if 0 <= told.spills[0] < told.spills[1]:
        yield f"instrumented, it spills {told.spills[1]} registers instead of {told.spills[0]}: choose fewer scopes"
    if told.overhead is not None and told.overhead >= OVERHEAD:
        yield (
            f"instrumented, it takes {told.overhead:.0%} longer ({_ns(told.took_ns[1])} instead of {_ns(told.took_ns[0])}): "
            "choose fewer scopes (`auto`), or fewer warps"
        )


def _bytes(value: int) -> str:
    return amount(max(value, 0), "bytes")


def _missing(inside: Inside) -> Iterator[str]:
    sums = inside.launches.select("records", "dropped", "unpaired", "bad_ctas").sum().row(0)
    records, dropped, unpaired, bad = (int(one) for one in sums)
    if dropped > DROPPED * max(records + dropped, 1):
        yield f"{dropped / (records + dropped):.0%} of its records were overwritten by later ones: of long warps only the end is shown"
    if unpaired > DROPPED * max(records, 1) + 8 * int((inside.warps["dropped"] > 0).sum()):
        yield f"{unpaired:,} of {records:,} records have no other end: scopes that are left in the middle are not shown"
    if bad:
        yield f"{bad:,} CTAs left no records"
    worst = float(inside.launches["ns_per_cycle_error"].max() or 0)  # type: ignore[arg-type]
    if worst > UNCERTAIN:
        yield "the pace of its clocks is only bounded by how long CTAs took: times in ns may be too long by what lies outside of all scopes"

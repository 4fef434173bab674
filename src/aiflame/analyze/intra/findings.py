"""Findings about the inside of a kernel, and warnings if they may be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from aiflame.values import dataclass

EXPOSED = 0.1
"""Smallest share of the time: below it, hiding copies wins less than a pipeline stage costs in shared memory."""
MORE_STAGES = ": try more stages (num_stages)"
WAITS = 0.1
TAIL = 0.1
CRITICAL = 0.5
"""Smallest share of the critical path."""
IN_FLIGHT = 0.25
"""Smallest share of the critical path in copies that nothing hides."""
UNEVEN = 1.5
"""A warp's time in a scope, relative to the median warp's."""
WORTH = 0.1
"""Smallest share of the warps' time: a scope with less is not reported."""
SLOW_SM = 1.2
OVERHEAD = 0.15
DROPPED = 0.01
UNCERTAIN = 0.02
"""Relative error of a clock's rate."""


@dataclass(frozen=True, slots=True)
class IntraFinding:
    kind: str
    """no-overlap, wait, hot-scope, role, copies-late, tail, uneven-warps, slow-sm"""
    sentence: str
    share: float
    """The number in the sentence: a share of the kernel's time or of its warps' time."""
    recoverable: float
    """The largest share of the kernel's time that better code might win."""
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
    """The findings, the most promising first."""
    of_roles = [*_roles(roles, bubbles, path), *_copies_late(bubbles, overlap, path)]
    waits = [] if of_roles else [one for one in bubbles[:1] if one.share >= WAITS]
    covered = {one.name for one in (bubbles if roles else waits)} | {one.name for one in roles}
    sentences = [
        *_no_overlap(took_ns, overlap, path),
        *_waits(waits, overlap),
        *of_roles,
        *_tail(balance),
        *_uneven(scopes),
        *_hot([one for one in scopes if one.name not in covered]),
    ]
    return sorted(sentences, key=lambda one: (-one.recoverable, one.kind, one.sentence))


def _ns(value: float) -> str:
    return amount(round(value), "ns")


def _no_overlap(took_ns: float, overlap: Overlap | None, path: RolePath | None) -> Iterator[IntraFinding]:
    if overlap is None or overlap.exposed < EXPOSED:
        return
    only = "" if overlap.overlapped >= 0.5 else "only "
    hidden = (
        f"math hides {only}{overlap.overlapped:.0%} of its copies"
        if overlap.overlapped >= 0.005
        else "copies and math do not overlap at all"
    )
    sentence = (
        f"{hidden}: {overlap.exposed:.0%} of the time copies are waited for and nothing is multiplied. "
        f"Fully overlapped this kernel would take {_ns(took_ns * overlap.bound)} instead of {_ns(took_ns)}, if memory delivers that fast"
    )
    if path is None or path.in_flight >= IN_FLIGHT:
        sentence += MORE_STAGES
    yield IntraFinding("no-overlap", sentence, overlap.exposed, overlap.exposed)


def _waits(bubbles: Sequence[Bubble], overlap: Overlap | None) -> Iterator[IntraFinding]:
    """The longest wait. If copies are hidden, waiting for its own multiplications is a kernel's normal work; a kernel without
    multiplications may have nothing to do but wait for memory."""
    for one in bubbles:
        first = f", {_ns(one.fill_ns)} the first time" if one.fill_ns > 2 * max(one.steady_ns, 1) else ""
        at = f" ({short_place(one.place)})" if one.place else ""
        sentence = f"warps stand {one.share:.0%} of their time at `{one.name}`{at}, {_ns(one.steady_ns)} each time{first}"
        exposed = min(one.share, overlap.exposed) if overlap is not None else one.share
        gain = 0.0 if one.of == "math" or (one.of == "loads" and overlap is None) else exposed
        yield IntraFinding("wait", sentence, one.share, gain, one.place)


def _roles(roles: Sequence[Role], bubbles: Sequence[Bubble], path: RolePath | None) -> Iterator[IntraFinding]:
    if len(roles) < 2 or roles[0].critical < CRITICAL or roles[0].working < WORTH:
        return
    first, others = roles[0], roles[1:]
    idle = min(others, key=lambda one: (one.working, one.name))
    cost = f"{first.critical:.0%} of the critical path is its work" if path else f"{first.critical:.0%} of the time it alone works"
    inner = [part for part in path.parts if part.role == first.name and part.scope] if path else []
    most = f" ({inner[0].share:.0%} `{inner[0].scope}`)" if inner and inner[0].share >= WORTH else ""
    where = next((f", {_at(one)}" for one in bubbles if one.role == idle.name), "")
    sentence = f"`{first.name}` holds the others up: {cost}{most}; `{idle.name}` waits {1 - idle.working:.0%} of its time{where}"
    yield IntraFinding("role", sentence, first.critical, 0.0)


def _copies_late(bubbles: Sequence[Bubble], overlap: Overlap | None, path: RolePath | None) -> Iterator[IntraFinding]:
    """No role is slow: copies come late, and too few are issued ahead."""
    if path is None or path.in_flight < IN_FLIGHT:
        return
    waits = "".join(f"; `{one.role}` waits {_at(one)}" for one in [one for one in bubbles if one.role and one.share >= WORTH][:2])
    said = overlap is not None and overlap.exposed >= EXPOSED
    sentence = f"{path.in_flight:.0%} of the critical path lies in copies that nothing hides{waits}{'' if said else MORE_STAGES}"
    yield IntraFinding("copies-late", sentence, path.in_flight, path.in_flight)


def _at(one: Bubble) -> str:
    return f"{_ns(one.steady_ns)} each time at `{one.name}`"


def _tail(balance: Balance | None) -> Iterator[IntraFinding]:
    if balance is None:
        return
    if balance.tail >= TAIL:
        sentence = (
            f"{balance.tail:.0%} of its multiprocessors' time has no work left: {balance.ctas:,} CTAs on {balance.sms} multiprocessors "
            f"make {balance.waves:.1f} waves of {max(round(balance.at_once), 1)} each"
        )
        yield IntraFinding("tail", sentence, balance.tail, balance.tail)
    if balance.slowest_ratio >= SLOW_SM and balance.sms > 1:
        sentence = f"CTAs on multiprocessor {balance.slowest_sm} take {balance.slowest_ratio:.1f} times as long as on the others"
        yield IntraFinding("slow-sm", sentence, balance.slowest_ratio, 0.0)


def _uneven(scopes: Sequence[ScopeTime]) -> Iterator[IntraFinding]:
    for one in scopes:
        spread = one.by_warp
        if spread is not None and spread.count > 1 and one.share >= WORTH and spread.ratio >= UNEVEN and one.kind not in ("role", "region"):
            sentence = (
                f"`{one.name}` takes warp {spread.most} {spread.ratio:.1f} times as long as the median warp: "
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


def warnings(inside: Inside, changes: Changes) -> list[str]:
    """Warnings about changes by instrumentation, and about missing records."""
    return [*_changed(changes), *_missing(inside)]


def _changed(changes: Changes) -> Iterator[str]:
    plain, now = changes.at_once
    if 0 <= now < plain:
        yield (
            f"instrumented, {now} CTAs fit on a multiprocessor instead of {plain} "
            f"({changes.registers[0]} → {changes.registers[1]} registers, {_bytes(changes.shared[0])} → {_bytes(changes.shared[1])} "
            "shared): CTAs overlap differently than without instrumentation"
        )
    elif 0 <= changes.registers[0] < changes.registers[1]:
        yield f"instrumented, it takes {changes.registers[1]} registers a thread instead of {changes.registers[0]}"
    if 0 <= changes.spills[0] < changes.spills[1]:
        yield f"instrumented, it spills {changes.spills[1]} registers instead of {changes.spills[0]}: choose fewer scopes"
    if changes.overhead is not None and changes.overhead >= OVERHEAD:
        yield (
            f"instrumented, it takes {changes.overhead:.0%} longer ({_ns(changes.took_ns[1])} instead of {_ns(changes.took_ns[0])}): "
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
        yield "the pace of its clocks is only bounded by how long CTAs took: times in ns may be too long by the time outside of all scopes"

"""Findings about waiting: its share of elapsed time, its line, and the thread that caused it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.holder import holder_text, surely_above
from aiflame.analyze.layer_groups import escaped
from aiflame.analyze.native_places import HELD
from aiflame.analyze.places import hottest, short_place
from aiflame.analyze.waiting import Cost, Waiting, Why, blocked_loop, costs, holders, loaders
from aiflame.attribute.stacks.sample_time import traced
from aiflame.attribute.tree import WALL_TIME
from aiflame.resolve.waits import GIL, IO, LOCK, SLEEP

LEAST_SHARE = 0.1
LEAST_SEEN = 20
"""Smallest number of waits that were seen: their sum comes from the kernel's accounts, and only the line is an estimate."""
LEAST_SAMPLES = 100
"""The same for wall-clock samples, whose sum is an estimate, too."""
A_PART = 0.2
"""Relative to an equal share of the waits: a thread with less is not one of those that wait."""
MOSTLY = 0.6
"""A share of the waits: a thread that certainly has more is the only subject of the sentence."""
OR_READY = 0.25
"""A share of the waits: up to this, wall-clock samples do not distinguish a waiting thread from one without a CPU."""
GAINS: Mapping[Why, float] = {Why.LOCK: 0.9, Why.GIL: 0.9, Why.IO: 0.7, Why.SLEEP: 1.0, Why.DATA: 0.9}
_DOING: Mapping[Why, str] = {
    Why.LOCK: "waits for a lock",
    Why.GIL: "waits for Python's interpreter lock (GIL)",
    Why.IO: "waits for input and output",
    Why.SLEEP: "sleeps",
    Why.DATA: "waits for its DataLoader",
}
_LABELS: Mapping[Why, str] = {Why.LOCK: LOCK, Why.GIL: GIL, Why.IO: IO, Why.SLEEP: SLEEP}


def waiting_findings(of: Waiting) -> Iterator[Finding]:
    of_reasons = costs(of)
    for why in _DOING:
        cost = of_reasons.get(why)
        if cost is None or cost.share < LEAST_SHARE:
            continue
        least = LEAST_SAMPLES if of.sampled and not traced(cost.rows["ns"]) else LEAST_SEEN
        if len(cost.rows) < least:
            continue
        yield from _of_loop(of, why, cost) or [_of(of, why, cost)]


def _of(of: Waiting, why: Why, cost: Cost) -> Finding:
    place, caller, at = _at(cost.rows, why)
    call = f" ({_call(cost.rows)})" if why is Why.IO and _call(cost.rows) else ""
    file, _, line = place.rpartition(":")
    here = cost.rows.filter((pl.col("file") == file) & (pl.col("line") == int(line))) if place else cost.rows
    primitive = _primitive(cost.rows) if why is Why.LOCK else ""
    more = holder_text(of, holders(of, here, why)) if why is Why.GIL or (why is Why.LOCK and primitive in ("", HELD)) else ""
    if why is Why.DATA:
        more = _workers(of, cost)
    doing = f"waits for {primitive}" if primitive else _DOING[why]
    sentence = f"{_who(of, cost.rows)} {doing}{call}{_or_ready(of, why, cost)} {cost.share:.0%} of the time{at}{more}"
    return Finding(sentence, cost.share, _view(of, why, caller, place), f"waiting-{why.value}", cost.share * GAINS[why])


def _at(rows: pl.DataFrame, why: Why) -> tuple[str, str, str]:
    """The line with most of these waits, its function, and both in words. Native code may have no line: then its library is named."""
    place, caller = hottest(rows.select("file", "line", "caller", value="ns"))
    if place:
        file, _, line = place.rpartition(":")
        is_native = (rows.filter((pl.col("file") == file) & (pl.col("line") == int(line)))["module"] != "").any()
        where = f"in {caller}() ({short_place(place)})" if is_native else f"at {short_place(place)}"
        return place, caller, f" {where}" if why is Why.DATA else f", most {where}"
    functions = rows.filter(pl.col("caller") != "").group_by("caller", "module").agg(pl.col("ns").sum())
    if functions.is_empty():
        return "", "", ""
    caller, module, _ = functions.sort("ns", "caller", "module", descending=[True, False, False]).row(0)
    return "", caller, f", most in {caller}() ({module})"


def _primitive(rows: pl.DataFrame) -> str:
    """The synchronization primitive of most of these waits in native code; "" for a mutex."""
    primitives = rows.group_by("primitive").agg(pl.col("ns").sum()).sort("ns", "primitive", descending=[True, False])
    primitive, ns = primitives.row(0)
    return str(primitive) if ns > MOSTLY * int(rows["ns"].sum()) else ""


def _or_ready(of: Waiting, why: Why, cost: Cost) -> str:
    if of.ready_ns < OR_READY * int(cost.rows["ns"].sum()):
        return ""
    return " or waits for a CPU" if why is Why.SLEEP else " or for a CPU"


def _view(of: Waiting, why: Why, caller: str, place: str) -> Evidence:
    """The evidence. Without wall-clock samples there is no flame graph of waits."""
    if not of.sampled:
        return Evidence("timeline", WALL_TIME.name, place=place, search=f"^{escaped(caller)}$" if caller else "")
    label = _LABELS.get(why, "") or caller
    return Evidence("flame", WALL_TIME.name, "code", f"^{escaped(label)}$" if label else "", place=place)


def _who(of: Waiting, rows: pl.DataFrame) -> str:
    """The subject of a sentence: the thread that has most of these waits, or all threads with an equal share of them."""
    threads = rows.group_by("process", "thread").agg(pl.col("ns").sum()).sort("ns", "process", "thread", descending=[True, False, False])
    whole = int(threads["ns"].sum())
    samples = whole**2 / float((rows["ns"].cast(pl.Float64) ** 2).sum())
    alone = surely_above(int(threads["ns"][0]) / whole, samples, MOSTLY)
    chosen = threads.head(1) if alone else threads.filter(pl.col("ns") > whole * A_PART / len(threads))
    pairs = set(chosen.select("process", "thread").rows())
    if pairs <= set(of.threads.filter("main").select("process", "thread").rows()):
        return "The main thread" if chosen["process"].max() == of.threads["process"].min() else "A child process"
    return f"Each of {len(pairs)} threads" if len(pairs) > 1 else "A thread"


def _call(rows: pl.DataFrame) -> str:
    calls = rows.group_by("call").agg(pl.col("ns").sum()).sort("ns", "call", descending=[True, False])
    name = str(calls["call"][0]).lstrip("_").removeprefix("libc_").removeprefix("GI_").partition("@")[0]
    return "" if name.startswith("[") else name


def _workers(of: Waiting, cost: Cost) -> str:
    many, busy = loaders(of, cost.rows["process"].unique().to_list())
    if not many:
        return ""
    count = f"its {many} workers are" if many > 1 else "its only worker is"
    return f": {count} busy {busy:.0%} of it" + ("" if busy >= 0.5 else ", so that batches are slow on their way")


def _of_loop(of: Waiting, why: Why, cost: Cost) -> list[Finding]:
    """True if most of these waits block an event loop."""
    looped = blocked_loop(cost.rows)
    part = cost.share * int(looped["ns"].sum()) / max(int(cost.rows["ns"].sum()), 1)
    if part < LEAST_SHARE or part < MOSTLY * cost.share:
        return []
    place, caller = hottest(looped.select("file", "line", "caller", value="ns"))
    inside = f"{caller}() ({short_place(place)})" if place else "a callback"
    sentence = f"The event loop stands still {part:.0%} of the time: {inside} {_DOING[why]}{_or_ready(of, why, cost)} on its thread"
    return [Finding(sentence, part, _view(of, why, caller, place), "loop-blocked", part * 0.9)]

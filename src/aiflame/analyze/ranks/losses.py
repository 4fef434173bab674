"""Sentences about time that ranks lose to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aiflame.analyze.amounts import amount
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.ranks.critical_path import Path
from aiflame.analyze.ranks.meetings import Meetings
from aiflame.analyze.ranks.row import Row
from aiflame.analyze.ranks.stragglers import Straggler, where
from aiflame.attribute.meaning.phases import NAMES, Phase

EXPOSED = 0.1
"""Some communication is the price of several ranks; a tenth of the time that nothing hides is worth reporting."""
GAIN = 0.5
"""Overlap can hide a part of it, if there is other work to do at that time."""
MOSTLY = 0.5
"""A rank with more than this share of the critical paths, and more than twice an equal share, is reported."""
VIEW = Evidence("ranks")


def slow(stragglers: Sequence[Straggler], many: int) -> Iterator[Finding]:
    for one in stragglers:
        each = amount(round(one.lost_ns / max(one.times, 1)), "ns")
        place = f" in {one.where}" if one.where else ""
        whose = f"all {many:,} ranks" if one.ranks >= many else f"the {one.ranks:,} ranks that meet there"
        sentence = (
            f"Rank {one.rank} comes last to {one.times:,} of {one.of:,} {one.name}s, late by {each} each{place}: {one.reason}. "
            f"That is {one.share:.1%} of the time of {whose}"
        )
        yield Finding(sentence, one.share, VIEW, "straggler", one.share)


def exposed(rows: Sequence[Row], meetings: Meetings, slowing: Sequence[Straggler]) -> Iterator[Finding]:
    """Communication that nothing hides, of the median rank."""
    talking = [row for row in rows if row.communication_ns and row.whole_ns]
    if not talking:
        return
    share = float(np.median([row.exposed_ns / row.whole_ns for row in talking]))
    if share < EXPOSED:
        return
    spoken = float(np.median([row.communication_ns / row.whole_ns for row in talking]))
    hidden = float(np.median([row.overlap or 0.0 for row in talking]))
    waits = sum(row.waited_ns for row in talking) / max(sum(row.exposed_ns for row in talking), 1)
    lost = f", {min(waits, 1.0):.0%} of it to wait for the last rank" if len(meetings) else ""
    sentence = (
        f"Communication takes {spoken:.0%} of a rank's time and computing hides {hidden:.0%} of that: "
        f"{share:.0%} of the time is exposed{_most(meetings)}{lost}"
    )
    # The cost of stragglers is in sentences of their own.
    remainder = max(share - sum(one.share for one in slowing), 0.0)
    yield Finding(sentence, share, VIEW, "exposed-communication", remainder * GAIN)


def _most(meetings: Meetings) -> str:
    """The collective, phase and layer with the most exposed time."""
    if not len(meetings):
        return ""
    took = np.nansum(meetings.exposed, axis=1)
    places: dict[tuple[str, str, str], float] = {}
    for (name, phase, layer), one in zip(meetings.rows.select("name", "phase", "layer").rows(), took.tolist(), strict=True):
        key = (name, NAMES[Phase(phase)] if phase else "", layer)
        places[key] = places.get(key, 0.0) + one
    (name, phase, layer), _ = max(places.items(), key=lambda item: (item[1], item[0]))
    at = where(phase, layer)
    return f", most in the {name} of {at}" if at else f", most in {name}"


def on_the_path(paths: Sequence[Path], many: int) -> Iterator[Finding]:
    """A rank whose work determines the duration of steps."""
    work: dict[int, int] = {}
    for path in paths[1:] or paths:
        for rank, took in path.decided_by().items():
            work[rank] = work.get(rank, 0) + took
    whole = sum(path.took_ns for path in paths[1:] or paths)
    if many < 2 or not work or not whole:
        return
    rank, took = max(work.items(), key=lambda item: (item[1], -item[0]))
    share = took / whole
    if share > MOSTLY and share > 2 / many:
        sentence = f"Rank {rank} has {share:.0%} of the critical path of the steps: they end when its work does"
        yield Finding(sentence, share, VIEW, "critical-path", 0.0)

"""The ranks for which others wait, where, and why: extra work before they came last, compared with the median rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from aiflame.analyze.ranks.activity import SAYS, Cause
from aiflame.analyze.ranks.facts import CAUSES, RankFacts
from aiflame.analyze.ranks.meetings import LATE_NS, Meetings, lower_median, times_of
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.phases import NAMES, Phase
from aiflame.values import dataclass

OFTEN = 3.0
"""In standard deviations: a straggler is last more often than each rank would be by chance."""
SHARE = 0.01
"""A share of the time: a rank that costs this much is reported however seldom it is last."""
LEAST = 0.001
"""Smallest share of the time: a rank that costs less is not reported."""
ASKED = 200
"""The most slots of ranks whose work is examined, the costliest first: of others only the cause is known."""


@dataclass(frozen=True, slots=True)
class Why:
    cause: Cause
    phase: str
    layer: str
    op: str
    what: str
    """Kernel, function or line; "" where none is known."""


@dataclass(frozen=True, slots=True)
class Late:
    """A collective, and the rank that came to it last."""

    group: str
    number: int
    name: str
    step: int
    """-1: in no step."""
    phase: str
    layer: str
    """The layer in which it was begun."""
    rank: int
    late_ns: int
    """Delay after the median rank."""
    own_ns: int
    """The part of its lateness that arose since the previous collective; it was late by the remainder before."""
    waited_ns: int
    """The waiting time of all other ranks together."""
    waiting: int
    """Ranks that waited."""
    at_ns: int
    """When it came, on the clock of the first rank."""
    why: Why | None
    """None if it was as late before this collective."""


@dataclass(frozen=True, slots=True)
class Straggler:
    rank: int
    why: Why
    name: str
    """The kind of the collectives that it came last to: `all-reduce`."""
    times: int
    of: int
    """The number of such collectives; in `times` of them the rank was last because of its own work."""
    lost_ns: int
    """Its total delay because of its own work."""
    waited_ns: int
    """The waiting time of all other ranks together at these collectives."""
    share: float
    """`lost_ns` as a share of the time of a rank."""
    ranks: int
    """The number of ranks that meet at such collectives, itself included: all of the job, or those of a group."""

    @property
    def where(self) -> str:
        return where(self.why.phase, self.why.layer)

    @property
    def reason(self) -> str:
        """The reason for sentences: its activity, and the kernel, function or line."""
        activity = self.why.what or (self.why.op if self.why.cause == Cause.COMPUTE else "")
        return SAYS[self.why.cause] + (f" ({activity})" if activity else "")


def where(phase: str, layer: str) -> str:
    """Phase and layer as sentences name them: `Backward of layers.2`."""
    return f"{phase} of {layer}" if phase and layer else phase or layer


def stragglers(facts: Sequence[RankFacts], meetings: Meetings, whole_ns: int) -> tuple[list[Straggler], list[Late]]:
    """Stragglers and late ranks, the costliest first, over all collectives to which a rank was late by more than LATE_NS."""
    if not len(meetings):
        return [], []
    last, every = meetings.last, np.arange(len(meetings))
    late, own = meetings.late[every, last], meetings.own_late[every, last]
    waits = np.where(np.isnan(meetings.arrival), 0.0, np.maximum(np.nan_to_num(meetings.waited), 0.0))
    waited, waiting = waits.sum(axis=1), (waits > LATE_NS).sum(axis=1)
    guilty = np.flatnonzero(own > LATE_NS)
    cause = _causes(facts, meetings, guilty, last[guilty])
    place = meetings.place[every, last]
    slots = [facts[column].collectives["slot"][row] for column, row in zip(last[guilty].tolist(), place[guilty].tolist(), strict=True)]
    slot = np.array(slots, dtype=np.int64)
    events = pl.DataFrame(
        {"row": guilty, "column": last[guilty], "slot": slot, "cause": cause, "own": own[guilty], "waited": waited[guilty]},
        schema={"row": pl.Int64, "column": pl.Int64, "slot": pl.Int64, "cause": pl.Int64, "own": pl.Float64, "waited": pl.Float64},
    )
    pairs = events.group_by("column", "slot", "cause").agg(times=pl.len(), own=pl.col("own").sum(), waited=pl.col("waited").sum())
    pairs = pairs.sort("own", "column", "slot", "cause", descending=[True, False, False, False])
    asked = pairs.head(ASKED).select("column", "slot", "cause").rows()
    slots_of = {column: facts[column].slots.rows() for column in events["column"].unique().to_list()}
    doing = _Doing.of(facts, [(column, slot) for column, slot, _ in asked])
    whys = {(column, slot, cause): doing.why(facts, column, slot, Cause(cause)) for column, slot, cause in asked}
    for column, slot, cause in pairs[ASKED:].select("column", "slot", "cause").rows():
        whys[column, slot, cause] = _why_of_slot(slots_of[column][slot], Cause(cause))
    why_of = {row: whys[column, slot, cause] for row, column, slot, cause in events.select("row", "column", "slot", "cause").rows()}
    order = np.argsort(-own, kind="stable")
    order = order[late[order] > LATE_NS]
    spent = np.stack([late, own, waited], axis=1).round().astype(np.int64).tolist()
    lates = [_late(meetings, row, int(last[row]), spent[row], int(waiting[row]), why_of.get(row)) for row in order.tolist()]
    return _named(slots_of, meetings, pairs, whys, whole_ns), lates


def _late(meetings: Meetings, row: int, column: int, spent: list[int], waiting: int, why: Why | None) -> Late:
    of = meetings.rows.row(row, named=True)
    phase = NAMES[Phase(of["phase"])] if of["phase"] else ""
    late, own, waited = spent
    rank, layer = meetings.ranks[column], of["layer"]
    at = meetings.origin_ns + round(float(meetings.arrival[row, column]))
    return Late(of["group"], of["number"], of["name"], of["step"], phase, layer, rank, late, own, waited, waiting, at, why)


def _causes(facts: Sequence[RankFacts], meetings: Meetings, row: Ints, column: Ints) -> Ints:
    """For each of these meetings, the cause by which its last rank exceeds the median rank most."""
    excess = np.zeros((len(CAUSES), len(row)))
    for number, name in enumerate(CAUSES):
        times = times_of(facts, meetings, name)[row]
        excess[number] = times[np.arange(len(row)), column] - lower_median(times)[:, 0]
    best: Ints = np.argmax(excess, axis=0)
    return np.where(excess.max(axis=0, initial=0) > 0, best, int(Cause.UNKNOWN))


_KEY = ("phase", "layer", "op", "what")


@dataclass(frozen=True, slots=True)
class _Doing:
    """The work of ranks before the collectives of some slots, and that of the median rank."""

    rows: pl.DataFrame
    """place, cause, _KEY, column of the rank, took, usual (of the median rank); first the rows that exceed the usual most."""
    places: dict[tuple[object, ...], int]

    @staticmethod
    def of(facts: Sequence[RankFacts], asked: Sequence[tuple[int, int]]) -> _Doing:
        """`asked`: columns of ranks, and their slots."""
        places: dict[tuple[object, ...], int] = {}
        for column, slot in asked:
            places.setdefault(_slot(facts[column], slot), len(places))
        many = np.zeros(len(places), dtype=np.int64)
        parts = []
        for column, one in enumerate(facts):
            place = np.array([places.get(row[:_IDENTITY], -1) for row in one.slots.rows()], dtype=np.int64)
            many += np.bincount(place[place >= 0], minlength=len(places))
            of = place[one.doing["slot"].to_numpy()] if len(one.doing) else place[:0]
            rows = one.doing.with_columns(place=pl.Series(of, dtype=pl.Int64), column=pl.lit(column)).filter(pl.col("place") >= 0)
            parts.append(rows.select("place", "cause", *_KEY, "column", "took"))
        every = pl.concat(parts).group_by("place", "cause", *_KEY, "column").agg(pl.col("took").sum())
        # Ranks without such work count as 0: the lower median over all ranks.
        count = pl.col("place").replace_strict(dict(enumerate(many.tolist())), return_dtype=pl.Int64)
        having = pl.col("took").list.len().cast(pl.Int64)
        middle = (count - 1) // 2 - (count - having)
        usual = every.group_by("place", "cause", *_KEY).agg(pl.col("took").sort())
        usual = usual.with_columns(usual=pl.when(middle >= 0).then(pl.col("took").list.get(middle.clip(lower_bound=0))).otherwise(0))
        rows = every.join(usual.drop("took"), on=["place", "cause", *_KEY])
        more = (pl.col("took") - pl.col("usual")).alias("more")
        return _Doing(rows.with_columns(more).sort("more", *_KEY, descending=[True, *[False] * len(_KEY)]), places)

    def why(self, facts: Sequence[RankFacts], column: int, slot: int, cause: Cause) -> Why:
        """The work in which the rank most exceeds the median rank before the collectives of this slot."""
        place = self.places[_slot(facts[column], slot)]
        mine = self.rows.filter(pl.col("place") == place, pl.col("cause") == int(cause), pl.col("column") == column).head(1)
        if mine.is_empty() or mine["more"][0] <= 0:
            return _why_of_slot(facts[column].slots.row(slot), cause)
        phase, layer, op, what = mine.select(_KEY).row(0)
        return Why(cause, NAMES[Phase(phase)] if phase else "", layer, op, what)


_IDENTITY = 4
"""The first columns of a slot identify it: group, position, name, meets."""


def _why_of_slot(slot: tuple[Any, ...], cause: Cause) -> Why:
    """The cause alone, with the phase and layer of the slot, for work that is unknown or was not examined."""
    *_, phase, layer = slot
    return Why(cause, NAMES[Phase(phase)] if phase else "", layer, "", "")


def _slot(one: RankFacts, slot: int) -> tuple[object, ...]:
    return one.slots.row(slot)[:_IDENTITY]


def _named(
    slots_of: Mapping[int, list[tuple[Any, ...]]],
    meetings: Meetings,
    pairs: pl.DataFrame,
    whys: Mapping[tuple[int, int, int], Why],
    whole_ns: int,
) -> list[Straggler]:
    """One row for each rank, place and cause; without ranks that are last only by chance, or cost too little."""
    sizes = meetings.rows.group_by("group", "position", "name").agg(of=pl.len(), ranks=pl.col("ranks").median())
    of = {(group, position, name): (count, ranks) for group, position, name, count, ranks in sizes.rows()}
    by_cause: dict[tuple[int, str, str, Cause], list[tuple[Why, int, float, float, str, int, float]]] = {}
    for column, slot, cause, times, own, waited in pairs.select("column", "slot", "cause", "times", "own", "waited").rows():
        why = whys[column, slot, cause]
        group, position, name = slots_of[column][slot][:3]
        count, ranks = of.get((group, position, name), (times, 2))
        by_cause.setdefault((column, why.phase, why.layer, why.cause), []).append((why, times, own, waited, name, count, ranks))
    stragglers = []
    for (column, *_), rows in by_cause.items():
        times, count = sum(row[1] for row in rows), sum(row[5] for row in rows)
        lost, waited = sum(row[2] for row in rows), sum(row[3] for row in rows)
        by_chance = 1 / max(rows[0][6], 2)
        often = times - count * by_chance > OFTEN * math.sqrt(count * by_chance * (1 - by_chance))
        share = lost / whole_ns if whole_ns else 0.0
        if share >= LEAST and (often or share >= SHARE):
            why, *_, name, _, _ = max(rows, key=lambda row: row[2])
            meet = round(max(row[6] for row in rows))
            stragglers.append(Straggler(meetings.ranks[column], why, name, times, count, round(lost), round(waited), share, meet))
    return sorted(stragglers, key=lambda one: (-one.lost_ns, one.rank, one.where))

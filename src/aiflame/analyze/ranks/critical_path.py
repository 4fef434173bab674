"""The critical path of a step across ranks: the work that would have to be faster for the step to end sooner.

It is followed backwards from the end of the step, on the rank that ended it last. That rank had to wait for the last collective in which it
only communicated, and this collective could begin when its last rank came. So the path goes to that rank, at the moment when it came, and
on from there, until the step's begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl

from aiflame.analyze.ranks.clocks import Clocks
from aiflame.analyze.ranks.facts import RankFacts
from aiflame.analyze.ranks.meetings import LATE_NS, Meetings
from aiflame.attribute.arrays.types import Floats, Ints
from aiflame.attribute.meaning.phases import NAMES, Phase
from aiflame.values import dataclass

BLOCKED = 0.2
"""Smallest share of a collective's time for which it must have blocked a rank; otherwise the rank did its own work in that time."""


@dataclass(frozen=True, slots=True)
class Stretch:
    rank: int
    """The rank that works; for communication, the rank that came last."""
    does: Literal["work", "communication"]
    begin_ns: int
    """Time after the step's begin."""
    took_ns: int
    phase: str
    layer: str
    """For work, the layer of the collective that it leads to; for communication, the collective's own; "" after the last collective."""
    decides: bool = False
    """The rank of this work came to the collective alone, after all others."""


@dataclass(frozen=True, slots=True)
class Path:
    step: int
    took_ns: int
    stretches: tuple[Stretch, ...]
    """The stretches in the order of time."""

    @property
    def communication_ns(self) -> int:
        return sum(one.took_ns for one in self.stretches if one.does == "communication")

    def decided_by(self) -> dict[int, int]:
        """Work on the path, of ranks that came alone and last."""
        times: dict[int, int] = {}
        for one in self.stretches:
            if one.decides:
                times[one.rank] = times.get(one.rank, 0) + one.took_ns
        return times


def critical_paths(facts: Sequence[RankFacts], meetings: Meetings, clocks: Clocks) -> list[Path]:
    """The critical paths of all steps, in their order; none for a job with one rank."""
    if len(facts) < 2:
        return []
    numbers, begin, end = _steps(facts, meetings, clocks)
    last = meetings.last
    of_step = meetings.rows["step"].to_numpy()
    paths = []
    for row, step in enumerate(numbers.tolist()):
        inside = np.flatnonzero(of_step == step)
        paths.append(_walk(meetings, step, inside, last[inside], begin[row], end[row]))
    return paths


def _steps(facts: Sequence[RankFacts], meetings: Meetings, clocks: Clocks) -> tuple[Ints, Floats, Floats]:
    """Each step's number, and its begin and end on each rank; NaN if a rank has no step of that number."""
    spans = [one.steps.filter(pl.col("step") >= 0).group_by("step").agg(pl.col("begin_ns").min(), pl.col("end_ns").max()) for one in facts]
    numbers = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(rows["step"].to_numpy().astype(np.int64) for rows in spans)]))
    begin, end = (np.full((len(numbers), len(facts)), np.nan) for _ in range(2))
    for column, (one, rows) in enumerate(zip(facts, spans, strict=True)):
        at = np.searchsorted(numbers, rows["step"].to_numpy())
        begin[at, column] = clocks.moved(one.rank, rows["begin_ns"].to_numpy()) - meetings.origin_ns
        end[at, column] = clocks.moved(one.rank, rows["end_ns"].to_numpy()) - meetings.origin_ns
    return numbers, begin, end


def _walk(meetings: Meetings, step: int, inside: Ints, last: Ints, begin: Floats, end: Floats) -> Path:
    begun, column = float(np.nanmin(begin)), int(np.nanargmax(end))
    ended = moment = float(end[column])
    arrival, ends, exposed = meetings.arrival[inside], meetings.end[inside], meetings.exposed[inside]
    blocked = exposed > BLOCKED * np.maximum(ends - arrival, 1.0)
    came = arrival[np.arange(len(inside)), last]
    alone = came - np.sort(np.where(np.isnan(arrival), -np.inf, arrival), axis=1)[:, -2] > LATE_NS
    phases, layers = meetings.rows["phase"].to_numpy(), meetings.rows["layer"].to_list()
    stretches: list[Stretch] = []
    phase, layer, decides = "", "", False
    while True:
        # Collectives that ended on this rank before this moment, blocked it, and began before; each only once, since moments only go back.
        possible = np.flatnonzero(blocked[:, column] & (ends[:, column] <= moment) & (came < moment))
        if not len(possible):
            break
        at = int(possible[np.argmax(ends[possible, column])])
        left = float(ends[at, column])
        stretches.append(_stretch(meetings.ranks[column], "work", left, moment, begun, phase, layer, decides))
        row = int(inside[at])
        phase, layer = (NAMES[Phase(int(phases[row]))] if phases[row] else ""), layers[row]
        # If a rank came together with the last one, the path stays on it.
        decides = bool(alone[at])
        column = int(last[at]) if decides or came[at] - arrival[at, column] > LATE_NS else column
        moment = float(arrival[at, column])
        stretches.append(_stretch(meetings.ranks[column], "communication", moment, left, begun, phase, layer))
    start = begin[column] if not np.isnan(begin[column]) else begun
    stretches.append(_stretch(meetings.ranks[column], "work", min(start, moment), moment, begun, phase, layer, decides))
    kept = tuple(one for one in reversed(stretches) if one.took_ns > 0)
    return Path(step, round(ended - begun), kept)


def _stretch(
    rank: int, does: Literal["work", "communication"], begin: float, end: float, begun: float, phase: str, layer: str, decides: bool = False
) -> Stretch:
    return Stretch(rank, does, round(begin - begun), round(end - begin), phase, layer, decides)

"""The collectives of all ranks side by side: a row for each, a column for each rank, with arrivals, waits, and the last rank.

A rank's lateness is its arrival minus the median arrival. The part that arose since the previous collective is the rank's own time since
then minus the median own time; it was late by the remainder before. Extra work of other ranks while they waited is subtracted. Own times
need no common clock, arrivals do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.ranks.clocks import Clocks
from aiflame.analyze.ranks.facts import RankFacts
from aiflame.attribute.arrays.types import Floats, Ints
from aiflame.values import dataclass

LATE_NS = 10_000
"""Smaller lateness is noise of clocks and of launching."""
MEETINGS = {
    "group": pl.String,
    "number": pl.Int64,
    "name": pl.String,
    "step": pl.Int64,
    "position": pl.Int64,
    "phase": pl.Int64,
    "layer": pl.String,
    "bytes": pl.Int64,
    "ranks": pl.Int64,  # number of ranks that recorded it
    "first_ns": pl.Int64,  # time on the common clock
}


@dataclass(frozen=True, slots=True)
class Meetings:
    """Collectives that at least two ranks recorded, and that no rank leaves before all have come. Arrays: meetings × ranks, in ns, NaN if a
    rank was not in it."""

    rows: pl.DataFrame
    """MEETINGS, in the order of their first arrivals."""
    ranks: tuple[int, ...]
    origin_ns: int
    """Origin of `arrival` and `end`, on the common clock."""
    arrival: Floats
    end: Floats
    own: Floats
    """The rank's own time before it arrived, since the previous collective."""
    exposed: Floats
    place: NDArray[np.int64]
    """Row of the rank's collectives, -1: none."""
    unlike: int
    """The number of meetings with different names in different ranks: they were matched wrongly, and are left out."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last(self) -> Ints:
        """The column of the rank that came last."""
        return np.argmax(np.nan_to_num(self.arrival, nan=-np.inf), axis=1) if len(self) else np.zeros(0, dtype=np.int64)

    @property
    def waited(self) -> Floats:
        """How long each rank waited for the last one; at most the time that it was in the collective."""
        came = self.arrival.max(axis=1, initial=-np.inf, where=~np.isnan(self.arrival))
        waited: Floats = np.minimum(came[:, None], self.end) - self.arrival
        return waited

    @property
    def late(self) -> Floats:
        late: Floats = self.arrival - lower_median(self.arrival)
        return late

    @property
    def own_late(self) -> Floats:
        """The part of a rank's lateness that arose since the previous collective; 0 for ranks in time."""
        late, excess = self.late, self.own - lower_median(self.own)
        owed = np.zeros(len(self.ranks))
        own = np.zeros_like(late)
        for row in range(len(self)):
            there = ~np.isnan(late[row])
            behind = there & (late[row] > LATE_NS)
            less = np.where(there, excess[row], 0.0) + owed
            own[row, behind] = np.minimum(late[row], less)[behind]
            # Other ranks did this work while they waited: a late rank that does the same work after them is not later because of it.
            owed = np.where(behind, np.minimum(less, 0.0), np.where(there, 0.0, owed))
        return np.maximum(own, 0.0)


def lower_median(values: Floats) -> Floats:
    """The lower median of each row: of two ranks, the one that came first is the reference for the other."""
    ordered = np.sort(values, axis=1)  # NaN last
    counts = (~np.isnan(values)).sum(axis=1)
    at = np.maximum((counts - 1) // 2, 0)
    return np.take_along_axis(ordered, at[:, None], axis=1)


def meetings(facts: Sequence[RankFacts], clocks: Clocks) -> Meetings:
    names, keys = _distinct(facts)
    shape = (len(names), len(facts))
    origin = min(
        (int(clocks.moved(one.rank, one.collectives["begin_ns"].to_numpy()).min()) for one in facts if len(one.collectives)), default=0
    )
    arrival, end, own, exposed = (np.full(shape, np.nan) for _ in range(4))
    place = np.full(shape, -1)
    for column, (one, (row, kept)) in enumerate(zip(facts, keys, strict=True)):
        begins = one.collectives["begin_ns"].to_numpy()[kept]
        arrival[row, column] = clocks.moved(one.rank, begins) - origin
        end[row, column] = clocks.moved(one.rank, one.collectives["end_ns"].to_numpy()[kept]) - origin
        own[row, column] = one.collectives["own"].to_numpy()[kept]
        exposed[row, column] = one.collectives["exposed"].to_numpy()[kept]
        place[row, column] = kept
    many = (place >= 0).sum(axis=1)
    common = np.flatnonzero(many > 1)
    rows = _rows(facts, keys, names, many)
    first = np.nanmin(arrival[common], axis=1) if len(common) else np.zeros(0)
    order = np.argsort(first, kind="stable")
    common = common[order]
    rows = rows[common].with_columns(first_ns=pl.Series(first[order].astype(np.int64) + origin))
    unlike = rows["unlike"].to_numpy()
    rows, common = rows.filter(pl.Series(~unlike)), common[~unlike]
    return Meetings(
        rows.select(pl.col(name).cast(kind) for name, kind in MEETINGS.items()),
        tuple(one.rank for one in facts),
        origin,
        arrival[common],
        end[common],
        own[common],
        exposed[common],
        place[common],
        int(unlike.sum()),
    )


def _distinct(facts: Sequence[RankFacts]) -> tuple[pl.DataFrame, list[tuple[Ints, Ints]]]:
    """group and number of each collective that meets, and for each rank the rows of its own collectives and their places among these."""
    groups: dict[str, int] = {}
    parts = []
    for one in facts:
        code = np.array([groups.setdefault(group, len(groups)) for group in one.slots["group"]], dtype=np.int64)
        slot = one.collectives["slot"].to_numpy()
        kept = np.flatnonzero(one.slots["meets"].to_numpy()[slot]) if len(slot) else np.zeros(0, dtype=np.int64)
        parts.append((code[slot[kept]] << 32 | one.collectives["number"].to_numpy()[kept].astype(np.int64), kept))
    keys = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(key for key, _ in parts)]))
    names = pl.DataFrame({"group": pl.Series(list(groups), dtype=pl.String).gather(keys >> 32), "number": keys & 0xFFFFFFFF})
    return names, [(np.searchsorted(keys, key), kept) for key, kept in parts]


def _rows(facts: Sequence[RankFacts], keys: list[tuple[Ints, Ints]], names: pl.DataFrame, many: Ints) -> pl.DataFrame:
    """The attributes of each collective, from the first rank that was in it; and whether other ranks disagree."""
    size = len(names)
    kinds: dict[str, int] = {}
    of = np.full(size, -1)
    first = np.full((size, 3), -1)  # column of the rank, its slot, its row
    unlike = np.zeros(size, dtype=np.bool_)
    for column, (one, (row, kept)) in enumerate(zip(facts, keys, strict=True)):
        kind = np.array([kinds.setdefault(name, len(kinds)) for name in one.slots["name"]], dtype=np.int64)
        slot = one.collectives["slot"].to_numpy()[kept].astype(np.int64)
        mine = kind[slot] if len(slot) else slot
        unlike[row] |= (of[row] >= 0) & (of[row] != mine)
        new = of[row] < 0
        of[row[new]] = mine[new]
        first[row[new]] = np.stack([np.full(int(new.sum()), column), slot[new], kept[new]], axis=1)
    parts = []
    for column in np.unique(first[:, 0]).tolist():
        at = np.flatnonzero(first[:, 0] == column)
        one = facts[column]
        slots = one.slots[first[at, 1]].select("name", pl.col("position", "phase").cast(pl.Int64), "layer")
        parts.append(
            slots.hstack(one.collectives[first[at, 2]].select(pl.col("step", "bytes").cast(pl.Int64))).with_columns(at=pl.Series(at))
        )
    wanted = ("name", "position", "phase", "layer", "step", "bytes")
    empty = pl.DataFrame(schema={**{name: MEETINGS[name] for name in wanted}, "at": pl.Int64})
    return names.hstack(pl.concat([empty, *parts]).sort("at").drop("at")).with_columns(ranks=pl.Series(many), unlike=pl.Series(unlike))


def times_of(facts: Sequence[RankFacts], meetings: Meetings, column: str) -> Floats:
    """A column of `facts.COLLECTIVES` for each meeting and rank."""
    times = np.full(meetings.place.shape, np.nan)
    for at, one in enumerate(facts):
        there = meetings.place[:, at] >= 0
        times[there, at] = one.collectives[column].to_numpy()[meetings.place[there, at]]
    return times

"""Computes one rank's facts from its tables: a pure function with a small result. Facts of many ranks can be merged in any order.

Every moment of a rank counts once. It is `compute` while a kernel runs that is not a collective (without devices, while one of its threads
is on a CPU and does not communicate); otherwise `exposed` while it communicates; otherwise `copies` while memory is copied; otherwise
`idle`. `communication` is all time in which it communicates, whether computing hides it or not. A moment belongs to the step and phase of
the work that runs then, or if none runs, of the next work.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.ranks.activity import Activity, Cause, Rule, taken_out
from aiflame.analyze.ranks.collectives import Communication, communication
from aiflame.analyze.ranks.cpus import on_cpus
from aiflame.analyze.ranks.devices import on_devices
from aiflame.analyze.spans import Spans, union
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.phases import Phase
from aiflame.profile.folder.meta import Meta
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

TIMES = ("compute", "communication", "exposed", "copies", "idle")
STEPS = {"step": pl.Int32, "phase": pl.Int8, "begin_ns": pl.Int64, "end_ns": pl.Int64, **dict.fromkeys(TIMES, pl.Int64)}
"""A row for each step and phase; `begin_ns` and `end_ns`: from its first to its last moment."""
LAYERS = {"phase": pl.Int8, "layer": pl.String, "took": pl.Int64, "count": pl.Int64}
"""Computing of layers within steps; overlapping work counts for each."""
SLOTS = {"group": pl.String, "position": pl.Int32, "name": pl.String, "meets": pl.Boolean, "phase": pl.Int8, "layer": pl.String}
"""Slots of collectives: `position` n is the n-th collective of its group in a step (-1: outside of steps), with the phase and layer in
which it usually began."""
CAUSES = tuple(cause.name.lower() for cause in Cause)
COLLECTIVES = {
    "slot": pl.UInt32,  # row of the slots
    "number": pl.UInt32,  # number in its group
    "step": pl.Int32,
    "bytes": pl.Int64,
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    "own": pl.Int64,  # the rank's own time since the begin of the previous collective, without exposed communication
    "exposed": pl.Int64,
    **dict.fromkeys(CAUSES, pl.Int64),  # parts of `own`
}
DOING = {
    "slot": pl.UInt32,
    "cause": pl.Int8,
    "phase": pl.Int8,
    "layer": pl.String,
    "op": pl.String,
    "what": pl.String,
    "took": pl.Int64,
    "count": pl.Int64,
}
"""The rank's work in its own time before collectives, summed over the collectives of a slot."""
MOST_DOING = 20_000
"""The most rows of DOING that are kept, the longest."""


@dataclass(frozen=True, slots=True)
class RankFacts:
    rank: int
    source: str
    """The profile from which it was read; if two profiles have this rank, the one with the first name counts."""
    host: str
    boot: str
    """The boot of the host: ranks with the same boot have the same clock."""
    realtime_ns: int
    """CLOCK_REALTIME when CLOCK_MONOTONIC was 0."""
    rule: Rule
    """The source of its computing time (`ranks.activity`)."""
    times: tuple[int, ...]
    """TIMES of the whole rank."""
    steps: pl.DataFrame
    layers: pl.DataFrame
    slots: pl.DataFrame
    collectives: pl.DataFrame
    """COLLECTIVES, in the order of their begins."""
    doing: pl.DataFrame
    damage: tuple[str, ...] = ()
    """Notes of an imported trace on its gaps."""

    @property
    def whole_ns(self) -> int:
        return sum(self.times) - self.times[TIMES.index("communication")]


@dataclass(frozen=True, slots=True)
class Partial:
    """Facts of some ranks. `merged` is associative and commutative, and has `Partial()` as its neutral element."""

    facts: tuple[RankFacts, ...] = ()
    """By rank, each rank once."""
    notes: tuple[str, ...] = ()
    """Sorted, each once."""

    def merged(self, other: Partial) -> Partial:
        by_rank: dict[int, RankFacts] = {}
        notes = {*self.notes, *other.notes}
        for one in (*self.facts, *other.facts):
            first = by_rank.setdefault(one.rank, one)
            if first.source != one.source:
                by_rank[one.rank] = min(first, one, key=lambda facts: facts.source)
                notes.add(f"{max(first.source, one.source)} left out: another profile is rank {one.rank}, too")
        return Partial(tuple(by_rank[rank] for rank in sorted(by_rank)), tuple(sorted(notes)))


def of_rank(profile: Tables, meta: Meta, rank: int, size: int = 0, source: str = "") -> RankFacts:
    """The facts of the rank that recorded these tables. `size`: number of processes in the job, 0: unknown."""
    analysis = profile_analysis(profile)
    talk = communication(analysis, size)
    if analysis.devices:
        did, steps = on_devices(analysis), analysis.per_step
    else:
        did, steps = on_cpus(analysis.profile, talk)
    talk = Communication(_with_places(talk.collectives, did), talk.pairs)
    spoken = _spans(talk)
    edges = [*(column for frame in (did.items, talk.collectives, talk.pairs) for column in (frame["begin_ns"], frame["end_ns"]))]
    begin, end = (function(edge) for function, edge in ((min, _ends(edges, "min")), (max, _ends(edges, "max"))))
    slots, slot = _slots(talk.collectives)
    collectives = _collectives(talk, did, spoken, slot)
    inside = steps["step"].n_unique() > 0
    return RankFacts(
        rank,
        source,
        meta.host.name,
        meta.host.boot_id,
        _realtime(profile, meta),
        did.rule,
        tuple(int(value[0]) for value in _times(did, spoken, np.array([begin]), np.array([end])).values()),
        _steps(talk, did, spoken),
        _layers(did, inside),
        slots,
        collectives,
        _doing(did, collectives),
        meta.degraded if meta.imported is not None else (),
    )


def _ends(edges: list[pl.Series], which: str) -> list[int]:
    return [int(getattr(edge, which)()) for edge in edges if len(edge)] or [0]


def _realtime(profile: Tables, meta: Meta) -> int:
    """The time of day minus CLOCK_MONOTONIC: the median in the profile's table `clocks`, otherwise the recorder's reading at the start."""
    rows = profile.table("clocks") if profile.has("clocks") else pl.DataFrame()
    if len(rows):
        difference = rows.select(pl.col("realtime_ns").cast(pl.Int64) - pl.col("monotonic_ns").cast(pl.Int64)).to_series().sort()
        return int(difference[len(difference) // 2])
    return meta.started.realtime_ns - meta.started.monotonic_ns


def _spans(talk: Communication) -> Spans:
    both = (talk.collectives, talk.pairs)
    return union(*(np.concatenate([frame[side].to_numpy() for frame in both]) for side in ("begin_ns", "end_ns")))


def _with_places(collectives: pl.DataFrame, did: Activity) -> pl.DataFrame:
    """Gives collectives without phase or layer those of the work before them, if it is in the same step."""
    work = did.items.join(did.sites.with_row_index("site").cast({"site": pl.Int64}), on="site", how="left", maintain_order="left")
    work = work.filter(pl.col("phase").is_between(int(Phase.DATA), int(Phase.OPTIMIZER)), pl.col("cause") == int(Cause.COMPUTE)).sort(
        "begin_ns"
    )
    if work.is_empty():
        return collectives
    at = np.searchsorted(work["begin_ns"].to_numpy(), collectives["begin_ns"].to_numpy(), side="right") - 1
    before = work[np.maximum(at, 0)]
    open_ = (collectives["phase"] == int(Phase.COMMUNICATION)) & pl.Series(at >= 0) & (before["step"] == collectives["step"])
    return collectives.with_columns(
        phase=pl.when(open_).then(before["phase"]).otherwise("phase"),
        layer=pl.when(open_ & (pl.col("layer") == "")).then(before["layer"]).otherwise("layer"),
    )


def _times(did: Activity, spoken: Spans, begin: Ints, end: Ints) -> dict[str, Ints]:
    """TIMES of each stretch."""
    speaking = union(*(np.concatenate([getattr(spans, side) for spans in (did.computing, spoken)]) for side in ("begin", "end")))
    moving = union(*(np.concatenate([getattr(spans, side) for spans in (speaking, did.copying)]) for side in ("begin", "end")))
    compute, both, anything = (spans.within(begin, end) for spans in (did.computing, speaking, moving))
    return {
        "compute": compute,
        "communication": spoken.within(begin, end),
        "exposed": both - compute,
        "copies": anything - both,
        "idle": np.maximum(end - begin, 0) - anything,
    }


def _steps(talk: Communication, did: Activity, spoken: Spans) -> pl.DataFrame:
    """STEPS. Sorts work, waits for data and collectives by their begins; neighbours with the same step and phase form a stretch. A stretch
    lasts from the end of the previous one to its own last end, or until the next begins."""
    phase = did.sites["phase"].to_numpy()
    gap = np.isin(did.sites["cause"].to_numpy(), (Cause.COMPUTE, Cause.COPY, Cause.DATA, Cause.UNKNOWN), invert=True)
    site = did.items["site"].to_numpy()
    items = did.items.filter(pl.Series(~gap[site])) if len(site) else did.items
    columns = [
        np.concatenate([items[name].to_numpy(), talk.collectives[name].to_numpy()]) for name in ("begin_ns", "end_ns", "step")
    ]  # fmt: skip
    of = np.concatenate([phase[items["site"].to_numpy()], talk.collectives["phase"].to_numpy()])
    if not len(of):
        return pl.DataFrame(schema=STEPS)
    order = np.argsort(columns[0], kind="stable")
    begin, end, step = (column[order] for column in columns)
    key = (step << 8) | of[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    last = np.append(first[1:], len(key)) - 1
    reached = np.maximum.accumulate(end)[last]
    stops = np.minimum(reached, np.append(begin[first[1:]], reached[-1]))
    starts = np.append(begin[0], stops[:-1])
    rows = pl.DataFrame({"key": key[first], "begin_ns": starts, "end_ns": stops} | _times(did, spoken, starts, stops))
    summed = rows.group_by("key").agg(pl.col("begin_ns").min(), pl.col("end_ns").max(), pl.col(TIMES).sum()).sort("key")
    named = summed.with_columns(step=pl.col("key") // 256, phase=pl.col("key") % 256)
    return named.select(pl.col(name).cast(kind) for name, kind in STEPS.items())


def _layers(did: Activity, inside: bool) -> pl.DataFrame:
    items = did.items.filter(pl.col("step") >= 0) if inside else did.items
    took = items.group_by("site").agg(took=(pl.col("end_ns") - pl.col("begin_ns")).sum(), count=pl.len())
    rows = did.sites.with_row_index("site").cast({"site": pl.Int64}).filter(pl.col("cause") == int(Cause.COMPUTE)).join(took, on="site")
    summed = rows.group_by("phase", "layer").agg(pl.col("took", "count").sum()).sort("phase", "layer")
    return summed.select(pl.col(name).cast(kind) for name, kind in LAYERS.items())


def _slots(collectives: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """SLOTS, and the slot of each collective."""
    key = ["group", "position", "name", "meets"]
    placed = collectives.with_columns(
        position=pl.when(pl.col("step") >= 0).then(pl.int_range(pl.len()).over("group", "step")).otherwise(-1).cast(pl.Int64)
    )
    where = (
        placed.group_by(*key, "phase", "layer")
        .agg(many=pl.len())
        .sort(*key, "many", "phase", "layer", descending=[*[False] * len(key), True, False, False])
    )
    slots = where.unique(key, keep="first", maintain_order=True)
    slot = placed.join(slots.select(*key, slot=pl.int_range(pl.len())), on=key, how="left", maintain_order="left")["slot"]
    return slots.select(pl.col(name).cast(kind) for name, kind in SLOTS.items()), slot.cast(pl.Int64).to_numpy()


def _collectives(talk: Communication, did: Activity, spoken: Spans, slot: Ints) -> pl.DataFrame:
    """COLLECTIVES. Before its first collective a rank has no own time: it is unknown when the other ranks began."""
    collectives = talk.collectives
    begin, end = collectives["begin_ns"].to_numpy(), collectives["end_ns"].to_numpy()
    since = _since(begin)
    rows = {
        "slot": slot,
        "number": collectives["number"].to_numpy(),
        "step": collectives["step"].to_numpy(),
        "bytes": collectives["bytes"].to_numpy(),
        "begin_ns": begin,
        "end_ns": end,
        "own": begin - since - _times(did, spoken, since, begin)["exposed"],
        "exposed": _times(did, spoken, begin, end)["exposed"],
    }
    computing = {Cause.COMPUTE: did.computing, Cause.COPY: taken_out(did.copying, did.computing)}
    cause = did.sites["cause"].to_numpy()[did.items["site"].to_numpy()] if len(did.items) else np.zeros(0, dtype=np.int64)
    for one in Cause:
        spans = computing.get(one)
        if spans is None:
            of = did.items.filter(pl.Series(cause == one))
            spans = union(of["begin_ns"].to_numpy(), of["end_ns"].to_numpy())
        rows[one.name.lower()] = spans.within(since, begin)
    return pl.DataFrame(rows, schema=COLLECTIVES)


def _since(begin: Ints) -> Ints:
    return np.append(begin[:1], begin[:-1])


def _doing(did: Activity, collectives: pl.DataFrame) -> pl.DataFrame:
    """DOING"""
    until = collectives["begin_ns"].to_numpy()
    since = _since(until)
    begin, end = did.items["begin_ns"].to_numpy(), did.items["end_ns"].to_numpy()
    # Own times do not overlap and are in order: each item is in those from `first` to before `after`.
    first, after = np.searchsorted(until, begin, side="right"), np.searchsorted(since, end, side="left")
    many = np.maximum(after - first, 0)
    item = np.repeat(np.arange(len(begin)), many)
    which = np.arange(len(item)) - np.repeat(np.cumsum(many) - many, many) + first[item]
    took = np.minimum(end[item], until[which]) - np.maximum(begin[item], since[which])
    rows = pl.DataFrame({"slot": collectives["slot"].to_numpy()[which], "site": did.items["site"].to_numpy()[item], "took": took})
    summed = rows.filter(pl.col("took") > 0).group_by("slot", "site").agg(pl.col("took").sum(), count=pl.len())
    named = summed.join(did.sites.with_row_index("site").cast({"site": pl.Int64}), on="site", how="left")
    key = ["slot", "cause", "phase", "layer", "op", "what"]
    joined = named.group_by(key).agg(pl.col("took", "count").sum()).sort("took", *key, descending=[True, *[False] * len(key)])
    return joined.head(MOST_DOING).sort(key).select(pl.col(name).cast(kind) for name, kind in DOING.items())

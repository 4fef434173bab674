"""The activity of a rank without devices: its CPU samples, and the time in which its communicating threads have no samples.

A sample stands for the time before it. Samples of wall-clock time are preferred: they also cover threads that wait. The rank computes while
samples show one of its threads on a CPU that neither communicates nor spins. Without samples it computes whenever none of its threads is in
a call that communicates.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.labels import gathered
from aiflame.analyze.places import place_of, place_text, places, short_place
from aiflame.analyze.ranks.activity import ITEMS, SITES, Activity, Cause, holes
from aiflame.analyze.ranks.collectives import Communication
from aiflame.analyze.spans import Spans, union
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.context import of_samples
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.phases import Phase
from aiflame.attribute.meaning.steps import DATA, automatic_regions
from aiflame.attribute.stacks.functions import Functions, functions
from aiflame.attribute.stacks.samples import VALUE
from aiflame.attribute.stacks.waiting import state_frames
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables

NOTHING = Spans(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def on_cpus(profile: Analysis, communication: Communication) -> tuple[Activity, pl.DataFrame]:
    """The activity of a rank without devices, and its steps: process, thread, step, begin_ns, end_ns."""
    trie = functions(profile)
    clocks = profile.scan("cpu_samples").select(pl.col("clock").max()).collect().item()
    calls = pl.concat([communication.collectives.select(_CALL), communication.pairs.select(_CALL)])
    meaning = of_samples(profile, 0 if clocks is None else int(clocks))
    if clocks is None:
        return _between_calls(communication, calls, meaning.steps), meaning.steps
    rows, labels = _samples(profile, trie, meaning.samples)
    layers, ops = meaning.forests["layer"].paths(), meaning.forests["op"].paths()
    classified = rows.with_columns(gathered(layers, rows["layer"]), gathered(ops, rows["op"]), what=_what(profile, trie, rows, labels))
    classified = _outside_of_calls(classified, calls)
    sites, site = _numbered(classified)
    numbered = classified.with_columns(site=site)
    on_cpu = classified.filter(pl.col("cause") == int(Cause.COMPUTE))
    threads = calls["thread"].unique().to_list() or classified["thread"].unique().to_list()
    own = numbered.filter(pl.col("thread").is_in(threads))
    gaps, gap_sites = _gaps(profile, own, calls, communication.collectives)
    items = pl.concat([part.select(pl.col(name).cast(kind) for name, kind in ITEMS.items()) for part in
                       (own, gaps.with_columns(pl.col("site") + len(sites)))])  # fmt: skip
    computing = union(on_cpu["begin_ns"].to_numpy(), on_cpu["end_ns"].to_numpy())
    return Activity("samples", computing, NOTHING, items, pl.concat([sites, gap_sites])), meaning.steps


_CALL = ("thread", "begin_ns", "end_ns", "blocking")


def _samples(profile: Tables, trie: Functions, samples: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Samples outside of communication, with their time, their cause, and the label of their wait (row of the labels)."""
    states, rows = state_frames(trie, samples)
    innermost = trie.frames[trie.frame[trie.of_stacks(*(rows[name].cast(pl.Int64).to_numpy() for name in ("process", "stack")))]]
    marked = innermost.select(pl.col("kind") == int(Kind.WAIT)).to_series()
    waits = (rows["state"] == int(SampleState.WAITING)) | marked | rows["ending0"].is_not_null()
    took = pl.col(VALUE)
    phase = pl.col("phase").cast(pl.Int64)
    waiting = pl.when(phase == int(Phase.DATA)).then(int(Cause.DATA)).otherwise(int(Cause.WAIT))
    classified = (
        rows.with_columns(
            pl.col("layer", "op").cast(pl.Int64),
            phase=phase,
            thread=pl.col("process") * (1 << 32) + pl.col("thread"),
            of_thread=pl.col("thread"),
            end_ns=pl.col("time_ns"),
            begin_ns=pl.col("time_ns") - took,
            cause=pl.when(waits).then(waiting).otherwise(int(Cause.COMPUTE)).cast(pl.Int64),
        )
        .filter(phase != int(Phase.COMMUNICATION))
        .sort("thread", "end_ns")
        # A sample stands for the time since the previous sample.
        .with_columns(begin_ns=pl.max_horizontal("begin_ns", pl.col("end_ns").shift(1).over("thread").fill_null(0)))
    )
    return classified, states["name"].to_list()


def _what(profile: Tables, trie: Functions, rows: pl.DataFrame, labels: list[str]) -> pl.Series:
    """The line of the program's own source; otherwise the label of the wait, or the innermost function."""
    process, thread, stack = (rows[name].cast(pl.Int64).to_numpy() for name in ("process", "of_thread", "stack"))
    own_lines = places(profile)
    lines = [
        f"{function} ({short_place(place_text(file, line))})" if file else ""
        for file, line, function in own_lines.rows.select("file", "line", "function").rows()
    ]
    innermost = trie.frames["name"][trie.frame[trie.of_stacks(process, stack)]]
    waited = gathered(labels, rows["ending0"].fill_null(0)) if labels else pl.Series([None] * len(rows), dtype=pl.String)
    line = gathered(lines, pl.Series("what", place_of(profile, process, thread, stack)))
    label = pl.when(rows["ending0"].is_not_null()).then(waited)
    return pl.select(pl.when(line != "").then(line).otherwise(pl.coalesce(label, innermost)).alias("what")).to_series()


def _outside_of_calls(rows: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Keeps the parts of samples outside of blocking calls: inside a call a thread communicates, even if its samples show other code."""
    parts = []
    inside = calls.filter("blocking")
    for (thread,), own in rows.partition_by("thread", as_dict=True).items():
        of = inside.filter(pl.col("thread") == thread)
        busy = union(of["begin_ns"].to_numpy(), of["end_ns"].to_numpy())
        begin, end = own["begin_ns"].to_numpy(), own["end_ns"].to_numpy()
        # The last moment outside of calls before the sample, and the end of the last call within the sample's time.
        at = np.searchsorted(busy.begin, end, side="left") - 1
        within = (at >= 0) & (np.append(busy.end, 0)[at] >= end)
        after = np.where((at >= 0) & ~within, np.append(busy.end, 0)[at], begin)
        parts.append(own.with_columns(begin_ns=pl.Series(np.maximum(begin, after))).filter(pl.Series(~within)))
    return pl.concat(parts) if parts else rows


def _gaps(profile: Tables, sampled: pl.DataFrame, calls: pl.DataFrame, collectives: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """ITEMS and SITES of the time, outside of communication, in which a communicating thread has no samples; with the context of the next
    work."""
    waits = automatic_regions(profile).filter((pl.col("name") == DATA) & (pl.col("end_ns") < LATEST))
    items, sites = [pl.DataFrame(schema=ITEMS)], [pl.DataFrame(schema=SITES)]
    arrivals = collectives.select("thread", "begin_ns", "step", "phase", "layer", op=pl.lit(""))
    for (thread,), own in calls.partition_by("thread", as_dict=True).items():
        work = sampled.filter(pl.col("thread") == thread)
        covered = union(*(np.concatenate([work[side].to_numpy(), calls[side].to_numpy()]) for side in ("begin_ns", "end_ns")))
        edges = [part[side] for part in (work, own) for side in ("begin_ns", "end_ns") if len(part)]
        if not edges:
            continue
        free = holes(covered, min(int(edge.min()) for edge in edges), max(int(edge.max()) for edge in edges))  # type: ignore[arg-type]
        of_what = ("begin_ns", pl.col("step", "phase").cast(pl.Int64), "layer", "op")
        following = pl.concat([part.filter(pl.col("thread") == thread).select(of_what) for part in (sampled, arrivals)]).sort("begin_ns")
        at = np.searchsorted(following["begin_ns"].to_numpy(), free.end, side="left")
        some = at < len(following)
        free, at = Spans(free.begin[some], free.end[some]), at[some]
        own_waits = waits.filter((pl.col("process") == thread >> 32) & (pl.col("thread") == thread & 0xFFFFFFFF))
        data = union(own_waits["begin_ns"].to_numpy(), own_waits["end_ns"].to_numpy()).within(free.begin, free.end)
        loading = data * 2 > free.end - free.begin
        after = following[at]
        context = after.with_columns(
            cause=pl.Series(np.where(loading, int(Cause.DATA), int(Cause.WAIT))),
            phase=pl.when(pl.Series(loading)).then(int(Phase.DATA)).otherwise("phase"),
            layer=pl.when(pl.Series(loading)).then(pl.lit("")).otherwise("layer"),
            op=pl.lit(""),
            what=pl.lit(""),
        )
        distinct, site = _numbered(context)
        site += sum(map(len, sites))
        items.append(pl.DataFrame({"begin_ns": free.begin, "end_ns": free.end, "site": site, "step": context["step"]}, schema=ITEMS))
        sites.append(distinct)
    return pl.concat(items), pl.concat(sites)


def _between_calls(communication: Communication, calls: pl.DataFrame, steps: pl.DataFrame) -> Activity:
    """Without samples: time outside of blocking communication counts as computing for the next collective."""
    collectives = communication.collectives
    blocked = calls.filter("blocking")
    busy = union(blocked["begin_ns"].to_numpy(), blocked["end_ns"].to_numpy())
    if collectives.is_empty():
        return Activity("calls", NOTHING, NOTHING, pl.DataFrame(schema=ITEMS), pl.DataFrame(schema=SITES))
    begins: Ints = collectives["begin_ns"].to_numpy()
    begin = min(int(begins[0]), *(steps["begin_ns"].to_list() or [int(begins[0])]))
    end = max(int(collectives["end_ns"].max()), *(steps["end_ns"].to_list() or [0]))  # type: ignore[arg-type]
    free = holes(busy, begin, end)
    # Cut where collectives begin, so that each piece has a next collective.
    edges = np.unique(np.concatenate([free.begin, free.end, begins]))
    pieces = Spans(edges[:-1], edges[1:])
    inside = free.within(pieces.begin, pieces.end) > 0
    pieces = Spans(pieces.begin[inside], pieces.end[inside])
    following = collectives[np.minimum(np.searchsorted(begins, pieces.end, side="left"), len(begins) - 1)]
    context = following.select("phase", "layer", "step", op=pl.lit(""), what=pl.lit(""), cause=pl.lit(int(Cause.UNKNOWN), pl.Int64))
    sites, site = _numbered(context)
    items = pl.DataFrame({"begin_ns": pieces.begin, "end_ns": pieces.end, "site": site, "step": context["step"]}, schema=ITEMS)
    return Activity("calls", free, NOTHING, items, sites)


def _numbered(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """The distinct SITES of rows, and the number of each row's site."""
    sites = rows.select(pl.col(name).cast(kind) for name, kind in SITES.items()).unique(maintain_order=True)
    key = rows.select(pl.col(name).cast(kind) for name, kind in SITES.items())
    return sites, key.join(sites.with_row_index("site"), on=list(SITES), how="left", maintain_order="left")["site"].cast(pl.Int64)

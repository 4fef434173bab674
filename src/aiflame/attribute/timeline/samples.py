"""CPU samples for a timeline: a sample covers the time before it, and consecutive samples of one function become one slice."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.context import Meaning, of_samples
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.stacks.sample_time import sample_ns
from aiflame.attribute.stacks.waiting import state_frames
from aiflame.attribute.timeline.context import Contexts
from aiflame.attribute.timeline.spans import Level, ancestors, path_spans
from aiflame.attribute.timeline.stacks import Stacks
from aiflame.attribute.timeline.tables import Making, Owners, SliceKind
from aiflame.profile.tables.interface import Tables

DEEPEST = 200
"""Functions of a stack beyond this depth are not shown."""
BRIDGED = 20
"""Between samples at most this many periods apart, the thread counts as being in the functions that both have: it did not run for a moment,
or waited. A function in only one of the two gets no more than that sample's own time."""


def clock_of(profile: Tables) -> int | None:
    """The clock to show: wall-clock time, which covers everything, if it was sampled."""
    clocks = set(profile.scan("cpu_samples").select("clock").unique().collect()["clock"].to_list())
    return None if not clocks else 1 if 1 in clocks else 0


def cpu_samples(profile: Tables, making: Making, owners: Owners, stacks: Stacks, meaning: Meaning | None = None) -> None:
    """Adds functions to a track for each thread; and steps, phases, layers and ops to threads of processes that launched nothing.
    `meaning`: the result of `of_samples`, if the caller has it."""
    clock = clock_of(profile)
    if clock is None:
        return
    samples = profile.scan("cpu_samples").filter(pl.col("clock") == clock)
    chosen = samples.select("process", "thread", "stack", "state", "time_ns", "weight", "period_ns").collect()
    track = owners.threads(*(chosen[name].to_numpy().astype(np.int64) for name in ("process", "thread")))
    rows = _stretches(chosen, track)
    _functions(making, owners, stacks, rows)
    launched = profile.scan("launches").select("process").unique().collect()["process"]
    alone = ~rows["process"].is_in(launched.to_list())
    if alone.any():
        if meaning is None:
            analysis = Analysis.of(profile)
            meaning = of_samples(analysis, clock)
            analysis.used(of_samples.part(clock))
        context = pl.DataFrame({name: meaning.samples[name] for name in ("step", "phase", "layer", "op")})[rows["row"].to_numpy()]
        here = rows.hstack(context).filter(alone)
        contexts = Contexts(making, meaning)
        levels = contexts.levels(*(here[name].to_numpy() for name in context.columns))
        own, begin, end = (here[name].to_numpy() for name in ("track", "begin_ns", "end_ns"))
        spans, _ = path_spans(own, begin, end, levels)
        making.slices(contexts.named(spans))


def _stretches(samples: pl.DataFrame, track: Ints) -> pl.DataFrame:
    """The samples by track and time, each with the time that it covers: back to the previous sample, if that is not long ago."""
    time = pl.col("time_ns").clip(upper_bound=LATEST).cast(pl.Int64)
    worth = sample_ns().cast(pl.Int64)
    rows = samples.with_columns(time.alias("end_ns"), worth.alias("worth"), pl.Series("track", track)).with_row_index("row")
    rows = rows.filter(pl.col("time_ns") > 0)  # in imported files a moment need not be known
    rows = rows.sort("track", "end_ns", maintain_order=True)
    before = pl.col("end_ns").shift(1).over("track")
    gap = pl.col("end_ns") - before
    # A tick may come late or early by the resolution of the system's clock, so there is no gap between samples at most two periods apart.
    begin = pl.when(gap <= 2 * pl.col("worth")).then(before).otherwise(pl.max_horizontal(before, pl.col("end_ns") - pl.col("worth")))
    follows = (gap <= BRIDGED * pl.col("worth")).fill_null(False)
    return rows.with_columns(begin_ns=pl.max_horizontal(begin, pl.lit(0)), follows=follows)


def _functions(making: Making, owners: Owners, stacks: Stacks, rows: pl.DataFrame) -> None:
    trie = stacks.trie
    process, stack, track = (rows[name].to_numpy().astype(np.int64) for name in ("process", "stack", "track"))
    distinct, which = np.unique(track, return_inverse=True)
    own = np.array([owners.samples(owner) for owner in distinct.tolist()], dtype=np.int64)[which]
    begin, end = rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy()
    # Each run of samples without a long gap has its own path.
    stretch = np.cumsum(~rows["follows"].to_numpy())
    node = stacks.visible_of(process, stack)
    parent = shown_parents(stacks)
    # `<module>` alone says little.
    file = pl.col("file").str.split("/").list.last()
    named = pl.when(pl.col("name").str.starts_with("<") & (file != "")).then(pl.format("{} {}", "name", file)).otherwise("name")
    names = making.names(trie.frames.select(named.alias("name"))["name"].to_list())[trie.frame]
    states, of_states = state_frames(trie, rows.select("process", "stack", "state"))
    ending = of_states["ending0"].cast(pl.Int64).fill_null(-1).to_numpy()
    state_names = making.names(states["name"].to_list())

    def levels() -> list[Level]:
        functions = [Level(SliceKind.FUNCTION, np.where(at >= 0, at, -1)) for at in ancestors(parent, node, DEEPEST)]
        return [*functions, Level(SliceKind.WAITING, np.where(ending >= 0, len(names) + ending, -1))]

    spans, _ = path_spans(stretch, begin, end, levels())
    value = spans["value"].to_numpy()
    first = np.append(True, stretch[1:] != stretch[:-1])[: len(stretch)]
    of_stretch = np.append(0, own[first])
    making.slices(
        spans.drop("value").with_columns(
            track=pl.Series(of_stretch[spans["track"].to_numpy()]), name=pl.Series(np.concatenate([names, state_names])[value])
        )
    )


def shown_parents(stacks: Stacks) -> NDArray[np.int32]:
    """The trie of shown functions: for each node the next shown one outside of it, 0 where that is a process."""
    trie = stacks.trie
    above = np.where(trie.parent >= 0, stacks.visible[np.maximum(trie.parent, 0)], 0)
    parent = np.where(above > trie.processes, above, 0).astype(np.int32)
    parent[0] = -1
    return parent

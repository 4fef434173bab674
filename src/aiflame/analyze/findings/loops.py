"""Event loops that computing blocks: long turns of a loop's thread, and the coroutine that ran in them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import escaped
from aiflame.analyze.places import hottest, place_of, places, short_place
from aiflame.analyze.scope import steady_scope
from aiflame.analyze.scoped_waiting import inside_steps, scoped_threads
from aiflame.analyze.waiting import LOOP
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.stacks.functions import Functions, functions
from aiflame.attribute.stacks.sample_time import sample_ns
from aiflame.attribute.tree import CPU_TIME
from aiflame.profile.schema.kinds import Kind

LEAST_SHARE = 0.1
LEAST_SAMPLES = 100
LEAST_TURN_NS = 70_000_000
"""Computing time in a turn: on a busy machine, a turn may also be long because the thread waits for a CPU. A turn of 80 ms, the shortest
that is recorded, may begin and end between two ticks that are 10 ms apart."""
DUE = 0.2
"""Smallest share of long turns after which more work was due. (Events that came before a long turn are handled in it.)"""
GAIN = 0.9
_THREAD = ("process", "thread")


def busy_loops(profile: Analysis) -> Iterator[Finding]:
    """Turns in the scope after which the loop has more to do. If its only coroutine computes, nothing else has to wait."""
    if not profile.has("loop_turns"):
        return
    columns = [pl.col(name).cast(pl.Int64) for name in (*_THREAD, "due", "begin_ns", "end_ns")]
    turns, samples = _with_callbacks(profile, profile.table("loop_turns").select(columns))
    if len(samples) < LEAST_SAMPLES or turns["due"].sum() < DUE * len(turns):
        return
    threads = scoped_threads(profile).join(samples.select(_THREAD).unique(), on=_THREAD, how="semi")
    share = int(samples["ns"].sum()) / max(int(threads["elapsed_ns"].sum()), 1)
    if share < LEAST_SHARE:
        return
    took = turns.select(pl.col("end_ns") - pl.col("begin_ns"))
    place, caller = hottest(samples.select("file", "line", "caller", value="ns"))
    coroutine = samples.group_by("coroutine").agg(pl.col("ns").sum()).sort("ns", "coroutine", descending=[True, False])["coroutine"][0]
    at = f" ({short_place(place)})" if place else ""
    inside = f"{coroutine}(){at}" if coroutine == caller else f"{coroutine}()" if coroutine else "a callback"
    more = f", most in {caller}(){at}" if caller and coroutine != caller else ""
    often = f"{share:.0%} of the time, for {amount(int(took.median().item()), 'ns')} each time"
    sentence = f"The event loop stands still {often}, while more is to do: {inside} computes on its thread{more}"
    view = Evidence("flame", CPU_TIME.name, "code", f"^{escaped(caller)}$" if caller else "", place=place)
    yield Finding(sentence, share, view, "loop-computes", share * GAIN)


def _with_callbacks(profile: Analysis, turns: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The turns in which callbacks computed for long, and their samples: process, thread, ns, coroutine (the program's own function that
    the loop called, "" for a library's), file, line, caller."""
    ids = [pl.col(name).cast(pl.Int64) for name in (*_THREAD, "stack", "time_ns")]
    samples = profile.scan("cpu_samples").filter(pl.col("clock") == CLOCK[CPU_TIME.name]).select(*ids, ns=sample_ns().cast(pl.Int64))
    rows = samples.sort("time_ns").collect()
    if (steps := steady_scope(profile)) is not None:
        turns = inside_steps(turns, "begin_ns", "end_ns", steps).filter(pl.col("inside") > 0).drop("inside")
        moments = inside_steps(rows.with_columns(after=pl.col("time_ns") + 1), "time_ns", "after", steps)
        rows = moments.filter(pl.col("inside") > 0).drop("after", "inside")
    turns = turns.sort("begin_ns").with_row_index("turn")
    rows = rows.join_asof(turns, left_on="time_ns", right_on="begin_ns", by=_THREAD, check_sortedness=False)
    rows = rows.filter(pl.col("time_ns") <= pl.col("end_ns"))
    rows = rows.filter(pl.col("ns").sum().over("turn") >= LEAST_TURN_NS)
    trie, own_lines = functions(profile), places(profile)
    process, thread, stack = (rows[name].to_numpy() for name in (*_THREAD, "stack"))
    coroutine = _coroutines(trie, own_lines.rows.filter("own")["file"].unique().to_list())[trie.of_stacks(process, stack)]
    names = pl.select(pl.when(pl.Series(coroutine > 0)).then(trie.frames["name"].gather(trie.frame[coroutine])).otherwise(pl.lit("")))
    lines = own_lines.rows[place_of(profile, process, thread, stack)].select("file", "line", caller="function")
    rows = rows.select(*_THREAD, "turn", "ns", coroutine=names.to_series()).hstack(lines)
    rows = rows.filter(pl.Series(coroutine >= 0) & (pl.col("coroutine") != "<module>"))  # a notebook's cell is alone in the loop
    return turns.join(rows.select("turn").unique(), on="turn", how="semi"), rows


def _coroutines(trie: Functions, own: list[str]) -> Ints:
    """For each node the outermost function of the program that a loop has called at or above it; 0: none of its own, -1: no loop."""
    looped = nodes.nearest(trie.parent, trie.matching(LOOP)) >= 0
    ours = looped & trie.matching((pl.col("kind") == int(Kind.PYTHON)) & pl.col("file").is_in(own))
    outermost = ours & (nodes.nearest(trie.parent, ours, strict=True) < 0)
    return np.where(looped, np.maximum(nodes.nearest(trie.parent, outermost), 0), -1)

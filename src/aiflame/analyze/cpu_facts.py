"""CPU samples joined with their function, their line in the program's source, and their meaning."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.labels import gathered, phase_names
from aiflame.analyze.places import place_of, places
from aiflame.analyze.scope import steady_steps
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays import nodes
from aiflame.attribute.meaning.context import of_samples
from aiflame.attribute.meaning.fused_split import split_over_ops
from aiflame.attribute.meaning.steady import in_steps
from aiflame.attribute.prefixes import STEADY
from aiflame.attribute.stacks.functions import functions
from aiflame.attribute.stacks.own_metrics import clocks
from aiflame.attribute.stacks.samples import VALUE
from aiflame.attribute.stacks.waiting import state_frames
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace

_KEY = ["process", "thread", "stack", "state", "step", STEADY, "phase", "layer", "op"]


@dataclass(frozen=True, slots=True)
class CpuFacts:
    metric: str
    """The metric of CPU samples, or one of the profile's own (`own_metrics.clocks`)."""
    rows: pl.DataFrame
    """process, thread, stack, step (-1: none), steady (1: in steady steps), phase, layer, op, waits ("" or `[OpenMP wait]` …), function,
    function_kind and module (of the innermost function), file, line, caller (innermost line of the program's own source, and its
    function), own (its author wrote the innermost Python function, too, in that file), value (ns, or in the unit of the metric)."""
    steps: pl.DataFrame
    """The steps, with the columns of `DeviceJoin.steps`."""
    fused: bool
    """True if time of compiled code was divided over its source ops: an estimate."""
    samples: int
    steady_samples: int
    """The number of samples in steady steps."""

    @property
    def total(self) -> int:
        return int(self.rows["value"].sum())

    def in_steady_steps(self) -> CpuFacts:
        return replace(self, rows=self.rows.filter(pl.col(STEADY) == 1), samples=self.steady_samples)


def cpu_facts(profile: Tables, metric: str) -> CpuFacts:
    profile = Analysis.of(profile)
    trie, own_lines = functions(profile), places(profile)
    meaning = of_samples(profile, clocks(profile)[metric])
    steady_steps(profile)  # by devices, where there are some
    placed = in_steps(profile, meaning.samples)
    samples = placed.lazy()
    measured = samples.group_by(_KEY).agg(pl.col(VALUE).sum()).sort(_KEY).collect()
    states, measured = state_frames(trie, measured)
    divided = split_over_ops(measured, measured["value"].to_numpy(), meaning.compiled, meaning.forests)
    process, thread, stack = (measured[name].cast(pl.Int64).to_numpy() for name in ("process", "thread", "stack"))
    place = place_of(profile, process, thread, stack)
    leaf = trie.of_stacks(process, stack)
    innermost = trie.frames[trie.frame[leaf]]
    python = trie.frames[trie.frame[nodes.nearest(trie.parent, trie.frames["kind"].eq(int(Kind.PYTHON)).to_numpy()[trie.frame])[leaf]]]
    # A stack may end with a mark for the reason of a wait; otherwise the sample's state shows it.
    marked = pl.when(innermost["kind"] == int(Kind.WAIT)).then(innermost["name"])
    waits = pl.select(pl.coalesce(marked, states["name"].gather(measured["ending0"]), pl.lit(""))).to_series()
    rows = (
        measured.select("process", "thread", "stack", "step", STEADY)
        .with_columns(waits=waits)
        .hstack(innermost.select(function="name", function_kind="kind", module="module"))
        .hstack(own_lines.rows[place].select("file", "line", "own", caller="function"))
        .with_columns(own=pl.col("own") & (pl.col("file") == python["file"]))
    )
    shared = rows[divided.division.item].with_columns(
        phase_names(divided.rows["phase"]),
        gathered(divided.forests["layer"].paths(), divided.rows["layer"]),
        gathered(divided.forests["op"].paths(), divided.rows["op"]),
        value=pl.Series(divided.division.value),
    )
    return CpuFacts(metric, shared, meaning.steps, len(shared) > len(measured), len(placed), int(placed[STEADY].sum()))

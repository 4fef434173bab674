"""Sites of CPUs: samples of threads on one clock, with their context."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest, TreeBuilder
from aiflame.attribute.groupings import CATEGORY
from aiflame.attribute.meaning.context import of_samples, used_samples
from aiflame.attribute.meaning.fewer_regions import fewer_regions
from aiflame.attribute.meaning.fused_split import split_over_ops
from aiflame.attribute.meaning.memory_categories import category_forest, with_category
from aiflame.attribute.memory.metrics import is_of_memory
from aiflame.attribute.sites.segments import forest_of
from aiflame.attribute.sites.table import INSIDE, Gathered, SiteTable, groupings_of, site_table
from aiflame.attribute.sites.times import sample_times
from aiflame.attribute.stacks.functions import Functions, add_threads, functions
from aiflame.attribute.stacks.innermost_lines import line_frames
from aiflame.attribute.stacks.own_metrics import clocks, metric_rows, own_metrics
from aiflame.attribute.stacks.process_frames import NO_THREAD
from aiflame.attribute.stacks.samples import VALUE
from aiflame.attribute.stacks.waiting import state_frames
from aiflame.attribute.transforms.noise import hidden_noise, is_allocator, is_noise
from aiflame.attribute.transforms.reshape import without_nodes
from aiflame.attribute.trees.rank_groups import grouped_by_rank, has_ranks
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace

CONTEXT = ("phase", "layer", "op", "region")
OWN_DOMAIN = "own-"
"""Before the number of one of the profile's own metrics: the domain of its values."""
_STACK = ["process", "thread", "stack", "state"]


def cpu_sites(profile: Tables, metric: str) -> SiteTable:
    """The sites of threads, from the samples of the metric's clock, or from the values of one of the profile's own metrics."""
    profile = Analysis.of(profile)
    trie = functions(profile)
    metric_row = metric_rows(profile)[metric]
    clock = clocks(profile)[metric]
    meaning = of_samples(profile, clock)
    memory = is_of_memory(clock)
    context = (*CONTEXT, CATEGORY) if memory else CONTEXT
    same = [*_STACK, *context]
    fewer = fewer_regions(meaning.samples, meaning.forests["region"])
    used_samples(profile, clock)
    meaning = replace(meaning, samples=fewer.of(meaning.samples), forests={**meaning.forests, "region": fewer.forest})
    if memory:
        meaning = replace(meaning, samples=with_category(profile, meaning.samples, clock))
    timed = meaning.samples.select(*same, "time_ns", "step", VALUE)
    measured = timed.group_by(same).agg(pl.col("value").sum()).sort(same)
    ends = _Ends.of(profile, trie, measured, memory=memory)

    # Sites differ by function, but stacks by instruction.
    placed = measured.with_columns(pl.Series("code", ends.code), pl.Series("kernel", ends.kernel), pl.Series(INSIDE, ends.inside))
    of_group = ["process", "code", "kernel", *context]
    groups = placed.group_by(of_group, maintain_order=True).agg(pl.col("value").sum()).with_row_index("group")
    placed = placed.join(groups.select(*of_group, pl.col("group").cast(pl.Int64)), on=of_group, how="left", maintain_order="left")
    divided = split_over_ops(groups, groups["value"].to_numpy(), meaning.compiled, meaning.forests)
    several = np.bincount(divided.division.item, minlength=len(groups))[divided.division.item] > 1
    weight = np.where(several, np.maximum(divided.division.value, 1), 1)
    row, which, value = divided.divide(_ints(placed, "group"), _ints(placed, "value"))
    leaves = pl.DataFrame({"site": row, INSIDE: ends.inside[which], metric: value})

    items = timed.join(placed.select(*same, "group"), on=same, how="left", maintain_order="left")
    times = sample_times(profile, metric, items.select("process", "group", "step", "time_ns", "value"), meaning.steps)
    sites = divided.rows.select(
        pl.Series("process", trie.owner(_ints(divided.rows, "process"))),
        *(pl.col(name).cast(pl.Int64) for name in (*context, "code", "kernel", "group")),
        weight=pl.Series(weight),
    )
    sites = sites.join(times.first, on="group", how="left", maintain_order="left")
    forests = {
        "process": trie.owners(),
        "code": ends.of_code,
        "kernel": Forest.of_frames(trie.frames),
        **{name: divided.forests[name] for name in CONTEXT},
        **({CATEGORY: category_forest()} if memory else {}),
        INSIDE: ends.of_inside,
    }
    domain = {0: "cpu", 1: "wall"}.get(clock) or f"{OWN_DOMAIN}{[*own_metrics(profile)].index(metric)}"
    groupings = groupings_of(lambda row: row.on_cpus if memory or row.name != CATEGORY else (), ranks=has_ranks(profile))
    gathered = Gathered(*grouped_by_rank(profile, forests, sites), leaves, times, fewer.notes)
    return site_table(domain, (metric_row.metric,), {metric: metric}, groupings, gathered)


@dataclass(frozen=True, slots=True)
class _Ends:
    """The ends of samples' stacks: in their code without noise, in their innermost function, and inside of it."""

    of_code: Forest
    code: Ints
    kernel: Ints
    """The innermost function as a node of the trie's frames; 0 if it is noise."""
    of_inside: Forest
    inside: Ints

    @staticmethod
    def of(profile: Tables, trie: Functions, measured: pl.DataFrame, *, memory: bool) -> _Ends:
        """`measured`: process, thread, stack, state."""
        process, thread, stack = (_ints(measured, name) for name in ("process", "thread", "stack"))
        waits, waiting = state_frames(trie, measured)
        lines, of_stacks = line_frames(profile, measured.select("process", "stack").unique())
        line = waiting.join(of_stacks, on=["process", "stack"], how="left", maintain_order="left").select(
            "ending0", ending1=pl.when(pl.col("state") == SampleState.ON_CPU).then("row")
        )
        endings = [line[name].cast(pl.Int64).fill_null(-1).to_numpy() + 1 for name in line.columns]

        builder = TreeBuilder()
        node = trie.on_threads(process, stack)
        place = builder.add(np.zeros(len(measured), dtype=np.int64), trie.owners(), trie.owner(process))
        place = add_threads(builder, place, profile, process, trie.known_threads(process, thread), NO_THREAD)
        place = code = builder.add(place, trie.forest(), node)
        for frames, ending in zip((waits, lines), endings, strict=True):
            place = builder.add(place, Forest.of_frames(frames), ending)
        # Whether a frame is noise depends on the frames below, too: on waits, but not on lines.
        tree, at = builder.build()
        hidden = hidden_noise(tree, memory=memory)
        line_hidden = (endings[1] > 0) & hidden[at[place]]
        endings[1] = np.where(line_hidden, 0, endings[1])
        shown, of_code = without_nodes(tree, hidden | (tree.kinds() == Kind.PROCESS))

        within = TreeBuilder()
        place = np.zeros(len(measured), dtype=np.int64)
        for frames, ending in zip((waits, lines), endings, strict=True):
            place = within.add(place, Forest.of_frames(frames), ending)
        inner, of_inside = within.build()
        noise = (is_noise(trie.frames) | is_allocator(trie.frames) if memory else is_noise(trie.frames)).to_numpy()
        frame = trie.frame[node].astype(np.int64)
        kernel = np.where((node > 0) & ~noise[frame], frame + 1, 0)
        return _Ends(forest_of(shown), of_code[at[code]].astype(np.int64), kernel, forest_of(inner), of_inside[place])


def _ints(rows: pl.DataFrame, name: str) -> Ints:
    column: Ints = rows[name].cast(pl.Int64).to_numpy()
    return column

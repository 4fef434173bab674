"""CPU time and wall-clock time by code: process → thread → Python and native functions → reason of a wait, or line and instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.forest import NodeIds, TreeBuilder
from aiflame.attribute.groupings import CATEGORY
from aiflame.attribute.meaning.context import of_samples, used_samples
from aiflame.attribute.meaning.fused_split import split_over_ops
from aiflame.attribute.meaning.memory_categories import category_forest, with_category
from aiflame.attribute.meaning.steady import in_steps
from aiflame.attribute.metrics import CALL_LINE, FUNCTION, INSTRUCTION, LINE
from aiflame.attribute.prefixes import STEADY, Prefix, add_prefix
from aiflame.attribute.stacks.functions import functions, functions_and_lines, hang
from aiflame.attribute.stacks.innermost_lines import instruction_frames, line_frames
from aiflame.attribute.stacks.own_metrics import clocks
from aiflame.attribute.stacks.process_frames import NO_THREAD
from aiflame.attribute.stacks.samples import VALUE, samples_of
from aiflame.attribute.stacks.table import stack_table
from aiflame.attribute.stacks.waiting import state_frames
from aiflame.attribute.tree import CPU_TIME, Metric, Tree
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.tables.interface import Tables

_FINER: Mapping[str, tuple[Callable[[Tables, pl.DataFrame], tuple[pl.DataFrame, pl.DataFrame]], ...]] = {
    FUNCTION: (),
    LINE: (line_frames,),
    INSTRUCTION: (line_frames, instruction_frames),
    CALL_LINE: (line_frames,),
}
"""For each detail, functions that make the frames inside of the innermost function, from the outermost."""


def cpu_tree(
    profile: Tables, metric: Metric, detail: str = "function", by: Prefix | None = None, worth: pl.DataFrame | None = None
) -> Tree:
    """The tree of the samples of one clock, or of the values of one of the profile's own metrics.

    `worth` (process, id, and a column of the metric's name): the values of samples of CPU time instead of their time. `detail` is one of
    `metrics.DETAILS`. `by`: frames between the process and the code; without code, only the innermost function of the code is left."""
    profile = Analysis.of(profile)
    trie = functions(profile)
    key = ["process", "thread", "stack", "state"]
    clock = clocks(profile)[CPU_TIME.name if worth is not None else metric.name]
    if by is None:
        profile.used(stack_table)
        samples, meaning = samples_of(profile, clock), None
    else:
        meaning = of_samples(profile, clock)
        used_samples(profile, clock)
        placed = in_steps(profile, meaning.samples) if STEADY in by.columns else meaning.samples
        if CATEGORY in by.columns:
            placed = with_category(profile, placed, clock)
        samples = placed.lazy()
        key += by.columns
        if not by.code:
            samples = samples.with_columns(thread=pl.lit(0, pl.UInt32))
    counted = pl.col(VALUE)
    if worth is not None:
        same = [pl.col(name).cast(worth.schema[name]) for name in ("process", "id")]
        samples = samples.join(worth.lazy(), left_on=same, right_on=["process", "id"])
        counted = pl.col(metric.name)
    measured = samples.group_by(key).agg(value=counted.sum().cast(pl.Int64)).sort(key).collect()
    if meaning is not None:
        divided = split_over_ops(measured, measured["value"].to_numpy(), meaning.compiled, meaning.forests)
        measured = divided.rows.with_columns(value=pl.Series(divided.division.value))
        forests = {**divided.forests, CATEGORY: category_forest()}
        metric = divided.label(metric)
    states, measured = state_frames(trie, measured)
    endings = [states]
    whole = by is None or by.code
    called_at = detail == CALL_LINE and whole
    for make in () if called_at else _FINER[detail]:
        frames, of_stacks = make(profile, measured.select("process", "stack").unique())
        ending = f"ending{len(endings)}"
        running = pl.when(pl.col("state") == SampleState.ON_CPU).then("row").alias(ending)
        measured = measured.join(of_stacks, on=["process", "stack"], how="left").with_columns(running).drop("row")
        endings.append(frames)

    def begun(builder: TreeBuilder, place: NodeIds) -> NodeIds:
        return place if by is None or meaning is None else add_prefix(builder, place, measured, by, forests)

    hung = functions_and_lines(profile) if called_at else trie
    return hang(profile, hung, measured, endings, metric, NO_THREAD, begun, whole=whole)

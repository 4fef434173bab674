"""The use of blocks of memory: parameters, gradients, activations … by the phase that allocated each, and by how long it lived."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.forest import Forest
from aiflame.attribute.groupings import CATEGORY
from aiflame.attribute.meaning.context import of_devices, of_samples, profile_steps, used_samples
from aiflame.attribute.meaning.phases import Phase
from aiflame.attribute.memory.blocks import BlockKind
from aiflame.attribute.memory.metrics import GPU_ALLOCATED, HOST_ALLOCATED, every_block, memory_metrics, memory_values
from aiflame.attribute.stacks.functions import functions
from aiflame.attribute.stacks.own_metrics import clocks
from aiflame.attribute.tree import CPU_TIME, Frame, frame_table
from aiflame.profile.schema.kinds import Kind


class Category(IntEnum):
    PARAMETERS = 1
    GRADIENTS = 2
    OPTIMIZER_STATE = 3
    ACTIVATIONS = 4
    TEMPORARIES = 5
    DATA = 6
    KV_CACHE = 7
    COMMUNICATION = 8
    KEPT = 9
    BEFORE = 10
    IMPORTS = 11
    OTHER = 12
    UNUSED = 13
    LIBRARIES = 14
    OLDER = 15
    UNCOUNTED = 16


NAMES: Mapping[Category, str] = {
    Category.PARAMETERS: "parameters",
    Category.GRADIENTS: "gradients",
    Category.OPTIMIZER_STATE: "optimizer state",
    Category.ACTIVATIONS: "activations saved for backward",
    Category.TEMPORARIES: "temporaries",
    Category.DATA: "data",
    Category.KV_CACHE: "keys and values of attention",
    Category.COMMUNICATION: "communication",
    Category.KEPT: "kept beyond the step",
    Category.BEFORE: "from before the steps",
    Category.IMPORTS: "imports",
    Category.OTHER: "other",
    Category.UNUSED: "held by the allocator, unused",
    Category.LIBRARIES: "outside of the allocator: code, libraries",
    Category.OLDER: "from before the recording",
    Category.UNCOUNTED: "CUDA's context, modules, and all that no hook sees",
}
FROM_BELOW = (
    Category.LIBRARIES,
    Category.OLDER,
    Category.IMPORTS,
    Category.OTHER,
    Category.BEFORE,
    Category.PARAMETERS,
    Category.OPTIMIZER_STATE,
    Category.KEPT,
    Category.KV_CACHE,
    Category.DATA,
    Category.COMMUNICATION,
    Category.GRADIENTS,
    Category.ACTIVATIONS,
    Category.TEMPORARIES,
)
"""The order in which categories are drawn on top of each other: those that change least are at the bottom. Unused and uncounted
memory is no block."""
_FAR = (1 << 63) - 1
_PYTHON = pl.col("kind") == int(Kind.PYTHON)
_PARAMETERS = _PYTHON & pl.col("file").str.contains(r"(^|/)torch/nn/(modules/|init\.py$|parameter\.py$|utils/init\.py$)")
_CACHE = _PYTHON & pl.col("file").str.contains(r"(^|/)transformers/cache_utils\.py$")
_IMPORTS = _PYTHON & pl.col("file").str.contains(r"^<frozen importlib|(^|/)importlib/_bootstrap")

_OURS = _PYTHON & pl.col("file").str.contains(r"(^|/)aiflame/target/memory_\w+\.py$")
"""The look at the program's containers, at the end of a step (`target/memory_growth.py`)."""


def category_forest() -> Forest:
    """A frame for each category; the node of a category is its number."""
    return Forest.of_frames(frame_table([Frame(NAMES[one], Kind.FAMILY) for one in Category])[1:])


@once
def block_categories(profile: Analysis) -> pl.Series:
    """The node of the category (`category_forest`) of each row of `blocks`."""
    clock = every_block()
    rows = with_category(profile, of_samples(profile, clock).samples, clock)
    used_samples(profile, clock)
    category: pl.Series = rows[CATEGORY].cast(pl.UInt8)
    return category


def with_category(profile: Analysis, rows: pl.DataFrame, clock: int) -> pl.DataFrame:
    """Blocks of a metric of memory with their context (`of_samples`), and with CATEGORY, a node of `category_forest`."""
    of_blocks = memory_values(profile, clock).select(pl.col("id").cast(rows.schema["id"]), "end_ns", "kind").collect()
    facts = rows.select("id").join(of_blocks, on="id", how="left", maintain_order="left")
    categories = _categories(profile, rows, facts["end_ns"].to_numpy(), facts["kind"].to_numpy())
    return rows.with_columns(pl.Series(CATEGORY, categories))


def _categories(profile: Analysis, rows: pl.DataFrame, end_ns: Ints, kind: Ints) -> Ints:
    process, stack, step, phase, begin = (rows[name].cast(pl.Int64).to_numpy() for name in ("process", "stack", "step", "phase", "time_ns"))
    at = rows.select(pl.col("process", "step").cast(pl.Int64)).join(
        turns(profile), on=["process", "step"], how="left", maintain_order="left"
    )
    first = rows.select(pl.col("process").cast(pl.Int64)).join(_first_steps(profile), on="process", how="left", maintain_order="left")
    backward, optimizer, end = (at[name].fill_null(_FAR).to_numpy() for name in ("backward_ns", "optimizer_ns", "end_ns"))
    first_ns = first["begin_ns"].fill_null(0).to_numpy()
    in_step, past_step = step >= 0, end_ns > end
    forward = np.isin(phase, (Phase.FORWARD, Phase.PREFILL, Phase.DECODE))
    rules: list[tuple[Mask, Category]] = [
        (kind == int(BlockKind.UNUSED), Category.UNUSED),
        (kind == int(BlockKind.BESIDE_POOL), Category.LIBRARIES),
        (kind == int(BlockKind.OLDER), Category.OLDER),
        (kind == int(BlockKind.UNCOUNTED), Category.UNCOUNTED),
        (_under(profile, _OURS, process, stack), Category.OTHER),
        (_under(profile, _CACHE, process, stack), Category.KV_CACHE),
        (~in_step & _under(profile, _IMPORTS, process, stack), Category.IMPORTS),
        (~in_step & _under(profile, _PARAMETERS, process, stack), Category.PARAMETERS),
        (phase == Phase.DATA, Category.DATA),
        (phase == Phase.COMMUNICATION, Category.COMMUNICATION),
        (in_step & (phase == Phase.OPTIMIZER) & past_step, Category.OPTIMIZER_STATE),
        (in_step & (phase == Phase.BACKWARD) & (end_ns > np.minimum(optimizer, end)), Category.GRADIENTS),
        (in_step & past_step, Category.KEPT),
        (in_step & forward & (begin < backward) & (end_ns > backward), Category.ACTIVATIONS),
        (in_step, Category.TEMPORARIES),
        ((begin < first_ns) & (end_ns > first_ns), Category.BEFORE),
    ]
    return np.select([mask for mask, _ in rules], [int(category) for _, category in rules], int(Category.OTHER)).astype(np.int64)


def _under(profile: Analysis, frame: pl.Expr, process: Ints, stack: Ints) -> Mask:
    """Whether a stack has such a frame."""
    trie = functions(profile)
    held = nodes.nearest(trie.parent, trie.matching(frame)) >= 0
    inside: Mask = held[trie.of_stacks(process, stack)]
    return inside


@once
def turns(profile: Analysis) -> pl.DataFrame:
    """process, step, backward_ns and optimizer_ns (when the step's backward pass and its optimizer begin; null: it has none), end_ns"""
    steps = profile_steps(profile).rows.select(pl.col("process", "step", "end_ns").cast(pl.Int64))
    numbers = clocks(profile)
    there = [CPU_TIME.name] if profile.has("cpu_samples") else []
    there += [name for name in (GPU_ALLOCATED, HOST_ALLOCATED) if name in memory_metrics(profile)]
    items = [of_samples(profile, numbers[name]).samples for name in there]
    if profile.has("launches"):
        launched = of_devices(profile).launches.filter(pl.col("phase").is_in([int(Phase.BACKWARD), int(Phase.OPTIMIZER)]))
        moments = profile.scan("launches").select("process", "id", time_ns="begin_ns")
        items.append(launched.lazy().select("process", "id", "step", "phase").join(moments, on=["process", "id"]).collect())
    seen = pl.concat([one.select(pl.col("process", "step", "phase", "time_ns").cast(pl.Int64)) for one in items])
    step = ["process", "step"]
    backward = seen.filter(pl.col("phase") == int(Phase.BACKWARD)).group_by(step).agg(backward_ns=pl.col("time_ns").min())
    optimizer = seen.filter(pl.col("phase") == int(Phase.OPTIMIZER)).join(backward, on=step, how="left")
    # A step may begin with the end of the optimizer of the one before.
    optimizer = optimizer.filter(pl.col("time_ns") >= pl.col("backward_ns").fill_null(0))
    optimizer = optimizer.group_by(step).agg(optimizer_ns=pl.col("time_ns").min())
    return steps.unique(step, keep="first").join(backward, on=step, how="left").join(optimizer, on=step, how="left")


@once
def _first_steps(profile: Analysis) -> pl.DataFrame:
    """process, begin_ns: of its first step"""
    return profile_steps(profile).rows.group_by(pl.col("process").cast(pl.Int64)).agg(pl.col("begin_ns").cast(pl.Int64).min())

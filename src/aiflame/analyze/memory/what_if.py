"""Estimates of the peak of memory after a change of the program, from the lives of its blocks.

A change takes bytes from blocks for a part of their lives. The peak of the remaining bytes may lie at another moment.
"""

from __future__ import annotations

import polars as pl

from aiflame.analyze.labels import gathered
from aiflame.analyze.layer_groups import collapsed
from aiflame.analyze.memory.expandable import expandable
from aiflame.attribute.analysis import Analysis, once_for
from aiflame.attribute.groupings import CATEGORY
from aiflame.attribute.meaning.context import of_samples, profile_steps, used_samples
from aiflame.attribute.meaning.memory_categories import Category, turns, with_category
from aiflame.attribute.meaning.phases import Phase
from aiflame.attribute.memory.blocks import HOST, blocks
from aiflame.attribute.memory.live import OWNER, curve
from aiflame.attribute.memory.metrics import GPU_BYTES, HOST_BYTES, every_block
from aiflame.values import dataclass

HALF_BATCH = "half the batch size"
FUSED = "an optimizer without temporaries: fused=True, or foreach=False"
FRESH_GRADIENTS = "gradients freed after each step: zero_grad(set_to_none=True)"
EXPANDABLE_SETTING = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
EXPANDABLE = f"{EXPANDABLE_SETTING}: of the bytes that torch's allocator holds"
CHECKPOINTS = "checkpoints around {}: torch.utils.checkpoint"
_INSTANCE = r"^(?:.*?\.)??\d+(?:\.|$)"
"""The outermost layer with an index, `layers.3`, at the begin of a layer's path."""
_LAYER = ["process", "step", "instance"]
_LIFE = [*OWNER, "begin_ns", "end_ns", "bytes"]


@dataclass(frozen=True, slots=True)
class Checkpoints:
    group: str
    """`layers.*`"""
    peak: int
    then: int
    """The peak with checkpoints."""


@dataclass(frozen=True, slots=True)
class Estimate:
    change: str
    memory: str
    """That of the highest peak, in one process."""
    peak: int
    then: int
    """The peak after the change."""


@once_for
def estimates(profile: Analysis, metric: str) -> list[Estimate]:
    """Of all changes that lower the highest peak in one process and one memory. A program without steps has that of EXPANDABLE alone."""
    reserved = expandable(profile) if metric == GPU_BYTES else []
    highest = [Estimate(EXPANDABLE, one.memory, one.peak, one.then) for one in reserved if one.then < one.peak]
    highest = sorted(highest, key=lambda one: (-one.peak, one.memory))[:1]
    if profile_steps(profile).rows.is_empty():
        return highest
    rows = _lives(profile, metric)
    group, absent = _checkpoints(rows)
    changes = [
        (HALF_BATCH, _half_batch(rows)),
        (CHECKPOINTS.format(group), absent),
        (FUSED, _fused(rows)),
        (FRESH_GRADIENTS, _fresh_gradients(profile, rows)),
    ]
    every = [Estimate(change, *_peaks(rows, less)) for change, less in changes if not less.is_empty()]
    return [one for one in every if one.then < one.peak] + highest


def checkpoints(profile: Analysis, metric: str) -> Checkpoints | None:
    """For the group of layers that saves the most; None: no group saves any."""
    rows = _lives(profile, metric)
    group, absent = _checkpoints(rows)
    if not group:
        return None
    _, peak, then = _peaks(rows, absent)
    return Checkpoints(group, peak, then)


def _checkpoints(rows: pl.DataFrame) -> tuple[str, pl.DataFrame]:
    """The group of layers that saves the most ("": none does), and its activations in the time in which they are absent.

    Each layer keeps its output alone, which is the input of the next one. Its other activations are freed when its forward pass ends. They
    are there again from the begin of its backward pass, which is when the first of them was freed, until they were freed in the
    recording."""
    saved = rows.filter((pl.col(CATEGORY) == int(Category.ACTIVATIONS)) & pl.col("instance").is_not_null())
    if saved.is_empty():
        return "", rows.select(_LIFE)[:0]
    groups = saved.group_by("group").agg(pl.col("bytes").sum()).sort("bytes", "group", descending=[True, False])
    ordered = saved.filter(pl.col("group") == groups["group"][0]).with_columns(
        forward_ends=pl.col("allocated_ns").max().over(_LAYER), backward_begins=pl.col("end_ns").min().over(_LAYER)
    )
    again = ordered.filter(pl.col("allocated_ns") < pl.col("forward_ends"))  # all but the output
    return groups["group"][0], _less(again, pl.col("forward_ends"), pl.col("backward_begins"))


def _half_batch(rows: pl.DataFrame) -> pl.DataFrame:
    """Data, and blocks of the forward and backward pass that do not outlive their step, are half as large; but gradients of parameters."""
    within = pl.col(CATEGORY).is_in([int(Category.ACTIVATIONS), int(Category.TEMPORARIES)]) & (pl.col("phase") != int(Phase.OPTIMIZER))
    scaled = rows.filter(within | (pl.col(CATEGORY) == int(Category.DATA)))
    return _less(scaled.with_columns(pl.col("bytes") // 2), pl.col("begin_ns"), pl.col("end_ns"))


def _fused(rows: pl.DataFrame) -> pl.DataFrame:
    """The optimizer computes each parameter in place."""
    temporary = (pl.col(CATEGORY) == int(Category.TEMPORARIES)) & (pl.col("phase") == int(Phase.OPTIMIZER))
    return _less(rows.filter(temporary), pl.col("begin_ns"), pl.col("end_ns"))


def _fresh_gradients(profile: Analysis, rows: pl.DataFrame) -> pl.DataFrame:
    """A gradient that outlives its step is absent in each later one, from the end of the step before until that part of the backward pass
    in which it was allocated."""
    steps = turns(profile).drop_nulls("backward_ns").sort("process", "step")
    ends = pl.col("optimizer_ns").fill_null(pl.col("end_ns"))
    steps = steps.with_columns(before_ns=pl.col("end_ns").shift(1).over("process"), length=ends - pl.col("backward_ns"))
    kept = rows.filter(pl.col(CATEGORY) == int(Category.GRADIENTS))
    first = steps.select("process", "step", "length", first_ns="backward_ns")
    kept = kept.join(first, on=["process", "step"]).with_columns(
        part=((pl.col("allocated_ns") - pl.col("first_ns")) / pl.col("length").clip(1)).clip(0, 1)
    )
    later = steps.drop_nulls("before_ns").select("process", "backward_ns", "before_ns", "length", later="step")
    pairs = kept.drop("length").join(later, on="process").filter(pl.col("later") > pl.col("step"))
    again = pl.col("backward_ns") + (pl.col("part") * pl.col("length")).cast(pl.Int64)
    return _less(pairs, pl.col("before_ns"), again)


def _less(rows: pl.DataFrame, begin: pl.Expr, end: pl.Expr) -> pl.DataFrame:
    """Blocks without their bytes from one moment to another, as far as they live then."""
    absent = rows.select(
        *OWNER, begin_ns=pl.max_horizontal(begin, "begin_ns"), end_ns=pl.min_horizontal(end, "end_ns"), bytes=-pl.col("bytes")
    )
    return absent.filter(pl.col("begin_ns") < pl.col("end_ns"))


def _peaks(rows: pl.DataFrame, less: pl.DataFrame) -> tuple[str, int, int]:
    """The memory with the highest peak in a process, that peak, and the one after a change."""
    now, then = (
        curve(part).group_by(OWNER).agg(pl.col("bytes").max()) for part in (rows.select(_LIFE), pl.concat([rows.select(_LIFE), less]))
    )
    peaks = now.join(then, on=OWNER, suffix="_then").sort("bytes", *OWNER, descending=[True, False, False])
    return str(peaks["memory"][0]), int(peaks["bytes"][0]), int(peaks["bytes_then"][0])


def _lives(profile: Analysis, metric: str) -> pl.DataFrame:
    """All blocks of the metric's memory, older ones and rests of mappings included, with their step, phase, CATEGORY, `instance` (the
    outermost layer with an index) and `group`."""
    clock = every_block()
    meaning = of_samples(profile, clock)
    used_samples(profile, clock)
    rows = with_category(profile, meaning.samples, clock)
    path = gathered(meaning.forests["layer"].paths(), rows["layer"])
    context = rows.select(
        pl.col("step", "phase", CATEGORY).cast(pl.Int64), instance=path.str.extract(f"({_INSTANCE})", 1).str.strip_suffix(".")
    )
    own = blocks(profile).select(pl.col("process").cast(pl.Int64), "memory", "begin_ns", "end_ns", "allocated_ns", "bytes").hstack(context)
    return own.filter((pl.col("memory") == HOST) == (metric == HOST_BYTES)).with_columns(group=collapsed(pl.col("instance")))

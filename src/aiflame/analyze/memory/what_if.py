"""An estimate: the peak of memory if the layers of a stack (`layers.*`) computed their activations again in the backward pass.

Each layer then keeps its output alone, which is the input of the next one. Its other activations are freed when its forward pass ends, and
are there again from the begin of its backward pass, which is when the first of them was freed, until they were freed in the recording.
"""

from __future__ import annotations

import polars as pl

from aiflame.analyze.labels import gathered
from aiflame.analyze.layer_groups import collapsed
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.groupings import CATEGORY
from aiflame.attribute.meaning.context import of_samples, used_samples
from aiflame.attribute.meaning.memory_categories import Category, with_category
from aiflame.attribute.memory.blocks import HOST, blocks
from aiflame.attribute.memory.live import curve
from aiflame.attribute.memory.metrics import ALLOCATED_OF, HOST_BYTES, memory_values
from aiflame.attribute.stacks.own_metrics import clocks
from aiflame.values import dataclass

_INSTANCE = r"^(?:.*?\.)??\d+(?:\.|$)"
"""The outermost layer with an index, `layers.3`, at the begin of a layer's path."""
_LAYER = ["process", "step", "instance"]


@dataclass(frozen=True, slots=True)
class Checkpoints:
    group: str
    """`layers.*`"""
    peak: int
    then: int
    """The peak with checkpoints."""


def checkpoints(profile: Analysis, metric: str) -> Checkpoints | None:
    """For the group of layers that saves the most, in the process with the highest peak; None: no group saves any."""
    rows = _with_layers(profile, metric)
    saved = rows.filter((pl.col(CATEGORY) == int(Category.ACTIVATIONS)) & pl.col("instance").is_not_null())
    if saved.is_empty():
        return None
    groups = saved.group_by("group").agg(pl.col("value").sum()).sort("value", "group", descending=[True, False])
    chosen = saved.filter(pl.col("group") == groups["group"][0])
    ordered = chosen.sort(*_LAYER, "time_ns").with_columns(
        forward_ends=pl.col("time_ns").max().over(_LAYER), backward_begins=pl.col("end_ns").min().over(_LAYER)
    )
    again = ordered.filter(pl.col("time_ns") < pl.col("forward_ends"))  # all but the output
    older = blocks(profile).filter(pl.col("begin_ns") == 0).filter((pl.col("memory") == HOST) == (metric == HOST_BYTES))
    life = [pl.col("process").cast(pl.Int64), pl.lit(metric).alias("memory")]
    whole = pl.concat(
        [
            older.select(*life, "begin_ns", "end_ns", "bytes"),
            rows.select(*life, begin_ns="time_ns", end_ns="end_ns", bytes="value"),
        ]
    )
    absent = again.filter(pl.col("forward_ends") < pl.col("backward_begins")).select(
        *life, begin_ns="forward_ends", end_ns="backward_begins", bytes=-pl.col("value")
    )
    now, then = (
        curve(part).group_by("process").agg(pl.col("bytes").max()) for part in (whole, pl.concat([whole, absent], how="vertical_relaxed"))
    )
    peaks = now.join(then, on="process", suffix="_then").sort("bytes", "process", descending=[True, False])
    return Checkpoints(groups["group"][0], int(peaks["bytes"][0]), int(peaks["bytes_then"][0]))


def _with_layers(profile: Analysis, metric: str) -> pl.DataFrame:
    """All blocks of the metric's memory that the recording allocated, with their context, CATEGORY, end_ns, `instance` and `group`."""
    clock = clocks(profile)[ALLOCATED_OF[metric]]
    meaning = of_samples(profile, clock)
    used_samples(profile, clock)
    rows = with_category(profile, meaning.samples, clock)
    ends = memory_values(profile, clock).select(pl.col("id").cast(rows.schema["id"]), "end_ns").collect()
    path = gathered(meaning.forests["layer"].paths(), rows["layer"])
    instance = path.str.extract(f"({_INSTANCE})", 1).str.strip_suffix(".")
    named = rows.with_columns(instance=instance, time_ns=pl.col("time_ns").cast(pl.Int64)).join(
        ends, on="id", how="left", maintain_order="left"
    )
    return named.with_columns(group=collapsed(pl.col("instance")))

"""Findings about steps, and layers of one kind, that should take equal times and do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import around, collapsed, escaped

SLOW_STEP = 1.5
"""Relative to the median step."""
SURE = 6.0
"""Relative to the usual deviation from the median (scaled MAD): if all steps vary, none is an outlier."""
MAD_TO_SIGMA = 1.4826
"""From the median absolute deviation to the standard deviation of a normal distribution."""
FEW_STEPS = 5
"""Fewer steps do not show a usual time."""
SLOW_STEPS = 0.01
"""Smallest share of the time of all steps that slow steps take beyond the median."""
SLOW_LAYER = 2.0
"""Relative to the median of its sisters."""
FEW_LAYERS = 3
SLOW_LAYERS = 0.02
"""Smallest share of the time that a layer takes beyond its sisters."""


def slow_steps(usual: pl.DataFrame, metric: str) -> Iterator[Finding]:
    """Steps that took much longer than others. `usual`: STEP_TIMES, without steps that warm up."""
    if len(usual) < FEW_STEPS:
        return
    took = pl.col("took")
    median = float(usual.select(took.median()).item())
    deviation = float(usual.select((took - median).abs().median()).item()) * MAD_TO_SIGMA
    limit = max(SLOW_STEP * median, median + SURE * deviation)
    slow = usual.filter(took > limit).sort("took", "process", "step", descending=[True, False, False])
    lost = float((slow["took"] - median).sum())
    share = lost / max(int(usual["took"].sum()), 1)
    if slow.is_empty() or share < SLOW_STEPS:
        return
    worst = slow.row(0, named=True)
    one = f"Step {worst['step']} took {amount(worst['took'], 'ns')}, {worst['took'] / median:.1f} times the median step"
    more = f"; {len(slow)} of {len(usual)} steps are slow like this, which costs {share:.0%} of the time" if len(slow) > 1 else ""
    view = Evidence("timeline", metric, "step", f"^Step\\.{worst['step']}$", table="steps")
    yield Finding(one + more, share, view, "slow-step", share)


def slow_layers(parts: pl.DataFrame, classes: Mapping[str, str], metric: str, label: str, scale: float) -> Iterator[Finding]:
    """A layer that takes much longer than its sisters. `parts`: layer, value; `classes`: class by layer, where known; `scale`: share of the
    time that the values cover."""
    whole = max(int(parts["value"].sum()), 1)
    layers = _with_inner(parts.filter(pl.col("layer") != ""))
    layers = layers.with_columns(group=collapsed(pl.col("layer"))).filter(pl.col("group") != pl.col("layer"))
    # In a Sequential, a convolution and the activation after it are numbered like sisters, but differ in class.
    layers = layers.with_columns(layer_class=pl.col("layer").replace_strict(classes, default="", return_dtype=pl.String))
    value, alike = pl.col("value"), ("group", "layer_class")
    compared = (
        layers.with_columns(sisters=pl.len().over(alike), usual=value.median().over(alike))
        .filter((pl.col("sisters") >= FEW_LAYERS) & (pl.col("usual") > 0))
        .with_columns(over=(value - pl.col("usual")) / whole)
        .filter((value > SLOW_LAYER * pl.col("usual")) & (pl.col("over") >= SLOW_LAYERS))
    )
    if compared.is_empty():
        return
    # The innermost of nested layers is to blame: the layers around it are slow because of it.
    most = float(compared.select(pl.col("over").max()).item())
    blamed = compared.filter(pl.col("over") > most / 2).sort(
        pl.col("layer").str.count_matches(".", literal=True), "over", "layer", descending=[True, True, False]
    )
    row = blamed.row(0, named=True)
    sentence = (
        f"{row['layer']} takes {row['value'] / row['usual']:.1f} times as much as its sisters: "
        f"{row['value'] / whole:.0%} of {label}, they {row['usual'] / whole:.1%} each"
    )
    group = row["group"]
    view = Evidence("tables", metric, "layer", f"^{escaped(group)}(\\.|$)", table="layers", column="group", names=(group,))
    yield Finding(sentence, row["value"] / whole, view, "slow-layer", row["over"] * scale)


def _with_inner(parts: pl.DataFrame) -> pl.DataFrame:
    """layer, value: including all layers inside of each."""
    own = parts.group_by("layer").agg(pl.col("value").sum())
    rows = [(layer, value) for path, value in own.rows() for layer in around(path)]
    whole = pl.DataFrame(rows, schema={"layer": pl.String, "value": pl.Int64}, orient="row")
    return whole.group_by("layer").agg(pl.col("value").sum())

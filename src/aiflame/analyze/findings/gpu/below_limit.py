"""Layers and kernels far below the limits of the device, by hardware counters (`analyze.limits`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.catalogue import FEW_RECORDS, least
from aiflame.analyze.findings.gpu.facts import Facts, at
from aiflame.analyze.findings.gpu.precision import odd_layers
from aiflame.analyze.findings.idle import Scope
from aiflame.analyze.layer_groups import around, collapsed, escaped, layer_classes, within
from aiflame.analyze.limits.groups import known_limits, limits_of
from aiflame.analyze.places import place_text
from aiflame.attribute.tree import GPU_TIME
from aiflame.profile.schema.kinds import Kind

FEW_LAYERS, FEW_LAUNCHES = 3, 5
"""Smallest number of layers alike ("sisters"), and of launches of a layer's kernels: results of fewer may be chance."""
MUCH_LESS = 0.6
"""A layer is reported if it reaches less than this part of its sisters' share."""
SISTERS = 50.0
"""Smallest percentage of the limit that its sisters reach: if none is near the limit, their differences mean little."""
SURE = 3.0
"""Number of standard errors by which it must be below its sisters, or below FAR."""
FAR = 40.0
"""Percent of the limit: well-written kernels reach at least twice as much."""
REACHED = 0.8
"""The share of the limit that well-written kernels reach."""
LONG_NS = 100_000
"""Kernels with a shorter mean are not reported, since several share a stretch of counts: on an H100 the bytes of kernels of 25 to 65 µs
were up to 15% off, and a GEMM of 35 µs got no work of the tensor cores, with too small an error."""
KERNELS_SHARE = 0.1
GAIN = 0.5
"""The likely gain, as a part of the time up to REACHED, which not every kind of kernel can reach."""
_SUMS = ("took", "launches", "counted", "limit", "by_memory", "memory", "tensor", "error")


def layers_below_limit(facts: Facts) -> Iterator[Finding]:
    """Layers that reach much less than most layers alike. A layer that also has another data type has a finding of its own."""
    if not known_limits(facts.analysis):
        return
    odd = [row["layer"] for row in odd_layers(facts)]
    slow = [row for row in _much_below(facts) if not within(row["layer"], odd) and not any(within(one, [row["layer"]]) for one in odd)]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in slow:
        groups.setdefault((row["group"], row["layer_class"]), []).append(row)
    worth = {key: rows for key, rows in groups.items() if facts.share(_lost(rows)) >= least("layer-below-limit")}
    if not worth:
        return
    # A layer may be slow only because of layers inside of it: the innermost layers are to blame, if most of the time is theirs.
    most = max(_lost(rows) for rows in worth.values())
    (group, _), rows = min(
        ((key, rows) for key, rows in worth.items() if _lost(rows) > most / 2),
        key=lambda item: (-item[0][0].count("."), -_lost(item[1]), item[0]),
    )
    share = facts.share(_lost(rows))
    first = max(rows, key=lambda row: (row["lost"], row["layer"]))
    who = first["layer"] if len(rows) == 1 else f"{first['layer']} and {len(rows) - 1} more of {first['sisters']} {group}"
    reach = f"{who} {'reaches' if len(rows) == 1 else 'reach'} {first['reached']:.0f}% of {_what(first)} where"
    sentence = (
        f"{reach} {'its' if len(rows) == 1 else 'their'} sisters reach {first['usual']:.0f}%: could win {share:.0%} {facts.scope.label}"
    )
    names = tuple(row["layer"] for row in rows)
    view = Evidence("tables", GPU_TIME.name, "layer", f"^{escaped(group)}(\\.|$)", table="layers", column="layer", names=names)
    yield Finding(sentence, share, view, "layer-below-limit", share)


def far_kernel(analysis: ProfileAnalysis, scope: Scope) -> Iterator[Finding]:
    """Among the kernels that take much of the time and reach little of their limit, the one that loses most."""
    if not known_limits(analysis) or not scope.whole_ns:
        return
    rows = limits_of(analysis, ["name", "short", "kind"]).filter(pl.col("kind") == int(Kind.GPU_KERNEL))
    share = (pl.col("took") / scope.whole_ns).clip(upper_bound=1.0)
    far = rows.with_columns(share=share, gain=share * (1 - pl.col("limit_percent") / (100 * REACHED)) * GAIN).filter(
        (pl.col("share") >= KERNELS_SHARE)
        & (pl.col("launches") >= FEW_RECORDS)
        & (pl.col("took") >= LONG_NS * pl.col("launches"))
        & (pl.col("limit_percent") + SURE * pl.col("limit_error") <= FAR)
        & (2 * pl.col("counted") >= pl.col("took"))
    )
    for row in far.sort("gain", "name", descending=[True, False]).head(1).iter_rows(named=True):
        counted = max(row["counted"], 1)
        parts = f"{row['memory'] / counted:.0%} of the memory's bandwidth, {row['tensor'] / counted:.0%} of the tensor cores' rate"
        won = row["share"] * max(1 - row["limit_percent"] / (100 * REACHED), 0)
        place = _launched(analysis, row["name"])
        where = f" ({row['launches']:,} launches{at(place)})" if place else ""
        sentence = (
            f"{row['short']} takes {row['share']:.0%} {scope.label} and reaches {parts}{where}: at {REACHED:.0%} of its limit it would win"
            f" {won:.0%}"
        )
        view = Evidence("flame", GPU_TIME.name, "code", f"^{escaped(row['short'])}$", row["name"], place=place)
        yield Finding(sentence, row["share"], view, "far-from-limit", row["gain"])


def _much_below(facts: Facts) -> list[dict[str, Any]]:
    """layer, group, layer_class, reached, usual (percent of the limit), sisters, lost (ns more than its sisters), and sums."""
    layers = _with_inner(limits_of(facts.analysis, ["layer"]).filter((pl.col("layer") != "") & (pl.col("counted") > 0)))
    classes = layer_classes(facts.analysis.profile, layers["layer"])
    layers = layers.with_columns(
        group=collapsed(pl.col("layer")),
        layer_class=pl.col("layer").replace_strict(classes, default="", return_dtype=pl.String),
        reached=pl.col("limit") * 100 / pl.col("counted"),
        off=pl.col("error") * 100 / pl.col("counted"),
    ).filter(pl.col("group") != pl.col("layer"))
    alike = ("group", "layer_class")
    compared = layers.with_columns(sisters=pl.len().over(alike), usual=pl.col("reached").median().over(alike))
    below = (
        (pl.col("sisters") >= FEW_LAYERS)
        & (pl.col("usual") >= SISTERS)
        & (pl.col("reached") <= MUCH_LESS * pl.col("usual"))
        & (pl.col("reached") + SURE * pl.col("off") <= pl.col("usual"))
        & (pl.col("launches") >= FEW_LAUNCHES)
        & (pl.col("took") >= LONG_NS * pl.col("launches"))
    )
    lost = pl.col("took") * (1 - pl.col("reached") / pl.col("usual"))
    return compared.filter(below).with_columns(lost=lost).sort("lost", "layer", descending=[True, False]).to_dicts()


def _with_inner(own: pl.DataFrame) -> pl.DataFrame:
    """layer, _SUMS: including all layers inside of each."""
    above = own.select("layer", *_SUMS).with_columns(layer=pl.col("layer").map_elements(around, return_dtype=pl.List(pl.String)))
    return above.explode("layer").group_by("layer").agg(pl.col(_SUMS).sum()).sort("layer")


def _lost(rows: list[dict[str, Any]]) -> float:
    return float(sum(row["lost"] for row in rows))


def _what(row: dict[str, Any]) -> str:
    """The limit, in words: each percent is a part of the time of its kernels."""
    if row["by_memory"] >= 0.9 * row["limit"]:
        return "the memory's bandwidth"
    return "the tensor cores' rate" if row["by_memory"] <= 0.1 * row["limit"] else "its limit (memory and tensor cores)"


def _launched(analysis: ProfileAnalysis, name: str) -> str:
    lines = analysis.scoped_sites.filter(pl.col("name") == name, pl.col("file") != "").group_by("file", "line").agg(pl.col("took").sum())
    for file, line, _ in lines.sort("took", "file", "line", descending=[True, False, False]).head(1).rows():
        return place_text(file, line)
    return ""

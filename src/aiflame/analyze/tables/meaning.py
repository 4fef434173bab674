"""Time by meaning, as tables: layers, ops, phases. Of GPU time where a device was used, else of CPU time."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.layer_groups import collapsed
from aiflame.analyze.limits.groups import beside
from aiflame.analyze.tables.table import Column, TableOf, number, share, table_of, text, with_limits
from aiflame.attribute.meaning.phases import NAMES as PHASES
from aiflame.attribute.meaning.phases import Phase

_BY_PHASE = {
    "forward": [PHASES[phase] for phase in (Phase.FORWARD, Phase.PREFILL, Phase.DECODE)],
    "backward": [PHASES[Phase.BACKWARD]],
}


def meaning_tables(analysis: ProfileAnalysis) -> Iterator[TableOf]:
    """Without a row for time without layer or op; tables that would have no other row are empty."""
    parts, label = _parts(analysis)
    whole = max(int(parts["value"].sum()), 1)
    split = tuple(number(name, name.title(), "ns") for name in _BY_PHASE)
    launches = (number("launches", "Launches"),) if "launches" in parts.columns else ()
    values: tuple[Column, ...] = (number("total", label, "ns"), share("share", f"% of {label}"))
    layers = parts.filter(pl.col("layer") != "").with_columns(group=collapsed(pl.col("layer")))
    rows = beside(analysis, _summed(layers, ["layer", "group"], whole), ["layer"])
    columns = (text("layer", "Layer"), text("group", "Alike"), *values, *with_limits(rows), *split, *launches)
    yield table_of("layers", "Layers", columns, rows)
    groups = _summed(layers, ["group"], whole)
    if len(groups) < layers["layer"].n_unique():
        alike = layers.group_by("group").agg(layers=pl.col("layer").n_unique().cast(pl.Int64))
        rows = beside(analysis, groups.join(alike, on="group", maintain_order="left"), ["group"])
        columns = (text("group", "Layers alike"), number("layers", "Layers"), *values, *with_limits(rows), *split, *launches)
        yield table_of("layer-groups", "Layers that are alike", columns, rows)
    rows = beside(analysis, _summed(parts.filter(pl.col("op") != ""), ["op"], whole), ["op"])
    yield table_of("ops", "Ops", (text("op", "Op"), *values, *with_limits(rows), *launches), rows)
    phases = beside(analysis, _summed(parts, ["phase"], whole), ["phase"])
    if len(phases) > 1:
        yield table_of("phases", "Phases", (text("phase", "Phase"), *values, *with_limits(phases), *launches), phases)


def _parts(analysis: ProfileAnalysis) -> tuple[pl.DataFrame, str]:
    if analysis.ran_on_devices or analysis.cpu is None:
        launches = analysis.scoped_sites.select("launches").with_row_index("site").with_columns(pl.col("site").cast(pl.Int64))
        first = pl.col("site").is_first_distinct()
        parts = analysis.scoped_shared.join(launches, on="site", how="left", maintain_order="left")
        return parts.select("phase", "layer", "op", value="took", launches=pl.when(first).then("launches").otherwise(0)), "GPU time"
    cpu = analysis.scoped_cpu or analysis.cpu
    return cpu.rows.select("phase", "layer", "op", "value"), "CPU time" if cpu.metric == "cpu-time" else "Wall-clock time"


def _summed(parts: pl.DataFrame, by: list[str], whole: int) -> pl.DataFrame:
    value = pl.col("value")
    sums = {name: value.filter(pl.col("phase").is_in(phases)).sum() for name, phases in _BY_PHASE.items()}
    counts = [pl.col("launches").sum()] if "launches" in parts.columns else []
    rows = parts.group_by(by).agg(*counts, total=value.sum(), **sums)
    return rows.with_columns(share=pl.col("total") / whole).sort("total", *by, descending=[True, *[False] * len(by)])

"""Time by meaning, as tables: layers, ops, phases; GPU time if a device was used, otherwise CPU time."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.device.activity import parts as parts_of
from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.layer_groups import collapsed
from aiflame.analyze.limits.groups import beside
from aiflame.analyze.tables.counters import counter_columns, counters_of
from aiflame.analyze.tables.table import Column, TableOf, number, share, table_of, text, with_limits
from aiflame.attribute.meaning.phases import NAMES as PHASES
from aiflame.attribute.meaning.phases import Phase

_BY_PHASE = {
    "forward": [PHASES[phase] for phase in (Phase.FORWARD, Phase.PREFILL, Phase.DECODE)],
    "backward": [PHASES[Phase.BACKWARD]],
}


def meaning_tables(analysis: ProfileAnalysis) -> Iterator[TableOf]:
    """The tables, without a row for time without a layer or op; a table without other rows is empty."""
    parts, label = _parts(analysis)
    whole = max(int(parts["value"].sum()), 1)
    split = tuple(number(name, name.title(), "ns") for name in _BY_PHASE)
    launches = (number("launches", "Launches"),) if "launches" in parts.columns else ()
    values: tuple[Column, ...] = (number("total", label, "ns"), share("share", f"% of {label}"))

    def table(name: str, title: str, shown: tuple[Column, ...], of: pl.DataFrame, rows: pl.DataFrame, key: str) -> TableOf:
        """A table with limits, and with device counts."""
        if "site" not in of.columns:
            return table_of(name, title, shown, rows)
        measured = counters_of(analysis, of.select("site", "part", key), [key])
        rows = beside(analysis, rows, [key]).join(measured, on=key, how="left", maintain_order="left")
        return table_of(name, title, (*shown, *with_limits(rows), *counter_columns(measured)), rows)

    layers = parts.filter(pl.col("layer") != "").with_columns(group=collapsed(pl.col("layer")))
    shown = (text("layer", "Layer"), text("group", "Alike"), *values, *split, *launches)
    yield table("layers", "Layers", shown, layers, _summed(layers, ["layer", "group"], whole), "layer")
    groups = _summed(layers, ["group"], whole)
    if len(groups) < layers["layer"].n_unique():
        alike = layers.group_by("group").agg(layers=pl.col("layer").n_unique().cast(pl.Int64))
        columns = (text("group", "Layers alike"), number("layers", "Layers"), *values, *split, *launches)
        rows = groups.join(alike, on="group", maintain_order="left")
        yield table("layer-groups", "Layers that are alike", columns, layers, rows, "group")
    ops = parts.filter(pl.col("op") != "")
    yield table("ops", "Ops", (text("op", "Op"), *values, *launches), ops, _summed(ops, ["op"], whole), "op")
    phases = _summed(parts, ["phase"], whole)
    if len(phases) > 1:
        yield table("phases", "Phases", (text("phase", "Phase"), *values, *launches), parts, phases, "phase")


def _parts(analysis: ProfileAnalysis) -> tuple[pl.DataFrame, str]:
    if analysis.ran_on_devices or analysis.cpu is None:
        launches = analysis.scoped_sites.select("launches").with_row_index("site").with_columns(pl.col("site").cast(pl.Int64))
        first = pl.col("site").is_first_distinct()
        shared = parts_of(analysis.scoped_shared).join(launches, on="site", how="left", maintain_order="left")
        counted = pl.when(first).then("launches").otherwise(0)
        return shared.select("site", "part", "phase", "layer", "op", value="took", launches=counted), "GPU time"
    cpu = analysis.scoped_cpu or analysis.cpu
    return cpu.rows.select("phase", "layer", "op", "value"), "CPU time" if cpu.metric == "cpu-time" else "Wall-clock time"


def _summed(parts: pl.DataFrame, by: list[str], whole: int) -> pl.DataFrame:
    value = pl.col("value")
    sums = {name: value.filter(pl.col("phase").is_in(phases)).sum() for name, phases in _BY_PHASE.items()}
    counts = [pl.col("launches").sum()] if "launches" in parts.columns else []
    rows = parts.group_by(by).agg(*counts, total=value.sum(), **sums)
    return rows.with_columns(share=pl.col("total") / whole).sort("total", *by, descending=[True, *[False] * len(by)])

"""Lines and functions by the memory that they allocated: at the peak, in all, and how long it lived (to the end of the
recording, where nothing freed it); lines whose memory grows; and estimates of the peak after changes of the program."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.memory.containers import Holder
from aiflame.analyze.memory.growth import growth
from aiflame.analyze.memory.holders import with_places
from aiflame.analyze.memory.segments import PLACE, map_moments, memory_map
from aiflame.analyze.memory.what_if import estimates
from aiflame.analyze.tables.table import TableOf, number, place, share, table_of, text
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.memory.blocks import NEVER, blocks
from aiflame.attribute.memory.live import live
from aiflame.attribute.memory.metrics import AT_A_MOMENT, memory_metrics
from aiflame.attribute.memory.moments import Moment

MOST_ROWS = 2000
MOST_CALLERS = 4
_STACK = ["process", "stack", "memory"]
_PLACE = ["memory", "file", "line", "function"]


def memory_tables(profile: Analysis) -> Iterator[TableOf]:
    every = blocks(profile)
    if every.is_empty():
        return
    here = (pl.col("begin_ns") > 0) & (pl.col("count") > 0)
    last = max(every["begin_ns"].to_numpy().max(), every.filter(pl.col("end_ns") < NEVER)["end_ns"].to_numpy().max(initial=0))
    life = (pl.min_horizontal("end_ns", pl.lit(last)) - pl.col("begin_ns")).cast(pl.Float64) * pl.col("count")
    sums = every.group_by(_STACK).agg(
        allocated=pl.col("bytes").filter(here).sum(),
        allocations=pl.col("count").filter(here).sum(),
        lived=life.filter(here).sum(),
    )
    at_peak = live(profile, Moment()).group_by(_STACK).agg(peak=pl.col("bytes").sum())
    placed = with_places(profile, sums.join(at_peak, on=_STACK, how="left").with_columns(pl.col("peak").fill_null(0)))
    names = ("peak", "allocated", "allocations", "lived")
    rows = placed.group_by(_PLACE).agg(pl.col(name).sum() for name in names).sort(-pl.col("peak"), -pl.col("allocated"), *_PLACE)
    columns = (
        text("memory", "Memory"),
        text("function", "Function"),
        number("peak", "At the peak", "bytes"),
        share("share", "% of the peak"),
        number("allocated", "Allocated", "bytes"),
        number("allocations", "Allocations"),
        number("life", "Mean life", "ns"),
        place("place", "Where"),
    )
    rows = rows.with_columns(
        share=pl.col("peak") / pl.col("peak").sum().over("memory").clip(1),
        life=(pl.col("lived") / pl.col("allocations").clip(1)).round().cast(pl.Int64),
        place=pl.when(pl.col("file") != "").then(pl.format("{}:{}", "file", "line")).otherwise(pl.lit("")),
    )
    yield table_of("memory", "Memory by line", columns, rows.head(MOST_ROWS))
    yield from _segments(profile)
    yield from _growing(profile)
    yield from _changes(profile)


def _segments(profile: Analysis) -> Iterator[TableOf]:
    moment = map_moments(profile)[0]
    memory = memory_map(profile, moment)
    if memory is None:
        return
    columns = (
        text("memory", "Memory"),
        text("stream", "Stream"),
        number("bytes", "Segment", "bytes"),
        number("used", "Used", "bytes"),
        number("unused", "Unused", "bytes"),
        number("largest", "Largest hole", "bytes"),
        number("holes", "Holes"),
        number("blocks", "Blocks"),
        share("share", "% of the unused"),
        text("function", "Most of it from"),
        text("category", "Category"),
        place("place", "Where"),
    )
    lines = (
        memory.blocks.group_by("segment", *PLACE, "category")
        .agg(pl.col("bytes").sum())
        .sort("segment", -pl.col("bytes"), *PLACE, "category")
    )
    first = lines.unique("segment", keep="first", maintain_order=True).rename({"bytes": "most"})
    rows = memory.segments.head(MOST_ROWS).with_row_index("segment").with_columns(pl.col("segment").cast(pl.Int64))
    rows = rows.join(first, on="segment", how="left", maintain_order="left").with_columns(
        pl.col("file", "function", "category").fill_null("")
    )
    rows = rows.with_columns(
        share=pl.col("unused") / pl.col("unused").sum().over("memory").clip(1),
        place=pl.when(pl.col("file") != "").then(pl.format("{}:{}", "file", "line")).otherwise(pl.lit("")),
    )
    yield table_of("memory_segments", f"Segments of memory {moment.label}", columns, rows)


def _growing(profile: Analysis) -> Iterator[TableOf]:
    growing = sorted(growth(profile), key=lambda one: (-one.grown, one.place, one.function))
    if not growing:
        return
    pace = "step" if growing[0].of_steps else "second"
    columns = (
        text("memory", "Memory"),
        text("function", "Function"),
        number("pace", f"Grows a {pace}", "bytes"),
        number("grown", "Never freed", "bytes"),
        share("share", "% of live"),
        text("holder", "Held by"),
        text("callers", "Called from"),
        place("place", "Where"),
    )
    rows = [
        (
            one.memory,
            one.function,
            round(one.pace),
            one.grown,
            one.share,
            _held_by(one.holder),
            ", ".join(one.callers[:MOST_CALLERS]),
            one.place,
        )
        for one in growing
        if one.of_steps == growing[0].of_steps
    ]
    texts, numbers = (
        dict.fromkeys(("memory", "function", "holder", "callers", "place"), pl.String),
        dict.fromkeys(("pace", "grown"), pl.Int64),
    )
    schema = {one.name: {**texts, **numbers, "share": pl.Float64}[one.name] for one in columns}
    yield table_of("memory_growth", "Memory that grows", columns, pl.DataFrame(rows, schema=schema, orient="row"))


def _held_by(holder: Holder | None) -> str:
    return f"{holder.text}{'' if holder.sure else ', probably'}" if holder else ""


def _changes(profile: Analysis) -> Iterator[TableOf]:
    metrics = [name for name in AT_A_MOMENT if name in memory_metrics(profile)]
    changes = [one for metric in metrics for one in estimates(profile, metric)]
    if not changes:
        return
    columns = (
        text("change", "With"),
        text("memory", "Memory"),
        number("peak", "Peak", "bytes"),
        number("then", "Peak then, about", "bytes"),
        share("saved", "% saved"),
    )
    rows = [
        (one.change, one.memory, one.peak, one.then, 1 - one.then / one.peak)
        for one in sorted(changes, key=lambda one: one.then - one.peak)
    ]
    schema = {"change": pl.String, "memory": pl.String, "peak": pl.Int64, "then": pl.Int64, "saved": pl.Float64}
    yield table_of("memory_changes", "Peak of memory after changes", columns, pl.DataFrame(rows, schema=schema, orient="row"))

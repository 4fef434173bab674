"""Traced calls of runtimes, for a timeline: below their thread, a track for each runtime."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.timeline.runtime_names import backend_name
from aiflame.attribute.timeline.spans import nested_lanes
from aiflame.attribute.timeline.tables import Making, Owners, SliceKind, TrackKind
from aiflame.profile.schema.enums import CallKind
from aiflame.profile.tables.interface import Tables

_KEY = ("process", "thread", "backend", "asynchronous")
_FACTS = ("bytes", "peer", "group", "failed")
_NO_PEER = 0xFFFFFFFF


def traced_calls(profile: Tables, making: Making, owners: Owners) -> None:
    """Adds every traced call to a track. Operations that continue while their thread does other things have a track of their own."""
    rows = _rows(profile)
    if rows.is_empty():
        return
    keys = rows.select(_KEY).unique(maintain_order=True).with_row_index("number")
    rows = rows.join(keys, on=list(_KEY), how="left", maintain_order="left")
    lane, depth = nested_lanes(*(rows[name].to_numpy().astype(np.int64) for name in ("number", "begin_ns", "end_ns")))
    rows = rows.with_columns(lane=pl.Series(lane), depth=pl.Series(depth))
    where = rows.select("number", "lane", *_KEY).unique().sort("number", "lane")
    tracks = [
        making.track(TrackKind.REGIONS, owners.thread(process, thread), process, _label(backend, asynchronous), thread=thread)
        for _, _, process, thread, backend, asynchronous in where.rows()
    ]
    numbered = where.select("number", "lane", track=pl.Series(tracks, dtype=pl.UInt32))
    sets = rows.select(_FACTS)
    alike = sets.unique(maintain_order=True)
    alike = alike.with_columns(pl.Series("facts", making.facts(alike, _FACTS).astype(np.uint32)))
    facts = sets.join(alike, on=list(_FACTS), how="left", nulls_equal=True, maintain_order="left")["facts"]
    making.slices(
        rows.join(numbered, on=["number", "lane"], how="left", maintain_order="left").select(
            "begin_ns",
            "end_ns",
            "track",
            "depth",
            pl.lit(int(SliceKind.TRACED)).alias("kind"),
            pl.Series("name", making.names(rows["name"].to_list())),
            facts,
        )
    )


def _rows(profile: Tables) -> pl.DataFrame:
    names = profile.scan("call_names").select("process", "backend", pl.col("id").alias("row"), called="name")
    groups = profile.scan("groups").select("process", pl.col("id").alias("group"), of=pl.format("{} ({} of {})", "name", "rank", "size"))
    return (
        profile.scan("calls")
        .rename({"name": "row"})
        .join(names, on=["process", "row"], how="inner")
        .join(groups, on=["process", "group"], how="left")
        .select(
            pl.col("process", "thread").cast(pl.Int64),
            "backend",
            asynchronous=pl.col("kind") == int(CallKind.ASYNC),
            name="called",
            bytes=pl.when(pl.col("bytes") > 0).then("bytes"),
            peer=pl.when(pl.col("peer") != _NO_PEER).then("peer"),
            group=pl.col("of").fill_null(""),
            failed=pl.when(pl.col("failed") != 0).then("result"),
            begin_ns=pl.col("begin_ns").clip(upper_bound=LATEST).cast(pl.Int64),
            end_ns=pl.max_horizontal("begin_ns", "end_ns").clip(upper_bound=LATEST).cast(pl.Int64),
        )
        .sort(*_KEY, "begin_ns", "end_ns", descending=[False, False, False, False, False, True])
        .collect()
    )


def _label(backend: int, asynchronous: bool) -> str:
    return f"{backend_name(backend)} {'operations' if asynchronous else 'calls'}"

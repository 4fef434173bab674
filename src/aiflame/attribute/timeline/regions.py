"""Regions that a program marked, and its counters, for a timeline."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.devices.records import COPY_NAMES
from aiflame.attribute.devices.work import MOST_BYTES
from aiflame.attribute.meaning.regions import regions
from aiflame.attribute.timeline.memory import memory_in_use
from aiflame.attribute.timeline.spans import nested_lanes
from aiflame.attribute.timeline.tables import LATEST, Making, Owners, SliceKind, TrackKind
from aiflame.profile.schema.enums import PayloadType, RegionApi, RegionKind
from aiflame.profile.tables.interface import Tables

_FACTS = ("domain", "category", "payload", "metadata")
"""`metadata`: a region's ITT metadata, `key: value`."""


def marked_regions(profile: Tables, making: Making, owners: Owners, placed: pl.DataFrame | None = None) -> None:
    """Adds every region to a track: regions of a thread below the thread, frames of the whole process below the process, each domain on a
    track of its own. `placed`: only these rows of `placed_regions`."""
    rows = placed_regions(profile) if placed is None else placed
    if rows.is_empty():
        return
    where = rows.select("group", "lane", "process", "owner", "label").unique().sort("group", "lane")
    tracks = []
    for _, _, process, owner, label in where.rows():
        above = owners.process(process) if owner < 0 else owners.thread(process, owner)
        tracks.append(making.track(TrackKind.REGIONS, above, process, label, thread=max(owner, 0)))
    numbered = where.select("group", "lane", track=pl.Series(tracks, dtype=pl.UInt32))
    moment = pl.col("kind") == int(RegionKind.MARK)
    making.slices(
        rows.join(numbered, on=["group", "lane"], how="left", maintain_order="left").select(
            "begin_ns",
            "end_ns",
            "track",
            "depth",
            pl.when(moment).then(int(SliceKind.MARK)).otherwise(int(SliceKind.REGION)).alias("kind"),
            pl.Series("name", making.names(rows["name"].replace("", "[no name]").to_list())),
            pl.Series("facts", _facts(profile, making, rows)),
        )
    )


def placed_regions(profile: Tables) -> pl.DataFrame:
    """Every region, with its track: `label`, below the thread `owner` (-1: the process). `group` numbers the tracks. If regions of a group
    overlap without nesting, some go to another `lane`; `depth` is a region's depth in its lane."""
    marked = regions(profile).intervals
    frame = pl.col("kind") == int(RegionKind.FRAME)
    free = pl.col("kind") == int(RegionKind.FREE)
    ours = pl.col("api") == int(RegionApi.AUTOMATIC)
    label = pl.when(frame).then(pl.lit("Frames")).when(free).then(pl.lit("Regions that may overlap")).otherwise(pl.lit("Regions"))
    of_domain = pl.when(pl.col("domain") == "").then(label).otherwise(pl.format("{}: {}", label, "domain"))
    rows = marked.with_columns(
        end_ns=pl.max_horizontal("begin_ns", "end_ns"),
        owner=pl.when(frame).then(-1).otherwise("thread"),
        label=pl.when(ours).then(pl.lit("Seen by aiflame")).otherwise(of_domain),
    ).sort("process", "owner", "label", "begin_ns", "end_ns", "id", descending=[False, False, False, False, True, False])
    keys = rows.select("process", "owner", "label").unique(maintain_order=True).with_row_index("group")
    rows = rows.join(keys, on=["process", "owner", "label"], how="left", maintain_order="left")
    lane, depth = nested_lanes(rows["group"].to_numpy().astype(np.int64), rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy())
    return rows.with_columns(lane=pl.Series(lane), depth=pl.Series(depth))


def _facts(profile: Tables, making: Making, rows: pl.DataFrame) -> pl.Series:
    metadata = (
        profile.scan("region_data")
        .select(pl.col("process", "region").cast(pl.Int64), metadata=pl.format("{}: {}", "key", "value"))
        .group_by("process", "region", maintain_order=True)
        .agg("metadata")
        .collect()
    )
    kind, bits = pl.col("payload_type"), pl.col("payload")
    payload = (
        pl.when(kind == int(PayloadType.UNSIGNED))
        .then(bits.cast(pl.String))
        .when(kind == int(PayloadType.SIGNED))
        .then(bits.reinterpret(signed=True).cast(pl.String))
        .when(kind == int(PayloadType.FLOAT))
        .then(pl.Series("payload", rows["payload"].to_numpy().view(np.float64)).cast(pl.String))
        .otherwise(pl.lit(""))
    )
    sets = rows.with_columns(payload=payload).join(
        metadata, left_on=["process", "id"], right_on=["process", "region"], how="left", maintain_order="left"
    )
    sets = sets.select(_FACTS)
    distinct = sets.unique(maintain_order=True)
    distinct = distinct.with_columns(pl.Series("facts", making.facts(distinct, _FACTS).astype(np.uint32)))
    return sets.join(distinct, on=list(_FACTS), how="left", nulls_equal=True, maintain_order="left")["facts"]


def counters(profile: Tables, making: Making, owners: Owners) -> None:
    """The program's counters, bytes copied so far, and the memory that is live."""
    value = profile.table("counters")
    doubles = pl.Series("value", value["value"].to_numpy().view(np.float64))
    own = value.with_columns(doubles, label=pl.when(pl.col("domain") == "").then("name").otherwise(pl.format("{}: {}", "domain", "name")))
    _count(making, owners, own.filter(pl.col("value").is_finite()).select("process", "label", "time_ns", "value"), "")
    kind = pl.col("kind").replace_strict({int(of): name for of, name in COPY_NAMES.items()}, default="[copy]", return_dtype=pl.String)
    copied = (
        profile.scan("copies")
        .select("process", time_ns="end_ns", label=pl.format("{} {}", kind.str.strip_chars("[]"), "device"), value="bytes")
        .sort("process", "label", "time_ns")
        .with_columns(pl.col("value").clip(upper_bound=MOST_BYTES).cast(pl.Float64).cum_sum().over("process", "label"))
        .collect()
    )
    _count(making, owners, copied, "bytes")
    memory_in_use(profile, making, owners)


def _count(making: Making, owners: Owners, rows: pl.DataFrame, unit: str) -> None:
    """process, label, time_ns, value"""
    keys = rows.select("process", "label").unique().sort("process", "label")
    tracks = [making.track(TrackKind.COUNTER, owners.process(process), process, label, unit=unit) for process, label in keys.rows()]
    of = keys.with_columns(pl.Series("track", tracks, dtype=pl.UInt32))
    making.points(rows.with_columns(pl.col("time_ns").clip(upper_bound=LATEST)).join(of, on=["process", "label"], how="left"))

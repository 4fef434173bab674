"""Kernels and copies, row by row, with their owners, kinds and launches."""

from __future__ import annotations

import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.devices.inside import kernel_names
from aiflame.attribute.devices.records import COPY_NAMES
from aiflame.attribute.devices.work import MOST_BYTES
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.meaning.families import COLLECTIVE, families
from aiflame.attribute.stacks.process_frames import process_frames, with_ranks
from aiflame.profile.ranks.rank_of import NONE
from aiflame.profile.schema.enums import CopyKind

COMPUTATION, COMMUNICATION, MEMORY = "computation", "communication", "memory"
COPY = "copy"
"""The family of copies and fills."""
PLACE = ["rank", "process", "device"]
"""A device as one process uses it."""
_KEY = ["row", "api", "correlation"]


@once
def device_work(profile: Analysis) -> pl.DataFrame:
    """A row for each kernel and copy, by time: PLACE, stream, kind (COMPUTATION …), copy (its kind; null: a kernel), name, short, family,
    begin_ns, end_ns, took_ns, bytes, correlation, and of its launch launch_begin_ns, launch_end_ns, thread, stack (null: not known); `row`
    of its process in the table and `shape`."""
    kernels = (
        profile.scan("kernels")
        .select(*_joined(), "shape", "stream", *_times())
        .join(_shapes(profile).lazy(), on=["row", "shape"], how="left")
        .with_columns(pl.col("device").fill_null(""), copy=pl.lit(None, pl.UInt32), bytes=pl.lit(0, pl.Int64))
    )
    texts = {int(kind): name for kind, name in COPY_NAMES.items()}
    named = pl.col("kind").replace_strict(texts, default="[copy]", return_dtype=pl.String)
    copies = profile.scan("copies").select(
        *_joined(),
        pl.lit(0, pl.UInt32).alias("shape"),
        "stream",
        *_times(),
        "device",
        name=named,
        short=named,
        family=pl.lit(COPY),
        kind=pl.lit(MEMORY),
        copy="kind",
        bytes=pl.col("bytes").clip(upper_bound=MOST_BYTES).cast(pl.Int64),
    )
    columns = kernels.collect_schema().names()
    both = pl.concat([kernels, copies.select(columns)], how="vertical_relaxed")
    return (
        both.join(_launches(profile), on=_KEY, how="left")
        .join(owners(profile).lazy(), on="row", how="left")
        .with_columns(took_ns=pl.col("end_ns") - pl.col("begin_ns"))
        .sort("begin_ns", "end_ns", maintain_order=True)
        .collect()
    )


@once
def owners(profile: Analysis) -> pl.DataFrame:
    """row (of the process), rank (null: none), process (for people)."""
    processes = with_ranks(profile.table("processes"), profile.table("ranks"))
    rank = pl.when(pl.col("rank") != NONE).then("rank")
    names = pl.Series("process", [frame.name for frame in process_frames(processes)], dtype=pl.String)
    return processes.select(pl.col("process").cast(pl.UInt32).alias("row"), rank).with_columns(names)


def is_fill() -> pl.Expr:
    return (pl.col("copy") == int(CopyKind.FILL)).fill_null(False)


def _shapes(profile: Analysis) -> pl.DataFrame:
    shapes = profile.table("kernel_shapes").select(pl.col("process").alias("row"), pl.col("id").alias("shape"), "name", "device")
    shapes = shapes.unique(["row", "shape"], keep="first")
    family = families(profile, shapes["name"])
    return (
        shapes.join(kernel_names(profile), on="name", how="left")
        .with_columns(family=pl.col("name").replace_strict(family, default="other", return_dtype=pl.String))
        .select(
            *("row", "shape", "device", "family"),
            name=pl.coalesce(pl.when(pl.col("full") != "").then("full"), "name"),
            short=pl.coalesce("short", "name"),
            kind=pl.when(pl.col("family") == COLLECTIVE).then(pl.lit(COMMUNICATION)).otherwise(pl.lit(COMPUTATION)),
        )
    )


def _launches(profile: Analysis) -> pl.LazyFrame:
    """The first launch with each correlation id."""
    rows = profile.scan("launches").select(*_joined(), "thread", "stack", *_times("begin_ns"))
    return rows.rename({"begin_ns": "launch_begin_ns", "end_ns": "launch_end_ns"}).unique(_KEY, keep="first", maintain_order=True)


def _joined() -> list[pl.Expr]:
    return [pl.col("process").alias("row"), pl.col("api").cast(pl.UInt32), pl.col("correlation").cast(pl.UInt64)]


def _times(begin: str = "start_ns") -> list[pl.Expr]:
    """Damaged records may end before they begin, or never."""
    since, until = (pl.col(name).clip(upper_bound=LATEST).cast(pl.Int64) for name in (begin, "end_ns"))
    return [since.alias("begin_ns"), pl.max_horizontal(since, until).alias("end_ns")]

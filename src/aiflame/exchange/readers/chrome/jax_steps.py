"""Steps in the Chrome JSON of JAX's and TensorFlow's profiler, as its XPlane file has them."""

from __future__ import annotations

import polars as pl

from aiflame.exchange.readers.chrome.events import Events
from aiflame.exchange.readers.chrome.threads import Threads
from aiflame.exchange.readers.making import Making
from aiflame.profile.schema.enums import PayloadType, RegionApi, RegionKind

_STEP = "step"
"""Category of regions that are steps."""


def add_steps(making: Making, events: Events, threads: Threads) -> None:
    """A region for each call that has the number of a step; it remains a call, too."""
    if events.steps.is_empty():
        return
    rows = threads.with_rows(events.steps.with_columns(name=events.texts_of(events.steps["name"]))).drop_nulls("process")
    rows = making.numbered("regions", rows)
    regions = rows.select(
        *("process", "id", "thread"),
        name=pl.when(pl.col("name") == "").then(pl.lit(_STEP)).otherwise("name"),
        begin_ns="begin",
        payload=pl.Series(rows["step"].to_numpy().view("uint64")),
        api=pl.lit(int(RegionApi.XLA)),
        kind=pl.lit(int(RegionKind.NESTED)),
        category=pl.lit(_STEP),
        payload_type=pl.lit(int(PayloadType.SIGNED)),
    )
    making.add("regions", regions)
    making.add("region_ends", rows.select("process", "thread", region="id", end_ns="end"))

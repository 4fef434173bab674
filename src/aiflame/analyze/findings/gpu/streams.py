"""Streams whose work could run at the same time, but never does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.analyze.device.limits import device
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.catalogue import FEW_RECORDS, least
from aiflame.analyze.findings.gpu.facts import Facts
from aiflame.analyze.spans import union
from aiflame.attribute.meaning.families import COLLECTIVE
from aiflame.attribute.tree import GPU_TIME

OF_STREAM = 0.05
"""A share of the time: streams with less have another purpose."""
BUSY = 0.5
"""A share of the time: where the device waits for launches, streams cannot overlap."""
SMALL = 0.5
"""A share of the multiprocessors: larger kernels leave no room for others."""
TOGETHER = 0.05
"""A share of the streams' time: above it, they do overlap."""
GAIN = 0.5


def serial_streams(facts: Facts) -> Iterator[Finding]:
    analysis = facts.analysis
    profile = analysis.profile
    rows = profile.scan("kernels").select("process", "stream", "shape").collect()
    executions = analysis.work.executions[: len(rows)]
    small = _small(facts)
    rows = rows.with_columns(executions["site"], *(executions[name].reinterpret(signed=True) for name in ("start_ns", "end_ns")))
    rows = rows.filter(pl.Series(facts.inside[: len(rows)])).join(small, on=["process", "shape"], how="left")
    collective = (analysis.sites["family"] == COLLECTIVE).to_numpy()
    rows = rows.filter(pl.Series(~collective[rows["site"].to_numpy()]))
    rows = rows.with_columns(device=analysis.sites["device"].gather(rows["site"]))
    for part in rows.partition_by("process", "device"):
        spans = [
            union(one["start_ns"].to_numpy(), one["end_ns"].to_numpy())
            for one in part.partition_by("stream")
            if len(one) >= FEW_RECORDS and one["small"].mean() == 1.0
        ]
        spans = [one for one in spans if facts.share(one.total()) >= OF_STREAM]
        if len(spans) < 2:
            continue
        alone = sum(one.total() for one in spans)
        together = union(*(np.concatenate([getattr(one, side) for one in spans]) for side in ("begin", "end"))).total()
        won = alone - max(one.total() for one in spans)
        share = facts.share(won)
        if (alone - together) / alone > TOGETHER or facts.share(together) < BUSY or share < least("serial-streams"):
            continue
        sentence = (
            f"{len(spans)} streams run one after another, although their kernels leave most of the GPU free: "
            f"at once, they would take {facts.took(won)} less"
        )
        view = Evidence("timeline", GPU_TIME.name, "code")
        yield Finding(sentence, share, view, "serial-streams", share * GAIN)


def _small(facts: Facts) -> pl.DataFrame:
    """process, shape, `small`: its blocks fill less than half of the device."""
    shapes = facts.analysis.profile.table("kernel_shapes")
    counts = {name: limits.multiprocessors for name in shapes["device"].unique() if (limits := device(name)) is not None}
    blocks = pl.col("grid_x").cast(pl.Int64) * pl.col("grid_y") * pl.col("grid_z")
    size = pl.col("device").replace_strict(counts, default=0, return_dtype=pl.Int64)
    return shapes.select("process", shape="id", small=(blocks > 0) & (blocks < SMALL * size)).unique(["process", "shape"])

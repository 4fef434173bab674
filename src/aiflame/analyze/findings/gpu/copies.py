"""Copies between host and device for which the device waits: from pageable memory, or one after the other with kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.device.limits import device
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.catalogue import FEW_RECORDS, least
from aiflame.analyze.findings.gpu.facts import Facts, at
from aiflame.analyze.layer_groups import escaped
from aiflame.analyze.places import place_text
from aiflame.attribute.arrays.chunks import take_or
from aiflame.attribute.devices.work import MOST_BYTES
from aiflame.attribute.tree import BYTES
from aiflame.profile.schema.enums import CopyKind

LARGE = 64 << 10
"""In bytes: the driver copies smaller amounts through buffers of its own, and the call returns at once."""
SLOW = 0.6
"""A share of the rate of pinned memory."""
BLOCKED = 0.5
"""A share of the copy's time: the call was still in the driver, which moved the data in pieces."""
SLOWEST_BUS = 11.0
"""GB/s of pinned memory over PCIe 3, for devices that are not listed."""
COPIES = {
    "name": pl.String, "file": pl.String, "line": pl.Int64, "alone": pl.Int64, "took": pl.Int64, "bytes": pl.Int64, "pageable": pl.Boolean,
    "rate": pl.Float64,
}  # fmt: skip
"""`alone`: ns before the copy's end in which no kernel ran; `rate`: GB/s from pinned memory."""


def pageable_copies(facts: Facts) -> Iterator[Finding]:
    copies = _copies(facts)
    slow = copies.filter("pageable")
    alone = int(slow["alone"].sum())
    share = facts.share(alone)
    if len(slow) < FEW_RECORDS or share < least("pageable-copies"):
        return
    most = slow.group_by("name", "file", "line").agg(pl.len(), pl.col("alone", "took", "bytes").sum(), pl.col("rate").first())
    row = most.sort("alone", "name", "file", "line", descending=[True, False, False, False]).row(0, named=True)
    place = place_text(row["file"], row["line"])
    rate = row["bytes"] / max(row["took"], 1)
    each = amount(round(row["bytes"] / row["len"]), "bytes")
    sentence = (
        f"The GPU waits {facts.took(alone)} for copies of pageable memory{at(place)}: {row['len']:,} {row['name']} of {each} each,"
        f" at {rate:.1f} GB/s where pinned memory allows {row['rate']:.0f}"
    )
    view = Evidence(
        "tables", BYTES.name, "code", f"^{escaped(row['name'])}$", table="copies", place=place, column="short", names=(row["name"],)
    )
    yield Finding(sentence, share, view, "pageable-copies", share)


def _copies(facts: Facts) -> pl.DataFrame:
    """COPIES between host and device, in the time that findings cover."""
    analysis = facts.analysis
    executions = analysis.work.executions
    moved = analysis.profile.scan("copies").select("kind", pl.col("bytes").clip(upper_bound=MOST_BYTES).cast(pl.Int64)).collect()
    kernels = len(executions) - len(moved)
    between = executions[kernels:].hstack(moved).with_columns(inside=pl.Series(facts.inside[kernels:]))
    kinds = [int(CopyKind.HOST_TO_DEVICE), int(CopyKind.DEVICE_TO_HOST)]
    between = between.filter(pl.col("inside") & pl.col("kind").is_in(kinds) & (pl.col("end_ns") > pl.col("start_ns")))
    if between.is_empty():
        return pl.DataFrame(schema=COPIES)
    sites = analysis.sites.select("process", "device", "name", "file", "line")[between["site"].to_numpy()]
    begin, end = (between[name].to_numpy().view(np.int64) for name in ("start_ns", "end_ns"))
    process, took = sites["process"].to_numpy(), end - begin
    alone = np.zeros(len(between), dtype=np.int64)
    for used in analysis.devices:
        here = (process == used.process) & (sites["device"] == used.name).to_numpy()
        alone[here] = end[here] - used.awaited_since(begin[here], end[here])
    launch = analysis.launches.rows(process, between["launch"].to_numpy().astype(np.int64))
    blocked = take_or(analysis.launches.end_ns, launch, 0) - begin >= BLOCKED * took
    rates = {name: limits.host_rate if (limits := device(name)) is not None else SLOWEST_BUS for name in sites["device"].unique()}
    rate = sites["device"].replace_strict(rates, return_dtype=pl.Float64).to_numpy()
    size = between["bytes"].to_numpy()
    pageable = blocked & (size >= LARGE) & (size / took < SLOW * rate)
    columns = {"alone": alone, "took": took, "bytes": size, "pageable": pageable, "rate": rate}
    return sites.select("name", "file", "line").with_columns(**{name: pl.Series(column) for name, column in columns.items()})

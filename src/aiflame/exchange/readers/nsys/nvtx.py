"""NVTX events of an nsys report: ranges that a thread pushed and popped, ranges that were started and ended, marks."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from aiflame.exchange.readers.devices.trace import CALLS, REGIONS, DeviceTrace, shaped
from aiflame.exchange.readers.frames import NamedFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.nsys.ids import with_owner
from aiflame.exchange.readers.sqlite_file import INT, REAL, TEXT
from aiflame.exchange.readers.sqlite_pages import Kind as Column
from aiflame.profile.schema.enums import PayloadType, RegionKind
from aiflame.profile.schema.kinds import OP_MODULE, Kind

COLUMNS: dict[str, Column] = {
    **dict.fromkeys(("start", "end", "eventType", "category", "color", "globalTid", "textId", "domainId"), INT),
    "text": TEXT,
    **dict.fromkeys(("uint64Value", "int64Value", "uint32Value", "int32Value", "jsonTextId"), INT),
    **dict.fromkeys(("doubleValue", "floatValue"), REAL),
}
_CATEGORY, _DOMAIN = (33, 64), (75,)
_KINDS = {
    **dict.fromkeys((59, 70), RegionKind.NESTED),
    **dict.fromkeys((60, 71), RegionKind.FREE),
    **dict.fromkeys((34, 65), RegionKind.MARK),
}
_QUIET = (39, 72, 73, 74, 76, 97, 98, 99)
"""Names of threads and devices, and the ends of domains."""
_OP = re.compile(r"(?P<op>.+?), (?:seq|op_id) = \d+(?:, .*)?", re.DOTALL)
"""`aten::mm, seq = 7, op_id = 12`: torch.autograd.profiler.emit_nvtx()"""
MODULE = "[NVTX]"


def add_nvtx(trace: DeviceTrace, making: Making, events: pl.DataFrame, strings: pl.DataFrame) -> None:
    """Ranges that were pushed are frames of their thread's stacks. Those of torch's emit_nvtx() are ops, the others regions too."""
    if events.is_empty():
        return
    events = (
        with_owner(events, "globalTid")
        .join(strings.rename({"id": "textId", "value": "registered"}), on="textId", how="left", maintain_order="left")
        .with_columns(name=pl.coalesce("text", "registered", pl.lit("")), domainId=pl.col("domainId").fill_null(0))
    )
    kind = pl.col("eventType")
    domains = events.filter(kind.is_in(_DOMAIN)).unique(["pid", "domainId"], keep="first").select("pid", "domainId", domain="name")
    named = events.filter(kind.is_in(_CATEGORY)).unique(["pid", "domainId", "category"], keep="first")
    categories = named.select("pid", "domainId", "category", category_name="name")
    other = events.filter(~kind.is_in([*_KINDS, *_CATEGORY, *_DOMAIN, *_QUIET]))
    if len(other):
        making.unused["NVTX events of other types"] += len(other)
    marked = (
        events.filter(kind.is_in(list(_KINDS)))
        .join(domains, on=["pid", "domainId"], how="left", maintain_order="left")
        .join(categories, on=["pid", "domainId", "category"], how="left", maintain_order="left")
        .with_columns(
            begin="start",
            kind=kind.replace_strict({of: int(meaning) for of, meaning in _KINDS.items()}, return_dtype=pl.Int64),
            category=pl.coalesce("category_name", pl.col("category").replace(0, None).cast(pl.String), pl.lit("")),
            domain=pl.col("domain").fill_null(""),
        )
    )
    with_schema = int(marked["jsonTextId"].is_not_null().sum())
    if with_schema:
        making.unused["NVTX payloads in JSON"] += with_schema
    frames = marked.select("name", "domain").unique(maintain_order=True)
    ops = [_OP.fullmatch(name) for name in frames["name"].to_list()]
    numbers = [
        trace.frames.number(NamedFrame(op["op"], Kind.CPP, module=OP_MODULE) if op else NamedFrame(name, Kind.C, module=domain or MODULE))
        for op, (name, domain) in zip(ops, frames.iter_rows(), strict=True)
    ]
    frames = frames.with_columns(
        frame=pl.Series(numbers, dtype=pl.Int64), is_op=pl.Series([op is not None for op in ops], dtype=pl.Boolean)
    )
    marked = marked.join(frames, on=["name", "domain"], how="left", maintain_order="left", nulls_equal=True)
    nested = marked.filter(pl.col("kind") == int(RegionKind.NESTED))
    trace.calls = pl.concat([trace.calls, shaped(nested, CALLS)])
    regions = _with_payload(marked.filter(~(pl.col("is_op") & (pl.col("kind") == int(RegionKind.NESTED)))))
    trace.regions = pl.concat([trace.regions, shaped(regions, REGIONS)])


def _with_payload(rows: pl.DataFrame) -> pl.DataFrame:
    """The bits of the payload's number, and its type."""
    unsigned = pl.coalesce("uint64Value", "uint32Value")
    signed = pl.coalesce("int64Value", "int32Value")
    decimal = pl.coalesce("doubleValue", "floatValue")
    values = rows.select(unsigned=unsigned, signed=signed, decimal=decimal)
    whole = values.select(pl.coalesce("unsigned", "signed").fill_null(0)).to_series().to_numpy().astype(np.int64).view(np.uint64)
    bits = values["decimal"].fill_null(0.0).to_numpy().astype(np.float64).view(np.uint64)
    is_decimal = (values["unsigned"].is_null() & values["signed"].is_null() & values["decimal"].is_not_null()).to_numpy()
    kind = (
        pl.when(pl.Series(values["unsigned"].is_not_null()))
        .then(int(PayloadType.UNSIGNED))
        .when(pl.Series(values["signed"].is_not_null()))
        .then(int(PayloadType.SIGNED))
        .when(pl.Series(is_decimal))
        .then(int(PayloadType.FLOAT))
        .otherwise(int(PayloadType.NONE))
    )
    return rows.with_columns(payload_type=kind, payload=pl.Series(np.where(is_decimal, bits, whole), dtype=pl.UInt64))

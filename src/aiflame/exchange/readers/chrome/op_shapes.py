"""The shapes of torch's ops in a trace (`record_shapes`), and the work of each launch by them."""

from __future__ import annotations

import json

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Mask
from aiflame.exchange.readers.chrome.events import Events
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.op_work import Call, OpWork, call_of, op_work
from aiflame.exchange.readers.spans import Spans

_MOST = 200_000
"""Different calls: each op with each combination of shapes."""
_LONGEST = 20_000
"""Characters of a description: those of a few hundred tensors in one list are longer, and have no model."""


def add_op_work(making: Making, events: Events, calls: pl.DataFrame, spans: Spans, launches: pl.DataFrame) -> None:
    """Writes the work of the innermost op with a model around each launch. `launches`: process, correlation, row (of `calls`)."""
    if launches.is_empty() or events.shapes.is_empty():
        return
    described = placed(events.shapes, calls)
    key = ["name", "dims", "types", "values"]
    distinct = described.select(key).unique(maintain_order=True)
    if len(distinct) > _MOST:
        making.note(
            f"the trace calls ops in {len(distinct):,} different ways: the work of {len(distinct) - _MOST:,} of these is not modelled"
        )
        distinct = distinct.head(_MOST)
    texts = {name: events.texts_of(distinct[name]).to_list() for name in key}
    works = [_work(*of) for of in zip(*(texts[name] for name in key), strict=True)]
    of_models = [work for work in works if work is not None]
    modelled = distinct.filter(pl.Series([work is not None for work in works], dtype=pl.Boolean)).with_columns(
        pl.Series("flops", [work.flops for work in of_models], dtype=pl.UInt64),
        pl.Series("bytes", [work.bytes for work in of_models], dtype=pl.UInt64),
        pl.Series("type", [work.type for work in of_models], dtype=pl.String),
    )
    ops = described.join(modelled, on=key).select("row", "flops", "bytes", "type")
    op = spans.nearest(_innermost(spans, ops))[launches["row"].to_numpy()]
    rows = launches.select("process", "correlation", op=pl.Series(op)).filter(pl.col("op") >= 0)
    launched = rows.join(ops.with_columns(op=pl.col("row").cast(pl.Int64)), on="op", maintain_order="left")
    making.add("op_work", launched.with_columns(pl.col("op") + 1))


def placed(shapes: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The shapes with the row of their call in `calls`, and its name. There are millions: a place for each number needs less memory than a
    join."""
    call, described = calls["call"].to_numpy(), shapes["call"].to_numpy()
    row_of_call = np.full(int(described.max(initial=0)) + 1, -1, dtype=np.int32)
    has_shapes = np.flatnonzero(call < len(row_of_call))  # calls of two halves have no number: the largest there is
    row_of_call[call[has_shapes]] = has_shapes
    placed = shapes.drop("call").with_columns(row=pl.Series(row_of_call[described])).filter(pl.col("row") >= 0)
    return placed.with_columns(name=calls["name"].gather(placed["row"]), row=pl.col("row").cast(pl.UInt32))


def _innermost(spans: Spans, ops: pl.DataFrame) -> Mask:
    """For each call whether it is an op that does its work itself: `matmul` leaves that to `mm`, which it calls. A copy that a product
    makes of its inputs is work beside the product."""
    marked: Mask = np.zeros(len(spans.parent), dtype=np.bool_)
    multiplies = marked.copy()
    marked[ops["row"].to_numpy()] = True
    multiplies[ops.filter(pl.col("flops") > 0)["row"].to_numpy()] = True
    around = spans.nearest(marked, strict=True)
    leaves: Mask = marked.copy()
    op = np.flatnonzero(marked)
    outer = around[op]
    while (some := outer >= 0).any():
        op, outer = op[some], outer[some]
        leaves[outer[multiplies[op] | ~multiplies[outer]]] = False
        outer = around[outer]
    return leaves


def _work(name: str, dims: str, types: str, values: str) -> OpWork | None:
    return op_work(name, call_of_texts(dims, types, values)) if len(dims) <= _LONGEST else None


def call_of_texts(dims: str, types: str, values: str) -> Call:
    """The call that these texts describe; one without tensors where they are damaged."""
    try:
        parts = [json.loads(text or "[]") for text in (dims, types, values)]
    except (ValueError, RecursionError):
        return Call(())
    return call_of(*parts) if all(isinstance(part, list) for part in parts) else Call(())

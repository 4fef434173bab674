"""Communication of the ranks of a job, as torch.distributed describes it in its traces."""

from __future__ import annotations

import json

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.chrome.events import Events
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.ranks.job import MOST_RANKS
from aiflame.profile.schema.enums import CallBackend, CallKind

_BYTES = {
    **dict.fromkeys(("double", "long", "int64", "uint64", "float64", "complexfloat"), 8),
    **dict.fromkeys(("float", "int", "int32", "uint32", "float32"), 4),
    **dict.fromkeys(("half", "bfloat16", "short", "int16", "uint16", "float16"), 2),
    "complexdouble": 16,
}
"""Of an element, by the end of its type's name; others have one."""


def add_collectives(making: Making, events: Events, calls: pl.DataFrame, spans: Spans, stack: Whole) -> None:
    """Writes the calls that torch described, with their groups and bytes. Their kernels are those that they launched."""
    places = calls.select("call").with_columns(
        process=pl.Series(spans.process),
        thread=pl.Series(spans.thread),
        stack=pl.Series(stack),
        begin_ns=pl.Series(spans.begin),
        end_ns=pl.Series(spans.call_end),
    )
    rows = events.collectives.with_columns(pl.col("call").cast(pl.UInt32)).join(places, on="call", maintain_order="left")
    if rows.is_empty():
        return
    texts = {name: _plain(events, rows[name]) for name in ("collective", "dtype", "group", "members")}
    size = [_bytes_of(text) for text in texts["dtype"]]
    rows = rows.with_columns(
        pl.Series("collective", texts["collective"]),
        pl.Series("group", texts["group"]),
        pl.Series("members", texts["members"]),
        bytes=pl.max_horizontal("elements", 0) * pl.Series(size, dtype=pl.Int64),
        size=pl.max_horizontal("group_size", 0),
    )
    groups = making.numbered("groups", rows.select("process", "group", "members", "size").unique(maintain_order=True))
    making.add(
        "groups",
        groups.select(
            "process",
            "id",
            "size",
            backend=pl.lit(int(CallBackend.NCCL)),
            name="group",
            members=pl.Series([_members(text) for text in groups["members"].to_list()], dtype=pl.Binary),
        ),
    )
    names = making.numbered("call_names", rows.select("process", "collective").unique(maintain_order=True))
    making.add("call_names", names.select("process", "id", backend=pl.lit(int(CallBackend.NCCL)), name=pl.format("nccl:{}", "collective")))
    named = rows.join(names, on=["process", "collective"], maintain_order="left")
    grouped = named.join(groups.rename({"id": "group_row"}), on=["process", "group", "members", "size"], maintain_order="left")
    making.add(
        "calls",
        grouped.select(
            *("process", "thread", "stack", "bytes", "begin_ns", "end_ns"),
            name="id",
            group="group_row",
            kind=pl.lit(int(CallKind.BLOCKING)),
            peer=pl.lit(0xFFFFFFFF),
        ),
    )


def _plain(events: Events, column: pl.Series) -> list[str]:
    """Texts that the file may have in quotes: the rows have JSON as it is written."""
    return [text[1:-1] if text.startswith('"') else text for text in events.texts_of(column).to_list()]


def _bytes_of(dtype: str) -> int:
    return _BYTES.get(dtype.lower().rpartition(":")[2], 1)


def _members(text: str) -> bytes:
    """`[0, 1, 2, 3]`; torch leaves numbers out of long lists, whose members are then not known."""
    try:
        numbers = json.loads(text or "[]")
        if all(type(number) is int and 0 <= number < MOST_RANKS for number in numbers):
            return np.array(numbers, dtype=np.uint32).tobytes()
    except (ValueError, TypeError, RecursionError):
        pass
    return b""

"""Which node of torch's backward graph each call of a trace belongs to, by the sequence numbers that torch gives its ops."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Mask, Whole
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.schema.frame_words import AUTOGRAD_BACKWARD, AUTOGRAD_THREAD
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Autograd:
    """For each call of the trace the columns `autograd` and `sequence` that a recording has; 0 where torch gave no numbers."""

    autograd: Whole
    sequence: Whole
    makers: pl.DataFrame
    """Calls that made nodes: process, thread, layer, autograd, sequence, begin, end."""

    @staticmethod
    def of(calls: pl.DataFrame, spans: Spans, layer: Whole) -> Autograd:
        """`layer`: of each call, the row of the module around it."""
        sequence, forward = calls["sequence"].to_numpy(), calls["forward_thread"].to_numpy()
        numbered = sequence >= 0
        backward = numbered & (forward > 0)
        ahead = numbered & ~backward
        if not numbered.any():
            nothing = np.zeros(len(calls), dtype=np.int32)
            return Autograd(nothing, nothing, _rows_of_makers(spans, np.zeros(0, dtype=np.int64), layer, nothing, sequence))
        thread = _torch_threads(spans, sequence, forward, ahead, backward)
        own = np.where(backward, forward & AUTOGRAD_THREAD | AUTOGRAD_BACKWARD, thread)
        of_backward = spans.nearest(backward)
        place = spans.nearest(numbered)
        # Ops that a node of the backward graph runs are its work, also where they have numbers of their own.
        place = np.where(of_backward >= 0, of_backward, place)
        autograd = np.where(place >= 0, own[np.maximum(place, 0)], thread)
        number = np.where(place >= 0, sequence[np.maximum(place, 0)], 0)
        makers = np.flatnonzero(ahead & (of_backward < 0) & (layer > 0))
        return Autograd(autograd.astype(np.int32), number.astype(np.int32), _rows_of_makers(spans, makers, layer, thread, sequence))

    def columns(self) -> dict[str, Whole]:
        return {"autograd": self.autograd, "sequence": self.sequence}

    def add_layer_calls(self, making: Making) -> None:
        """Writes for each stretch of nodes that were made one after another in one module, the module."""
        rows = self.makers
        if rows.is_empty():
            return
        changed = pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in ("process", "thread", "layer"))
        begins_again = pl.col("sequence") < pl.col("sequence").shift(1)
        stretch = rows.with_columns(stretch=(changed | begins_again).fill_null(True).cum_sum())
        making.add(
            "layer_calls",
            stretch.group_by("stretch", maintain_order=True).agg(
                pl.col("process", "thread", "layer", "autograd").first(),
                sequence_begin=pl.col("sequence").min(),
                sequence_end=pl.col("sequence").max() + 1,
                begin_ns=pl.col("begin").first(),
                end_ns=pl.col("end").max(),
            ),
        )


def _rows_of_makers(spans: Spans, makers: Whole, layer: Whole, thread: Whole, sequence: Whole) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "process": spans.process[makers],
            "thread": spans.thread[makers],
            "layer": layer[makers],
            "autograd": thread[makers],
            "sequence": sequence[makers],
            "begin": spans.begin[makers],
            "end": spans.end[makers],
        }
    )


def _torch_threads(spans: Spans, sequence: Whole, forward: Whole, ahead: Mask, backward: Mask) -> Whole:
    """Torch's number of the thread of each call. Backward work names by it the thread whose forward code made its node: that is the thread
    whose forward calls have the same sequence numbers most often. Other threads get numbers that nobody has."""
    ahead_rows, backward_rows = np.flatnonzero(ahead), np.flatnonzero(backward)
    calls = pl.DataFrame({"process": spans.process_of(ahead_rows), "sequence": sequence[ahead_rows], "row": spans.track_row[ahead_rows]})
    used = pl.DataFrame(
        {"process": spans.process_of(backward_rows), "sequence": sequence[backward_rows], "number": forward[backward_rows]}
    ).unique()
    forward_calls = calls.join(used.select("process", "sequence").unique(), on=["process", "sequence"], how="semi").unique()
    pairs = (
        used.join(forward_calls, on=["process", "sequence"])
        .group_by("number", "row")
        .len()
        .sort("len", "number", "row", descending=[True, False, False])
    )
    number: dict[int, int] = {}
    for one, row in pairs.select("number", "row").rows():
        if row not in number and one not in number.values():
            number[row] = one
    free = max([0, *number.values(), *used["number"].to_list()])
    numbers = []
    for row in range(len(spans.tracks)):
        if row not in number:
            free += 1
            number[row] = free
        numbers.append(number[row] & AUTOGRAD_THREAD)
    return np.array(numbers, dtype=np.int32)[spans.track_row]

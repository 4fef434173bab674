"""Which node of torch's backward graph each call of a trace belongs to, by the sequence numbers that torch gives its ops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Mask, Whole
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.schema.frame_words import AUTOGRAD_BACKWARD, AUTOGRAD_THREAD


@dataclass(frozen=True, slots=True)
class Autograd:
    """For each call of the trace the columns `autograd` and `sequence` that a recording has; 0 where torch gave no numbers."""

    autograd: Whole
    sequence: Whole
    made: pl.DataFrame
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
            return Autograd(nothing, nothing, _made(spans, np.zeros(0, dtype=np.int64), layer, nothing, sequence))
        thread = _torch_threads(spans, sequence, forward, ahead, backward)
        own = np.where(backward, forward & AUTOGRAD_THREAD | AUTOGRAD_BACKWARD, thread)
        of_backward = spans.nearest(backward)
        place = spans.nearest(numbered)
        # Ops that a node of the backward graph runs are its work, also where they have numbers of their own.
        place = np.where(of_backward >= 0, of_backward, place)
        autograd = np.where(place >= 0, own[np.maximum(place, 0)], thread)
        number = np.where(place >= 0, sequence[np.maximum(place, 0)], 0)
        makers = np.flatnonzero(ahead & (of_backward < 0) & (layer > 0))
        return Autograd(autograd.astype(np.int32), number.astype(np.int32), _made(spans, makers, layer, thread, sequence))

    def columns(self) -> dict[str, Whole]:
        return {"autograd": self.autograd, "sequence": self.sequence}

    def add_layer_calls(self, making: Making) -> None:
        """Writes for each stretch of nodes that were made one after another in one module, the module."""
        rows = self.made
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


def _made(spans: Spans, makers: Whole, layer: Whole, thread: Whole, sequence: Whole) -> pl.DataFrame:
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
    track = spans.process << 32 | spans.thread
    made = pl.DataFrame({"process": spans.process[ahead], "sequence": sequence[ahead], "track": track[ahead]}).unique()
    used = pl.DataFrame({"process": spans.process[backward], "sequence": sequence[backward], "number": forward[backward]}).unique()
    pairs = (
        used.join(made, on=["process", "sequence"])
        .group_by("number", "track")
        .len()
        .sort("len", "number", "track", descending=[True, False, False])
    )
    number: dict[int, int] = {}
    for one, of, _ in pairs.rows():
        if of not in number and one not in number.values():
            number[of] = one
    free = max([0, *number.values(), *used["number"].to_list()])
    tracks, which = np.unique(track, return_inverse=True)
    numbers = []
    for of in tracks.tolist():
        if of not in number:
            free += 1
            number[of] = free
        numbers.append(number[of] & AUTOGRAD_THREAD)
    return np.array(numbers, dtype=np.int64)[which]

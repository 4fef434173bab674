"""The calls of threads, as torch.profiler would have seen them: calls inside of calls, made of launches and CPU samples.

A launch has an exact begin and end. A sample stands for the time before it; where a launch lies in that time, the launch counts. Neighbours
with the same beginning of their paths are in one call, as on the timeline. A path is: layers, functions, an op, and the launch itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.context import Meaning, of_samples
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.stacks.samples import VALUE
from aiflame.attribute.timeline.context import DEEPEST_LAYER
from aiflame.attribute.timeline.samples import DEEPEST, clock_of, shown_parents
from aiflame.attribute.timeline.spans import ancestors, pieces
from aiflame.attribute.timeline.stacks import Stacks
from aiflame.profile.schema.frame_words import AUTOGRAD_BACKWARD, AUTOGRAD_THREAD
from aiflame.profile.schema.kinds import OP_MODULE
from aiflame.values import dataclass

LAYER, FUNCTION, OP, CALL = range(4)
"""The kinds of calls; the value of each names a node of the layers, a node of the functions, an op of `Items.op`, and a launch."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of a piece of all items: arrays with a value for each call."""

    kind: int
    value: Ints
    item: Ints
    """The first item in it."""
    begin: Ints
    end: Ints
    number: Ints
    """Of an op, its number, from 1; 0 for other calls."""


@dataclass(frozen=True, slots=True)
class Items:
    """Launches and samples, by thread and time; those of a thread do not overlap."""

    process: NDArray[np.int32]
    thread: NDArray[np.int32]
    begin: Ints
    end: Ints
    launch: NDArray[np.int32]
    """Row of the launches, -1 for samples."""
    step: NDArray[np.int32]
    layer: NDArray[np.int32]
    function: NDArray[np.int32]
    """Node of the trie of functions: without the function of the launch itself."""
    op: NDArray[np.int32]
    """Node of the forest of ops, -1 where there is none, or a function is it."""
    op_call: NDArray[np.int32]
    """Neighbours with the same op of the same autograd node have the same number; -1: no op."""
    autograd: NDArray[np.int32]
    sequence: Ints
    parent: NDArray[np.int32]
    """The functions that are shown: for each node the next one outside."""
    is_op: Mask
    """By node: the function is an op of torch itself, in imported traces."""
    exact: bool
    """Samples are exact times of calls: calls end where nothing follows at once."""

    @staticmethod
    def of(profile: Analysis, stacks: Stacks, meaning: Meaning, launches: pl.DataFrame, *, samples: bool, exact: bool) -> Items:
        """`launches`: process, thread, stack, autograd, sequence, begin_ns, end_ns, row by row as in `meaning.launches`."""
        rows = _launches(stacks, meaning, launches)
        between = _samples(profile, stacks, rows) if samples else rows.clear()
        if len(between):
            rows = pl.concat([rows, between]).sort("process", "thread", "begin", "end", maintain_order=True)
        arrays = {name: rows[name].to_numpy() for name in rows.columns}
        del rows, between
        trie = stacks.trie
        modules = trie.frames.select((pl.col("module") == OP_MODULE).alias("op"))["op"].to_numpy()
        is_op = modules[trie.frame]
        parent = shown_parents(stacks)
        has_op = (nodes.nearest(parent, is_op) >= 0)[arrays["function"]]
        op = arrays["op"] = np.where(has_op | (arrays["op"] <= 0), -1, arrays["op"])
        changed = _changed(op) | _changed(arrays["autograd"]) | _changed(arrays["sequence"])
        op_call = np.where(op >= 0, np.cumsum(changed, dtype=np.int32), -1)
        return Items(**arrays, op_call=op_call, parent=parent, is_op=is_op, exact=exact)

    @property
    def track(self) -> Ints:
        return self.process.astype(np.int64) << 32 | self.thread

    def calls(self, layers: NDArray[np.int32], models: Mask, external: NDArray[np.int64]) -> Iterator[Calls]:
        """All calls, outer ones before those inside. `layers`: the forest's parents. `models`: the nodes of it that are whole models; any
        other path lies in the model of node 0. `external`: of each launch, gets the number of the op around it."""
        count = 0
        for piece in pieces(_changed(self.track) | _changed(self.step)):
            rows = {name: getattr(self, name)[piece] for name in ("begin", "end", "layer", "function", "op_call", "launch")}
            changes = _changed(self.track[piece])
            gap = rows["begin"][1:] - rows["end"][:-1]
            changes[1:] |= gap > (0 if self.exact else _LONGEST_GAP_NS)
            if not self.exact:
                changes |= _changed(self.step[piece])  # a step is an event beside them, which they may not overlap
            around = np.zeros(len(changes), dtype=np.int64)
            for kind, value in self._levels(layers, models, rows):
                changes[1:] |= value[1:] != value[:-1]
                first = np.flatnonzero(changes)
                last = np.append(first[1:], len(changes))[: len(first)] - 1
                there = value[first] >= 0
                first, last = first[there], last[there]
                numbered = np.zeros(len(first), dtype=np.int64)
                if kind in (OP, FUNCTION):
                    op = np.ones(len(first), dtype=np.bool_) if kind == OP else self.is_op[value[first]]
                    numbered[op] = count + 1 + np.arange(int(op.sum()))
                    count += int(op.sum())
                    length = last - first + 1
                    inside = np.repeat(first, length) + np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
                    of = np.repeat(numbered, length)
                    around[inside[of > 0]] = of[of > 0]
                yield Calls(kind, value[first], first + piece.start, rows["begin"][first], rows["end"][last], numbered)
            launched = rows["launch"] >= 0
            external[rows["launch"][launched]] = around[launched]

    def _levels(self, layers: NDArray[np.int32], models: Mask, rows: dict[str, Ints]) -> Iterator[tuple[int, Ints]]:
        layer = rows["layer"].astype(np.int64)
        for depth, node in enumerate(ancestors(layers, layer, DEEPEST_LAYER)):
            is_model = (depth == 0) & (node >= 0) & models[node]
            if depth == 0:
                yield LAYER, np.where(layer > 0, np.where(is_model, node, 0), -1)
            yield LAYER, np.where(is_model, -1, node)
        for node in ancestors(self.parent, rows["function"].astype(np.int64), DEEPEST):
            yield FUNCTION, node
        yield OP, rows["op_call"]
        yield CALL, rows["launch"]

    def numbers_of_torch(self, item: Ints) -> tuple[Ints, Ints]:
        """The number of the autograd node that items belong to, -1: none; and of the thread that made it, 0: it is forward code."""
        autograd, sequence = self.autograd[item], self.sequence[item]
        backward = (autograd & AUTOGRAD_BACKWARD) != 0
        numbered = (autograd != 0) & (backward | (sequence > 0))
        return np.where(numbered, sequence, -1), np.where(backward, autograd & AUTOGRAD_THREAD, 0)


_LONGEST_GAP_NS = 200_000_000
"""Between launches and samples that are further apart, the calls of a thread are not known."""
_COLUMNS = {
    "process": pl.Int32,
    "thread": pl.Int32,
    "begin": pl.Int64,
    "end": pl.Int64,
    "launch": pl.Int32,
    "step": pl.Int32,
    "layer": pl.Int32,
    "function": pl.Int32,
    "op": pl.Int32,
    "autograd": pl.Int32,
    "sequence": pl.Int64,
}


def _changed(values: NDArray[np.integer]) -> Mask:
    changed = np.ones(len(values), dtype=np.bool_)
    changed[1:] = values[1:] != values[:-1]
    return changed


def _launches(stacks: Stacks, meaning: Meaning, launches: pl.DataFrame) -> pl.DataFrame:
    process, stack = (launches[name].to_numpy().astype(np.int64) for name in ("process", "stack"))
    function = stacks.visible_of(process, stack)
    # The function in which the stack ends is the launch itself.
    row_of = np.full(len(stacks.trie.frame), -1)
    row_of[function] = np.arange(len(function))
    ends = np.flatnonzero(row_of >= 0)
    calls = np.zeros(len(row_of), dtype=np.bool_)
    calls[ends] = [bool(name) for name in stacks.calls(process[row_of[ends]], stack[row_of[ends]])]
    own = calls[function]
    parent = shown_parents(stacks)
    function = np.where(own, np.maximum(parent[function], 0), function)
    rows = launches.select(
        "process",
        "thread",
        begin=pl.col("begin_ns").clip(upper_bound=LATEST).cast(pl.Int64),
        end=pl.max_horizontal("begin_ns", "end_ns").clip(upper_bound=LATEST).cast(pl.Int64),
        launch=pl.int_range(pl.len()),
        step=meaning.launches["step"],
        layer=meaning.launches["layer"],
        function=pl.Series(function),
        op=meaning.launches["op"],
        autograd="autograd",
        sequence="sequence",
    )
    rows = rows.cast(_COLUMNS).sort("process", "thread", "begin", "end", maintain_order=True)  # type: ignore[arg-type]
    # A thread makes one call after the other; where records say otherwise, a call begins when those before it have ended.
    before = pl.col("end").cum_max().shift(1).over("process", "thread").fill_null(0)
    begin = pl.max_horizontal("begin", before)
    return rows.with_columns(begin=begin, end=pl.max_horizontal("end", begin))


def _samples(profile: Analysis, stacks: Stacks, launches: pl.DataFrame) -> pl.DataFrame:
    """The time of samples that lies in no launch, in pieces."""
    clock = clock_of(profile)
    if clock is None:
        return launches.clear()
    meaning = of_samples(profile, clock).samples
    profile.used(of_samples.part(clock))
    columns = profile.scan("cpu_samples").filter(pl.col("clock") == clock).select("autograd", "sequence").collect()
    process, stack = (meaning[name].to_numpy().astype(np.int64) for name in ("process", "stack"))
    end = pl.col("time_ns").clip(upper_bound=LATEST).cast(pl.Int64)
    rows = (
        meaning.hstack(columns)
        .with_columns(end=end, function=pl.Series(stacks.visible_of(process, stack)))
        .sort("process", "thread", "end", maintain_order=True)
    )
    before = pl.col("end").shift(1).over("process", "thread").fill_null(0)
    begin = pl.max_horizontal(before, pl.col("end") - pl.col(VALUE)).clip(lower_bound=0)
    rows = rows.with_columns(begin=begin, launch=pl.lit(-1)).select(list(_COLUMNS)).cast(_COLUMNS)  # type: ignore[arg-type]
    return _without(rows, launches)


def _without(rows: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The parts of intervals that lie in none of `launches`, both by thread and begin."""
    parts = []
    of_thread = launches.partition_by("process", "thread", as_dict=True)
    for key, own in rows.partition_by("process", "thread", as_dict=True, maintain_order=True).items():
        busy = of_thread.get(key)
        if busy is None:
            parts.append(own)
            continue
        begin, end = own["begin"].to_numpy(), own["end"].to_numpy()
        from_, to = busy["begin"].to_numpy(), busy["end"].to_numpy()
        low, high = np.searchsorted(to, begin, side="right"), np.searchsorted(from_, end, side="left")
        many = np.maximum(high - low, 0) + 1
        row = np.repeat(np.arange(len(own)), many)
        at = low[row] + np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
        first = np.concatenate([[0], to])[at]
        last = np.concatenate([from_, [LATEST]])[at]
        piece = own[row].with_columns(begin=pl.Series(np.maximum(begin[row], first)), end=pl.Series(np.minimum(end[row], last)))
        parts.append(piece.filter(pl.col("end") > pl.col("begin")))
    return pl.concat(parts) if parts else rows

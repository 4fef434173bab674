"""Calls of imported traces: ops of torch, calls of runtimes and of system libraries, each with its begin and end.

Traces give the calls of a thread as nested spans; a profile keeps the stretches of time that each call spent itself, with its stack. The
stretches of a call and of those that it made follow each other without a gap: from them the calls are put together again. Two calls of one
function that touch, without a nanosecond between them, become one; a call that took no time at all has no stretch. Sums of time are exact
all the same, and `call_counts` has the numbers of calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.events import LATEST
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_packing import KIND
from aiflame.profile.schema.kinds import CALL_COUNTS, OP_MODULE, PROFILER_MODULES
from aiflame.values import dataclass

SYSTEM_MODULE = "[system library]"
"""The module of the frames of calls that nsys traced in libraries of the system."""
CALLS = {
    "row": pl.Int64,  # the process
    "thread": pl.Int64,
    "node": pl.Int64,  # row of `stacks`
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    "self_ns": pl.Int64,  # outside of the marked calls that it made
    "name": pl.String,
    "took_ns": pl.Int64,
    "depth": pl.Int64,  # the number of marked calls at and around it
}
_WALL = 1


@dataclass(frozen=True, slots=True)
class MarkedStacks:
    """The stacks of a process, of which some end in a marked frame. The first node is the root, without a frame."""

    row: int
    """The process."""
    id: Ints
    """Of each node, its row of `stacks`."""
    parent: nodes.Parents
    """The place of each node's caller; -1 for the root."""
    name: list[str]
    """The name of each node's frame where it is marked; else ""."""
    nearest: nodes.Parents
    """The place of the marked node at or above each; -1: none."""

    @property
    def mark(self) -> Mask:
        mark: Mask = self.nearest == np.arange(len(self.nearest))
        return mark

    def place(self, stack: Ints) -> Ints:
        """The places of rows of `stacks`; the root for those that are missing."""
        at = np.minimum(np.searchsorted(self.id, stack), len(self.id) - 1)
        return np.where(self.id[at] == stack, at, 0)

    def above(self) -> Ints:
        """The place of the marked node above each; -1: none."""
        return np.where(self.parent >= 0, self.nearest[np.maximum(self.parent, 0)], -1).astype(np.int64)

    def depth(self) -> Ints:
        """The number of marked nodes at and above each."""
        count, above = self.mark.astype(np.int64), np.maximum(self.parent, 0)
        while above.any():  # each round doubles the length of jumps
            count = count + count[above]
            above = above[above]
        return count


def marked_stacks(profile: Analysis, frames: pl.DataFrame) -> Iterator[MarkedStacks]:
    """The stacks of each process that has such frames (process, id, name: rows of `named_frames`)."""
    for (process,), own in frames.partition_by("process", as_dict=True, maintain_order=True).items():
        stacks = profile.scan("stacks").filter(pl.col("process") == process).sort("id").select("id", "parent", "frame").collect()
        ids = np.concatenate([[0], stacks["id"].to_numpy().astype(np.int64)])
        parent = np.concatenate([[-1], np.searchsorted(ids, stacks["parent"].to_numpy().astype(np.int64))]).astype(np.int32)
        word = pl.col("frame")
        named = stacks.select(id=pl.when((word // (1 << KIND)) == int(FrameKind.NAMED)).then(word % (1 << 32)).otherwise(0).cast(pl.Int64))
        texts = named.join(own.select(pl.col("id").cast(pl.Int64), "name"), on="id", how="left", maintain_order="left")["name"]
        mark = np.append(False, texts.is_not_null().to_numpy())
        yield MarkedStacks(int(str(process)), ids, parent, ["", *texts.fill_null("").to_list()], nodes.nearest(parent, mark))


def calls_of(profile: Analysis, frames: pl.DataFrame) -> pl.DataFrame:
    """CALLS of these frames, by time."""
    parts = [pl.DataFrame(schema=CALLS)]
    for stacks in marked_stacks(profile, frames):
        pieces = _pieces(profile, stacks)
        deepest = int(pieces["depth"].to_numpy().max(initial=0))
        parts += [_at_depth(stacks, pieces, depth) for depth in range(deepest, 0, -1)]
    return pl.concat(parts).sort("begin_ns", "end_ns", descending=[False, True], maintain_order=True)


def _pieces(profile: Analysis, stacks: MarkedStacks) -> pl.DataFrame:
    """The stretches of time of threads, in their order: thread, begin, end, near (place of the innermost marked node), depth (of it)."""
    samples = profile.scan("cpu_samples").filter(pl.col("process") == stacks.row, pl.col("clock") == _WALL, pl.col("period_ns") > 0)
    until = pl.col("time_ns").clip(upper_bound=LATEST).cast(pl.Int64)
    rows = samples.select(pl.col("thread").cast(pl.Int64), "stack", begin=until - pl.col("period_ns").cast(pl.Int64), end=until).collect()
    place = stacks.place(rows["stack"].to_numpy().astype(np.int64))
    near = stacks.nearest[place].astype(np.int64)
    depth = np.where(near >= 0, stacks.depth()[near], 0)
    return rows.with_columns(near=pl.Series(near), depth=pl.Series(depth)).sort("thread", "begin", maintain_order=True)


def _at_depth(stacks: MarkedStacks, pieces: pl.DataFrame, depth: int) -> pl.DataFrame:
    """The calls that have this many marked calls at and around them."""
    thread, begin, end, near, own_depth = (pieces[name].to_numpy() for name in ("thread", "begin", "end", "near", "depth"))
    above, depths = stacks.above(), stacks.depth()
    node = near.copy()
    while (deeper := (node >= 0) & (depths[np.maximum(node, 0)] > depth)).any():
        node = np.where(deeper, above[np.maximum(node, 0)], node)
    node = np.where(own_depth >= depth, node, -1)
    new = (thread[1:] != thread[:-1]) | (node[1:] != node[:-1]) | (begin[1:] != end[:-1])
    first = np.flatnonzero(np.append(True, new))
    last = np.append(first[1:], len(node)) - 1
    own = np.add.reduceat(np.where(own_depth == depth, end - begin, 0), first)
    kept = node[first] >= 0
    first, last, own = first[kept], last[kept], own[kept]
    at = node[first]
    names = np.array(stacks.name, dtype=object)
    rows = {
        "row": np.full(len(first), stacks.row),
        "thread": thread[first],
        "node": stacks.id[at],
        "begin_ns": begin[first],
        "end_ns": end[last],
        "self_ns": own,
        "name": names[at].tolist(),
        "took_ns": end[last] - begin[first],
        "depth": np.full(len(first), depth),
    }
    return pl.DataFrame(rows, schema=CALLS)


def within_its_like(calls: pl.DataFrame) -> pl.DataFrame:
    """Those of CALLS that a call of the same name made, and no other: torch takes the two for one."""
    key = ["row", "thread", "depth"]
    every = calls.with_row_index("call").sort("begin_ns", maintain_order=True)
    outer = every.select(*key, "begin_ns", around="call", around_name="name")
    inner = every.filter(pl.col("depth") > 1).with_columns(pl.col("depth") - 1)
    placed = inner.join_asof(outer, on="begin_ns", by=key, strategy="backward", check_sortedness=False)
    alone = pl.len().over("around") == 1
    return placed.filter(alone & (pl.col("name") == pl.col("around_name"))).select(list(CALLS))


def call_counts(profile: Analysis, frames: pl.DataFrame) -> pl.DataFrame:
    """name, calls: how often each of these frames was called, where the profile's importer counted that."""
    kinds = profile.table("value_kinds").filter(name=CALL_COUNTS).select("process", kind="id")
    counts = profile.table("stack_values").join(kinds, on=["process", "kind"], how="semi")
    parts = [pl.DataFrame(schema={"name": pl.String, "calls": pl.Int64})]
    for stacks in marked_stacks(profile, frames):
        own = counts.filter(pl.col("process") == stacks.row)
        place = stacks.place(own["stack"].to_numpy().astype(np.int64))
        names = pl.Series([stacks.name[node] for node in place.tolist()], dtype=pl.String)
        parts.append(own.select(name=names, calls="value").filter(pl.col("name") != ""))
    return pl.concat(parts).group_by("name").agg(pl.col("calls").sum())


@once
def op_frames(profile: Analysis) -> pl.DataFrame:
    """process, id, name: frames that are ops of torch."""
    return profile.table("named_frames").filter(module=OP_MODULE).select("process", "id", "name")


@once
def op_and_runtime_frames(profile: Analysis) -> pl.DataFrame:
    """The same, calls of the runtimes of devices, and the profiler's own work: they have rows in torch's tables too."""
    called = profile.table("call_names").select("process", "name").unique()
    others = profile.table("named_frames").filter(pl.col("module") != OP_MODULE)
    runtime, own = others.join(called, on=["process", "name"], how="semi"), others.filter(pl.col("module").is_in(PROFILER_MODULES))
    return pl.concat([op_frames(profile), *(frames.select("process", "id", "name") for frames in (runtime, own))])


@once
def system_calls(profile: Analysis) -> pl.DataFrame:
    """CALLS of libraries of the system."""
    frames = profile.table("named_frames").filter(module=SYSTEM_MODULE).select("process", "id", "name")
    return calls_of(profile, frames)

"""The events to classify (launches, captured graph nodes, traced calls, CPU samples), as tables with the same columns."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.lookup import find
from aiflame.attribute.stacks.samples import VALUE, samples_of
from aiflame.profile.schema.frame_words import is_backward, is_forward, torch_thread
from aiflame.profile.tables.interface import Tables

ITEM = ("process", "thread", "stack", "time_ns", "autograd", "sequence", "gpu")
"""Columns of every table of items; beside them `id` (of the launch or sample) or `node`."""
LATEST = (1 << 62) - 1
"""A later moment comes from a damaged record."""


def launch_items(profile: Tables) -> pl.DataFrame:
    """A row for each launch, with its `id` and `api`."""
    return _items(profile.scan("launches"), "begin_ns", gpu=True, more=("id", "api"))


def call_items(profile: Tables, of: pl.DataFrame) -> pl.DataFrame:
    """A row for each of these traced calls (`process`, `id`), with its `id`."""
    calls = profile.scan("calls")
    kinds = calls.collect_schema()
    wanted = of.lazy().select(pl.col(name).cast(kinds[name]) for name in ("process", "id"))
    return _items(calls.join(wanted, on=["process", "id"], how="semi"), "begin_ns", gpu=False, more=("id",))


def forward_calls(profile: Tables) -> pl.DataFrame:
    """`process`, `thread` and `autograd` of all traced calls in forward code, which show for which thread others work."""
    return profile.scan("calls").select("process", "thread", "autograd").filter(is_forward()).collect()


def node_items(profile: Tables) -> pl.DataFrame:
    """A row for each node of a graph that was made at a stack, with its `node`; each node once (see `devices/graphs.py`)."""
    nodes = profile.scan("graph_nodes").filter(pl.col("node") != 0)
    cloned = nodes.filter(pl.col("original") != 0).select("process", "node")
    created = nodes.filter((pl.col("original") == 0) & (pl.col("stack") != 0)).join(cloned, on=["process", "node"], how="anti")
    return _items(created, "time_ns", gpu=True, more=("node",)).sort("process", "node", "stack").unique(["process", "node"], keep="first")


def sample_items(profile: Tables, clock: int | None = None) -> pl.DataFrame:
    """A row for each CPU sample, of one clock or of both; with a clock also its `value` (`stacks.samples`)."""
    if clock is None:
        return _items(profile.scan("cpu_samples"), "time_ns", gpu=False, more=("id", "state"))
    return _items(samples_of(profile, clock), "time_ns", gpu=False, more=("id", "state", VALUE))


def ints(items: pl.DataFrame, *names: str) -> tuple[NDArray[np.int64], ...]:
    return tuple(items[name].cast(pl.Int64).to_numpy() for name in names)


def mother_threads(items: pl.DataFrame, forward: pl.DataFrame | None = None) -> NDArray[np.int64]:
    """The thread for which each item works. Backward work belongs to the thread whose forward code made the node, if torch's number of that
    thread is known from forward work (`forward`, default: the items); all other work belongs to its own thread."""
    torch_threads, mother = _owners(items if forward is None else forward)
    process, thread, autograd = ints(items, "process", "thread", "autograd")
    threads: NDArray[np.int64] = thread.copy()
    backward = np.flatnonzero(is_backward(autograd))
    if len(torch_threads) and len(backward):
        wanted = torch_thread(process[backward], autograd[backward])
        at, there = find(torch_threads, wanted)
        threads[backward] = np.where(there, mother[at], threads[backward])
    return threads


def _owners(items: pl.DataFrame) -> tuple[NDArray[np.int64], ...]:
    """Torch's thread numbers (`frame_words.torch_thread`), ascending, and for each the thread that did most of its forward work."""
    process, thread, autograd = ints(items, "process", "thread", "autograd")
    number = torch_thread(process, autograd)
    # Launches of a thread follow each other: runs of equal rows are counted at once.
    changes = (number[1:] != number[:-1]) | (thread[1:] != thread[:-1]) | (autograd[1:] != autograd[:-1])
    first = np.flatnonzero(np.append(True, changes)[: len(items)])
    runs = pl.DataFrame(
        {"number": number[first], "thread": thread[first], "autograd": autograd[first], "many": np.diff(first, append=len(items))}
    )
    owners = (
        runs.filter(is_forward())
        .group_by("number", "thread")
        .agg(pl.col("many").sum())
        .sort("number", "many", "thread", descending=[False, True, False])
        .unique("number", keep="first", maintain_order=True)
    )
    return ints(owners, "number", "thread")


def _items(rows: pl.LazyFrame, time: str, gpu: bool, more: tuple[str, ...]) -> pl.DataFrame:
    """Events with their common columns."""
    columns = [pl.col(name).cast(pl.Int64) for name in ("process", "thread", "stack", "time_ns", "autograd", "sequence")]
    rows = rows.rename({time: "time_ns"}).with_columns(pl.col("time_ns").clip(upper_bound=LATEST))
    # In one piece, so that its columns can be used as arrays without copying.
    return rows.select(*columns, pl.lit(gpu).alias("gpu"), *more).collect().rechunk()

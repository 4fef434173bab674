"""From a profile's stacks to tree nodes: frame words become functions, and what was measured hangs under process, thread and stack.

A profile's stacks are a trie of frame words (return addresses, byte-code offsets). Here it becomes a trie of functions once,
inlined ones included; a measurement then only touches the nodes that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute import nodes
from aiflame.attribute.owners import process_frames, thread_frames
from aiflame.attribute.tree import FRAME_COLUMNS, Frame, Metric, Tree, assemble, frame_table
from aiflame.profile.kinds import Kind
from aiflame.profile.schema import FrameKind

LOST_CALLERS = Frame("[unattributed: callers lost]", Kind.UNATTRIBUTED)
NO_NAME = Frame("[unknown]", Kind.C)


class Tables(Protocol):
    """What attribution needs of a profile."""

    def table(self, name: str) -> pl.DataFrame: ...

    def scan(self, name: str) -> pl.LazyFrame: ...


@dataclass(frozen=True, slots=True)
class Functions:
    """The stacks of all processes as one trie: node 0 is the root, node 1 + p process p, below them functions."""

    frames: pl.DataFrame
    parent: NDArray[np.int32]
    frame: NDArray[np.uint32]
    processes: int
    key: NDArray[np.int64]
    """process << 32 | stack id, sorted."""
    innermost: NDArray[np.int32]
    """For each key, the node of the stack's innermost function."""

    def of_stacks(self, process: NDArray[np.int64], stack: NDArray[np.int64]) -> NDArray[np.int64]:
        """The node of each stack; that of its process where the profile has no such stack."""
        key = process << 32 | stack
        at = _find(self.key, key)
        found = np.append(self.innermost, 0)[at]
        return np.where(at >= 0, found, 1 + process).astype(np.int64)


def functions(profile: Tables) -> Functions:
    """The trie of functions of a profile."""
    processes = frame_table(process_frames(profile.table("processes")))
    size = len(processes) - 1
    stacks = profile.table("stacks").select("process", "id", "parent", "frame").filter(pl.col("process") < size).sort("process", "id")
    names, of_words = _functions_of_words(profile, stacks.select("process", "frame").unique())
    frames = pl.concat([processes, frame_table([LOST_CALLERS])[1:], names])

    rows = stacks.with_row_index("stack").join(of_words, on=["process", "frame"]).sort("stack", "depth")
    stack = rows["stack"].to_numpy()
    node = np.arange(1 + 2 * size, 1 + 2 * size + len(rows))  # after the root, the processes and "callers lost" of each process
    last = np.append(stack[1:] != stack[:-1], True)[: len(rows)]
    end = node[last]
    outermost = np.roll(last, 1)

    process = stacks["process"].to_numpy().astype(np.int64)
    key, caller = callers(stacks)
    parent = node - 1
    begins = np.where(stacks["parent"].to_numpy() == 0, 1 + process, 1 + size + process)
    parent[outermost] = np.where(caller >= 0, end[caller], begins)

    each = np.arange(size)
    all_parent = np.concatenate([[-1], 0 * each, 1 + each, parent]).astype(np.int32)
    all_frame = np.concatenate([[0], 1 + each, 0 * each + 1 + size, 2 + size + rows["function"].to_numpy()]).astype(np.uint32)
    merged_parent, merged_frame, place = nodes.merge_siblings(all_parent, all_frame)
    return Functions(frames, merged_parent, merged_frame, size, key, place[end])


def callers(stacks: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of stacks sorted by process and id: their keys (process << 32 | id), and the row of each one's caller, -1 for none."""
    process = stacks["process"].to_numpy().astype(np.int64)
    key = process << 32 | stacks["id"].to_numpy()
    caller = _find(key, process << 32 | stacks["parent"].to_numpy())
    return key, np.where(caller < np.arange(len(key)), caller, -1)  # a damaged profile may name a later stack: never follow it


def hang(profile: Tables, trie: Functions, measured: pl.DataFrame, endings: list[pl.DataFrame], metric: Metric, no_thread: Frame) -> Tree:
    """The Tree of `measured`: columns process, thread, stack, value, and for each of `endings` (tables of frames that follow the
    stack, outermost first) a column `ending0`, `ending1` … with its row, null for none. `no_thread` stands for thread 0."""
    process = measured["process"].to_numpy().astype(np.int64)
    leaf = trie.of_stacks(process, measured["stack"].to_numpy().astype(np.int64))
    threads, thread = np.unique(process << 32 | measured["thread"].to_numpy(), return_inverse=True)
    wanted = pl.DataFrame({"process": threads >> 32, "thread": threads & 0xFFFFFFFF})
    of_threads = thread_frames(profile.table("threads"), profile.table("thread_ends"), profile.table("processes"), wanted, no_thread)
    frames = pl.concat([trie.frames, frame_table(of_threads)[1:], *(table.select(list(FRAME_COLUMNS)) for table in endings)])

    # A pair is a function's node as one thread sees it, the process's node the thread itself. Pairs sort callers first, as the trie does.
    pairs = nodes.with_callers(trie.parent, nodes.distinct(leaf << 32 | thread))
    node, of_thread = pairs >> 32, pairs & 0xFFFFFFFF
    is_thread = node <= trie.processes
    first = 1 + trie.processes
    above = first + np.searchsorted(pairs, trie.parent[node].astype(np.int64) << 32 | of_thread)
    parent = [np.array([-1]), np.zeros(trie.processes), np.where(is_thread, node, above)]
    frame = [trie.frame[:first], np.where(is_thread, len(trie.frames) + of_thread, trie.frame[node])]

    place = first + np.searchsorted(pairs, leaf << 32 | thread)
    made, row = first + len(pairs), len(trie.frames) + len(of_threads)
    for number, table in enumerate(endings):
        ending = measured[f"ending{number}"]
        has = ending.is_not_null().to_numpy()
        parent.append(place[has])
        frame.append(row + ending.drop_nulls().to_numpy())
        place[has] = made + np.arange(has.sum())
        made, row = made + int(has.sum()), row + len(table)

    value = np.zeros(made, dtype=np.int64)
    np.add.at(value, place, measured["value"].to_numpy().astype(np.int64))
    return assemble(
        frames, np.concatenate(parent).astype(np.int32), np.concatenate(frame).astype(np.uint32), {metric.name: value}, (metric,)
    )


def _functions_of_words(profile: Tables, words: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Distinct functions as frames, and for each frame word its functions: process, frame, depth, function (row)."""
    kind_of_word = pl.col("frame") // (1 << 60)
    first_lines = profile.table("codes").select("process", code="id", first_line="first_line").unique(["process", "code"])
    named = (
        words.join(profile.table("symbols"), on=["process", "frame"], how="left")
        .with_columns(
            code=pl.when(kind_of_word == FrameKind.PYTHON).then((pl.col("frame") // (1 << 32)) % (1 << 28)).cast(pl.UInt32),
        )
        .join(first_lines, on=["process", "code"], how="left")
        .with_columns(
            pl.col("depth").fill_null(0),
            pl.col("name").fill_null(NO_NAME.name),
            pl.col("kind").fill_null(int(NO_NAME.kind)),
            pl.col("file", "module", "full_name").fill_null(""),
            pl.coalesce("first_line", "line").fill_null(0).cast(pl.UInt32).alias("line"),
            pl.col("approximate").fill_null(False),
        )
    )
    # Only Python says where a function begins; elsewhere `line` is a line in it, and the least one met stands for it.
    same = ["name", "kind", "module", "full_name", "approximate"]
    python = pl.col("first_line").is_not_null()
    named = named.with_columns(
        file=pl.when(python).then("file").otherwise(pl.col("file").min().over(same)),
        line=pl.when(python).then("line").otherwise(pl.col("line").min().over(same)),
    )
    distinct = named.select(list(FRAME_COLUMNS)).unique(maintain_order=True).with_row_index("function")
    of_words = named.join(distinct, on=list(FRAME_COLUMNS)).select("process", "frame", "depth", "function")
    return distinct.drop("function").select(pl.col(name).cast(type_) for name, type_ in FRAME_COLUMNS.items()), of_words


def _find(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of each wanted key (process << 32 | id) among sorted keys, -1 where it is not."""
    if not len(keys):
        return np.full(len(wanted), -1)
    # Ids count from 1 in each process, so that a key's place is known unless records were lost.
    process = wanted >> 32
    starts = np.searchsorted(keys, np.arange(int(process.max(initial=0)) + 1) << 32)
    at: NDArray[np.int64] = np.clip(starts[process] + (wanted & 0xFFFFFFFF) - 1, 0, len(keys) - 1)
    elsewhere = np.flatnonzero(keys[at] != wanted)
    at[elsewhere] = np.minimum(np.searchsorted(keys, wanted[elsewhere]), len(keys) - 1)
    at[keys[at] != wanted] = -1
    return at

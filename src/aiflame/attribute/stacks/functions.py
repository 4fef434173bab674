"""Turns a profile's stacks into tree nodes: frame words become functions, and measurements are added under process, thread and stack.

A profile's stacks are a trie of frame words (return addresses, byte-code offsets). It is turned into a trie of functions once, including
inlined functions; a measurement then takes only the nodes that it needs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Mask
from aiflame.attribute.forest import Forest, NodeIds, TreeBuilder
from aiflame.attribute.stacks.line_names import line_names
from aiflame.attribute.stacks.process_frames import (
    COMPILER_SUFFIX,
    GARBAGE_COLLECTOR,
    INTERPRETER_MODULE,
    nameless,
    process_frames,
    thread_frames,
    with_ranks,
)
from aiflame.attribute.stacks.table import StackKeys, stack_table
from aiflame.attribute.tree import FRAME_COLUMNS, Frame, Metric, Tree, frame_table
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import code_of_python, frame_kinds, is_frame_of
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

LOST_CALLERS = Frame("[unattributed: callers lost]", Kind.UNATTRIBUTED)
NO_NAME = Frame("[unknown]", Kind.C)
CODE = [int(Kind.PYTHON), int(Kind.C), int(Kind.CPP)]
"""Kinds of functions with source lines of the program."""
_COLLECTS_GARBAGE = rf"^gc_collect_(main|young|increment|full){COMPILER_SUFFIX}"
"""The interpreter's function that collects garbage: `main` up to CPython 3.13."""


@dataclass(frozen=True, slots=True)
class Functions:
    """The stacks of all processes as one trie: node 0 is the root, node 1 + p is process p, and functions are below."""

    frames: pl.DataFrame
    parent: NDArray[np.int32]
    frame: NDArray[np.uint32]
    processes: int
    stacks: StackKeys
    """Finds stacks among the rows of `stacks`."""
    innermost: NDArray[np.int32]
    """For each row of `stacks`, the node of the stack's innermost function."""
    nameless: Mask
    """The processes of which nothing is known: they have no frame."""
    numberless: Mask
    """The processes of which not even the number is known, all those among them: thread 0 has no frame there."""

    def of_stacks(self, process: NDArray[np.int64], stack: NDArray[np.int64]) -> NDArray[np.int64]:
        """The node of each stack; the node of its process if the profile has no such stack."""
        at = self.stacks.find(process, stack)
        node = np.append(self.innermost, 0)[at]
        return np.where(at >= 0, node, 1 + process).astype(np.int64)

    def on_threads(self, process: NDArray[np.int64], stack: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same as nodes of `forest`: 0 if the profile has no such stack."""
        node = self.of_stacks(process, stack)
        return np.where(node > self.processes, node, 0)

    def matching(self, frames: pl.Expr) -> Mask:
        """True for the nodes that have one of these frames."""
        mask: Mask = self.frames.select(frames.fill_null(False)).to_series().to_numpy()[self.frame]
        return mask

    def owners(self) -> Forest:
        """The processes: process p has the node 1 + p."""
        return Forest.of_frames(self.frames[: self.processes + 1][1:])

    def owner(self, process: NDArray[np.int64]) -> NDArray[np.int64]:
        """The node of each of these processes; 0 for one without a frame."""
        return np.where(self.nameless[process], 0, 1 + process)

    def known_threads(self, process: NDArray[np.int64], thread: NDArray[np.int64]) -> NDArray[np.int64]:
        """The threads for `add_threads`; -1 where neither the number of the process nor the thread is known."""
        return np.where(self.numberless[process] & (thread == 0), -1, thread)

    def forest(self) -> Forest:
        """The functions without their processes, by the same nodes; the nodes of processes mean none."""
        parent = np.where(self.parent > self.processes, self.parent, np.int32(0))
        parent[0] = -1
        return Forest(self.frames, parent, self.frame)


@once
def functions(profile: Analysis) -> Functions:
    """The trie of functions of a profile."""
    return _trie(profile, with_lines=False)


@once
def functions_and_lines(profile: Analysis) -> Functions:
    """The same, with lines of source below each function, at which it runs or calls: callees are below the line that calls them."""
    return _trie(profile, with_lines=True)


def _trie(profile: Analysis, *, with_lines: bool) -> Functions:
    owners = with_ranks(profile.table("processes"), profile.table("ranks"))
    processes = frame_table(process_frames(owners))
    size = len(processes) - 1
    stacks = stack_table(profile).of_processes_before(size)
    names, of_words = _functions_of_words(
        profile, stacks.rows.select("process", "frame").unique(maintain_order=True), with_lines=with_lines
    )
    frames = pl.concat([processes, frame_table([LOST_CALLERS])[1:], names])

    rows = stacks.rows.with_row_index("stack").join(of_words, on=["process", "frame"]).sort("stack", "depth")
    stack = rows["stack"].to_numpy()
    node = np.arange(1 + 2 * size, 1 + 2 * size + len(rows))  # after the root, the processes and the frame "callers lost" of each process
    last = np.append(stack[1:] != stack[:-1], True)[: len(rows)]
    end = node[last]
    outermost = np.roll(last, 1)

    process = stacks.keys.key >> 32
    parent = node - 1
    begins = np.where(stacks.rows["parent"].to_numpy() == 0, 1 + process, 1 + size + process)
    parent[outermost] = np.where(stacks.caller >= 0, end[stacks.caller], begins)

    each = np.arange(size)
    all_parent = np.concatenate([[-1], 0 * each, 1 + each, parent]).astype(np.int32)
    all_frame = np.concatenate([[0], 1 + each, 0 * each + 1 + size, 2 + size + rows["function"].to_numpy()]).astype(np.uint32)
    # A layer is not a function: functions below it count as callees of the function outside of it.
    is_function = np.append(np.ones(1 + 2 * size, dtype=np.bool_), frame_kinds(rows["frame"].to_numpy()) != FrameKind.LAYER)
    if not is_function.all():
        outside = nodes.nearest(all_parent, is_function)
        all_parent, end = np.where(all_parent >= 0, outside[all_parent], np.int32(-1)), outside[end]
    merged_parent, merged_frame, place = nodes.merge_siblings(all_parent, all_frame)
    return Functions(frames, merged_parent, merged_frame, size, stacks.keys, place[end], nameless(owners), (owners["pid"] == 0).to_numpy())


def hang(
    profile: Tables,
    trie: Functions,
    measured: pl.DataFrame,
    endings: list[pl.DataFrame],
    metric: Metric,
    no_thread: Frame,
    begun: Callable[[TreeBuilder, NodeIds], NodeIds],
    *,
    whole: bool,
) -> Tree:
    """The Tree of `measured`: columns process, thread, stack, value, and for each of `endings` (tables of frames that follow the stack,
    outermost first) a column `ending0`, `ending1` … with its row, null for none. `no_thread` is the frame of thread 0.

    `begun` may add frames under processes; then comes the `whole` stack on its thread, or its innermost function alone."""
    builder = TreeBuilder()
    process, thread, stack = (measured[column].to_numpy().astype(np.int64) for column in ("process", "thread", "stack"))
    place = builder.add(np.zeros(len(measured), dtype=np.int64), trie.owners(), trie.owner(process))
    place = begun(builder, place)
    node = trie.on_threads(process, stack)
    if whole:
        place = add_threads(builder, place, profile, process, trie.known_threads(process, thread), no_thread)
        place = builder.add(place, trie.forest(), node)
    else:
        place = builder.add(place, Forest.of_frames(trie.frames), np.where(node > 0, trie.frame[node].astype(np.int64) + 1, 0))
    for number, table in enumerate(endings):
        place = builder.add(place, Forest.of_frames(table), measured[f"ending{number}"].cast(pl.Int64).fill_null(-1).to_numpy() + 1)
    return builder.finish((metric,), {metric.name: (place, measured["value"].to_numpy())})


def add_threads(
    builder: TreeBuilder, place: NodeIds, profile: Tables, process: NDArray[np.int64], thread: NDArray[np.int64], no_thread: Frame
) -> NodeIds:
    """Adds a thread's frame to each of these nodes of processes; thread -1 adds none."""
    threads, which = np.unique(process << 32 | np.maximum(thread, 0), return_inverse=True)
    wanted = pl.DataFrame({"process": threads >> 32, "thread": threads & 0xFFFFFFFF})
    frames = thread_frames(profile, wanted, no_thread)
    return builder.add(place, Forest.of_frames(frame_table(frames)[1:]), np.where(thread >= 0, 1 + which, 0))


def _functions_of_words(profile: Tables, words: pl.DataFrame, *, with_lines: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Distinct functions as frames, and for each frame word its functions: process, frame, depth, function (row). `with_lines`: lines of
    code are included, each after its function."""
    first_lines = profile.table("codes").select("process", code="id", first_line="first_line").unique(["process", "code"])
    named = (
        words.join(profile.table("symbols"), on=["process", "frame"], how="left")
        .with_columns(
            code=pl.when(is_frame_of(FrameKind.PYTHON)).then(code_of_python()),
        )
        .join(first_lines, on=["process", "code"], how="left")
        .with_columns(
            pl.col("depth").fill_null(0),
            pl.when(_collects_garbage()).then(pl.lit(GARBAGE_COLLECTOR)).otherwise(pl.col("name").fill_null(NO_NAME.name)).alias("name"),
            pl.col("kind").fill_null(int(NO_NAME.kind)),
            pl.col("file", "module", "full_name").fill_null(""),
            pl.coalesce("first_line", "line").fill_null(0).cast(pl.UInt32).alias("line"),
            pl.col("approximate").fill_null(False),
            runs=pl.col("line").fill_null(0),
        )
    )
    lines = _lines(named) if with_lines else named.head(0)
    # Only for Python `line` is where a function begins. For other code it is a line in the function, and the smallest one is used.
    same = ["name", "kind", "module", "full_name", "approximate"]
    python = pl.col("first_line").is_not_null()
    named = named.with_columns(
        file=pl.when(python).then("file").otherwise(pl.col("file").min().over(same)),
        line=pl.when(python).then("line").otherwise(pl.col("line").min().over(same)),
    )
    named = pl.concat([named.with_columns(depth=2 * pl.col("depth").cast(pl.UInt32)), lines], how="diagonal_relaxed")
    distinct = named.select(list(FRAME_COLUMNS)).unique(maintain_order=True).with_row_index("function")
    of_words = named.join(distinct, on=list(FRAME_COLUMNS)).select("process", "frame", "depth", "function")
    return distinct.drop("function").select(pl.col(name).cast(type_) for name, type_ in FRAME_COLUMNS.items()), of_words


def _lines(named: pl.DataFrame) -> pl.DataFrame:
    """The line at which each function runs. Lines of the interpreter's own source are left out: readers need the line of Python that it
    runs, which is further outside."""
    is_shown = (
        (pl.col("runs") > 0) & (pl.col("file") != "") & pl.col("kind").is_in(CODE) & ~pl.col("module").str.contains(INTERPRETER_MODULE)
    )
    return named.filter(is_shown).select(
        "process",
        "frame",
        "module",
        "approximate",
        "file",
        depth=2 * pl.col("depth").cast(pl.UInt32) + 1,
        kind=pl.lit(int(Kind.CPU_LINE), dtype=pl.UInt8),
        line=pl.col("runs"),
        **line_names("runs"),
    )


def _collects_garbage() -> pl.Expr:
    return pl.col("name").str.contains(_COLLECTS_GARBAGE) & pl.col("module").str.contains(INTERPRETER_MODULE)

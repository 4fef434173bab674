"""Names the states of samples that were not simply running code: waiting, spinning, or without a stack."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.stacks.functions import Functions
from aiflame.attribute.tree import Frame, frame_table
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.waits import OPENMP, wait_label

NO_STACK = Frame("[unattributed: no stack]", Kind.UNATTRIBUTED)
WAITING = Frame("[waiting]", Kind.WAIT)
SPINNING = Frame(OPENMP, Kind.WAIT)
DEEPEST = 24
"""The number of innermost functions that are searched for the reason of a wait."""


def state_frames(trie: Functions, measured: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Frames of states, and `measured` (process, stack, state) with `ending0`, the row of each sample's state, null for running code."""
    process, stack = (measured[column].to_numpy().astype(np.int64) for column in ("process", "stack"))
    leaves, which = np.unique(trie.of_stacks(process, stack), return_inverse=True)
    rows = {frame: row for row, frame in enumerate((NO_STACK, WAITING, SPINNING))}
    of_leaf = np.array(
        [-1 if label is None else rows.setdefault(Frame(label, Kind.WAIT), len(rows)) for label in _labels(trie, leaves)], dtype=np.int64
    )
    label = of_leaf[which]
    waiting = (measured["state"] == SampleState.WAITING).to_numpy()
    marked = trie.frames["kind"].to_numpy()[trie.frame[leaves]][which] == Kind.WAIT  # the stack already ends with a mark that says so
    row = np.where(waiting, np.where(label >= 0, label, rows[WAITING]), np.where(label == rows[SPINNING], label, -1))
    row = np.where(stack == 0, rows[NO_STACK], np.where(marked, -1, row))
    ending = pl.Series("ending0", row).to_frame().select(pl.when(pl.col("ending0") >= 0).then("ending0").cast(pl.UInt32))
    return frame_table(rows)[1:], measured.hstack(ending)


def _labels(trie: Functions, leaves: NDArray[np.int64]) -> list[str | None]:
    """A label for the wait of the native functions at each of these nodes, None if they do not look like waiting."""
    names = trie.frames["name"].to_list()
    native = trie.frames["kind"].is_in([int(Kind.C), int(Kind.CPP), int(Kind.OS_KERNEL)]).to_numpy()
    innermost = trie.frame[leaves]
    possible = np.zeros(len(names), dtype=np.bool_)
    for frame in np.unique(innermost).tolist():
        possible[frame] = native[frame] and (wait_label((names[frame],)) is not None or _says_nothing(names[frame]))
    labels: list[str | None] = [None] * len(leaves)
    for place in np.flatnonzero(possible[innermost]).tolist():
        functions: list[str] = []
        node = int(leaves[place])
        while node > trie.processes and native[trie.frame[node]] and len(functions) < DEEPEST:
            functions.append(names[trie.frame[node]])
            node = int(trie.parent[node])
        labels[place] = wait_label(functions)
    return labels


def _says_nothing(name: str) -> bool:
    """True if the function's name does not show the reason of a wait; then its callers' names do."""
    return name.startswith("[") or "syscall" in name or name in ("sched_yield", "cpu_relax")

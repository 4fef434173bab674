"""Threads that native code starts for a program, such as autograd's: their work belongs to the Python code that made it start them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.stacks.functions import Functions
from aiflame.attribute.tree import Frame
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables

STARTED = Frame("[thread started here]", Kind.BOUNDARY)
BOOTSTRAP = ("Thread._bootstrap", "_bootstrap")
"""The outermost function of a thread that Python started (its names on CPython 3.11 and later, and before)."""


def starts(
    profile: Tables, trie: Functions, process: NDArray[np.int64], thread: NDArray[np.int64], node: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each stack (`node` of the trie, on its thread), the node of the stack that started the thread, if that stack has Python functions
    and the thread was not started by Python; otherwise 0."""
    kinds = trie.frames["kind"].to_numpy()[trie.frame]
    is_python = (kinds == int(Kind.PYTHON)) & (np.arange(len(trie.parent)) > trie.processes)
    has_python = nodes.nearest(trie.parent, is_python) >= 0
    bootstraps = trie.frames["name"].is_in(BOOTSTRAP).to_numpy()[trie.frame] & is_python
    is_pythons_own = nodes.nearest(trie.parent, bootstraps) >= 0
    wanted = pl.DataFrame({"process": process, "id": thread})
    creators = profile.table("threads").select(pl.col("process", "id", "creator").cast(pl.Int64)).unique(["process", "id"], keep="first")
    creator = wanted.join(creators, on=["process", "id"], how="left", maintain_order="left")["creator"].fill_null(0).to_numpy()
    start = np.where(creator > 0, trie.on_threads(process, creator), 0)
    return np.where((node > 0) & ~is_pythons_own[node] & has_python[start], start, 0)

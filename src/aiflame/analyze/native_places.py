"""Finds the place of stacks in the program's own code, including native code: the innermost function that does not belong to a language's
runtime."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.places import place_of, places
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.stacks.functions import Functions
from aiflame.attribute.stacks.table import StackKeys
from aiflame.attribute.stacks.word_trie import word_trie
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import is_frame_of
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.python.packages import package
from aiflame.values import dataclass

_RUNTIME = (
    r"^(lib(c|m|pthread|rt|dl|stdc\+\+|gcc_s|c\+\+|c\+\+abi|unwind|gomp|omp|iomp5|aiflame\w*)|ld(-linux[^.]*|-musl[^.]*)?)[.-]|^\[|vdso"
)
"""Files of the C library, of compilers' runtimes, and of the kernel."""
_SCHEMA = {"file": pl.String, "line": pl.Int64, "function": pl.String, "module": pl.String}


_NATIVE = pl.col("kind").is_in([int(Kind.C), int(Kind.CPP)])
_PRIMITIVES = {
    "a semaphore": pl.col("name").str.contains(r"^(_*new_)?_*sem_(timed|clock)?wait"),
    "a barrier": pl.col("name").str.contains(r"^_*pthread_barrier_wait"),
    "a read-write lock": pl.col("name").str.contains(r"^_*pthread_rwlock_|^std::(__)?shared_(timed_)?mutex"),
}
HELD = "a read-write lock"
"""The only one of these primitives that a thread holds."""


def own_places(profile: Analysis, process: Ints, thread: Ints, stack: Ints) -> pl.DataFrame:
    """file, line, caller, module: the line of the program's own Python; in programs without Python, its own native function."""
    python, native = places(profile).rows, native_places(profile)
    row, other = place_of(profile, process, thread, stack), native.of_stacks(process, stack)
    both = pl.concat([python.select("file", "line", "function", module=pl.lit("")), native.rows])
    return both[np.where(row > 0, row, len(python) + other)].rename({"function": "caller"})


def primitives(trie: Functions, leaf: Ints) -> pl.Series:
    """The synchronization primitive for which C and C++ code waits; "" for a mutex, and in Python, whose locks are built from others."""
    names = pl.Series(["", *_PRIMITIVES])
    row = np.zeros(len(leaf), dtype=np.int64)
    for number, frames in enumerate(_PRIMITIVES.values(), 1):
        row = np.where(nodes.nearest(trie.parent, trie.matching(_NATIVE & frames))[leaf] >= 0, number, row)
    python = nodes.nearest(trie.parent, trie.matching(pl.col("kind") == int(Kind.PYTHON)))[leaf] >= 0
    return names.gather(np.where(python, 0, row))


@dataclass(frozen=True, slots=True)
class NativePlaces:
    rows: pl.DataFrame
    """file ("" without debug information), line, function, module. Row 0 is nowhere."""
    _stacks: StackKeys
    _place: Ints

    def of_stacks(self, process: Ints, stack: Ints) -> Ints:
        """The row of each stack's place, 0 if it has none."""
        return self._stacks.at(self._place, process, stack)


@once
def native_places(profile: Analysis) -> NativePlaces:
    """Functions with a source file of the program's own are preferred: others may belong to libraries that it uses."""
    words = word_trie(profile)
    none = pl.DataFrame([("", 0, "", "")], schema=_SCHEMA, orient="row")
    without_python = profile.table("processes").filter(pl.col("python") == 0)["process"].to_list()
    if not profile.has("symbols") or not without_python or not len(words.distinct):
        return NativePlaces(none, words.stacks.keys, np.zeros(len(words.stacks.keys.key), dtype=np.int64))
    native = profile.table("symbols").filter(
        is_frame_of(FrameKind.NATIVE), ~pl.col("module").str.contains(_RUNTIME), pl.col("name") != "", ~pl.col("name").str.starts_with("[")
    )
    sourced = native.filter(pl.col("file") != "", package() == "")
    place = np.zeros(0, dtype=np.int64)
    rows = none
    for candidates in (native.with_columns(file=pl.lit(""), line=pl.lit(0)), sourced):
        # The innermost of several inlined functions.
        frames = candidates.sort("process", "frame", "depth", descending=[False, False, True]).unique(["process", "frame"], keep="first")
        frames = frames.select("process", "frame", "file", pl.col("line").cast(pl.Int64), "module", function="name")
        here = words.distinct.join(frames, on=["process", "frame"], how="left", maintain_order="left")
        here = here.with_columns(mine=pl.col("process").cast(pl.Int64).is_in(without_python) & pl.col("function").is_not_null())
        added = here.filter("mine").select(list(_SCHEMA)).unique(maintain_order=True)
        number = added.with_row_index("row", offset=len(rows))
        row = here.join(number, on=list(_SCHEMA), how="left", maintain_order="left")
        of_word = pl.select(pl.when(row["mine"]).then(row["row"].cast(pl.Int64)).otherwise(0).fill_null(0)).to_series().to_numpy()
        rows = pl.concat([rows, added])
        nearest = words.nearest(words.of_nodes(of_word))[1:]
        place = np.where(nearest > 0, nearest, place) if len(place) else nearest
    return NativePlaces(rows, words.stacks.keys, place)

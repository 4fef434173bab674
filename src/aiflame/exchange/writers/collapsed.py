"""Collapsed stacks, the text format of flamegraph.pl: `outer;inner;innermost 42`, one line a stack.

Marks show the kinds, as `flamegraph.pl --colors=gpu` knows them: `py::` before Python frames, `_[k]` after OS kernel frames, `_[G]`
after GPU kernels and their source lines, `_[g]` after instructions, stall reasons and offsets, `-` between CPU and GPU.
"""

from __future__ import annotations

from typing import TextIO

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.tree import Tree, assemble
from aiflame.profile.schema.kinds import MARKS, PYTHON_MARK, Kind

_WRITE_LINES = 10_000
MOVES_THE_CURSOR = "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]"
"""As `errors.MOVES_THE_CURSOR`, including line ends: the stacks may be printed."""


def write(tree: Tree, metric: str, file: TextIO) -> None:
    """One line for each distinct stack with a value; callers come first, siblings in the order of their names."""
    named = _by_written_name(tree)
    names = named.frames["name"].to_list()
    rank = named.frames["name"].rank("ordinal").to_numpy().astype(np.int64)[named.frame]
    place, _ = nodes.preorder(named.parent, rank)
    walk = np.argsort(place)
    stack = [""] * (int(named.depths().max()) + 1)
    lines: list[str] = []
    for depth, frame, value in zip(
        named.depths()[walk].tolist(), named.frame[walk].tolist(), named.values[metric][walk].tolist(), strict=True
    ):
        stack[depth] = names[frame]
        if value:
            lines.append(f"{';'.join(stack[1 : depth + 1]) if depth else names[0]} {value}\n")
            if len(lines) == _WRITE_LINES:
                file.writelines(lines)
                lines.clear()
    file.writelines(lines)


def _by_written_name(tree: Tree) -> Tree:
    """The tree in which frames that are written alike are merged."""
    name = pl.col("name").str.replace_all(r"[;]", ":").str.replace_all(MOVES_THE_CURSOR, " ")
    mark = pl.col("kind").replace_strict({int(kind): mark for kind, mark in MARKS.items()}, default="", return_dtype=pl.String)
    before = pl.when(pl.col("kind") == int(Kind.PYTHON)).then(pl.lit(PYTHON_MARK)).otherwise(pl.lit(""))
    empty = pl.lit("")
    frames = tree.frames.with_columns(
        name=before + pl.when(name == "").then(pl.lit("[unknown]")).otherwise(name) + mark,
        kind=pl.when(pl.col("kind") == 0).then("kind").otherwise(pl.lit(int(Kind.C), dtype=pl.UInt8)),
        file=empty,
        line=pl.lit(0, dtype=pl.UInt32),
        module=empty,
        full_name=empty,
        approximate=pl.lit(False),
    )
    return assemble(frames, tree.parent, tree.frame, tree.values, tree.metrics)

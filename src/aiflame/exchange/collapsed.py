"""Collapsed stacks, the text format of flamegraph.pl: `outer;inner;innermost 42`, one line a stack.

Marks show the kinds, as `flamegraph.pl --colors=gpu` knows them: `py::` before Python frames, `_[k]` after OS kernel frames, `_[G]`
after GPU kernels and their source lines, `_[g]` after instructions, stall reasons and offsets, `-` between CPU and GPU.
"""

from __future__ import annotations

import re
from array import array
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.tree import ROOT, Frame, Metric, Tree, assemble, frame_table
from aiflame.errors import AiflameError
from aiflame.profile.schema.kinds import Kind

PYTHON_MARK = "py::"
MARKS = {
    Kind.OS_KERNEL: "_[k]",
    Kind.GPU_KERNEL: "_[G]",
    Kind.GPU_LINE: "_[G]",
    Kind.GPU_SCOPE: "_[G]",
    Kind.GPU_COPY: "_[G]",
    Kind.GPU_INSTRUCTION: "_[g]",
    Kind.GPU_STALL: "_[g]",
    Kind.GPU_OFFSET: "_[g]",
    Kind.CPU_INSTRUCTION: "_[g]",
}
SAMPLES = Metric("samples", "samples", "samples")
_OURS = ("[unattributed", "[… ")
_COPIES = ("[copy", "[fill]", "[map]")
_GRAPH_REPLAY = "[graph replay]"
_GPU_IDLE = ("[GPU idle]", "[GPU idle energy]", "[nothing of this program]")
_WAITS = ("[GIL]", "[lock]", "[I/O]", "[sleep]", "[waiting]")
_SOURCE_LINE = re.compile(r"\.\w+:\d+$")
_CPU_INSTRUCTION = re.compile(r" @ \+0x[0-9a-f]+$")
_OFFSET = re.compile(r"^\+0x[0-9a-f]+$")
_STALL = re.compile(r"^[a-z][a-z0-9_]+$")
_WRITE_LINES = 10_000
_MOVES_THE_CURSOR = "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]"
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


def read(path: str | Path) -> Tree:
    """The tree from a file of collapsed stacks: marks give the kinds, and the metric is samples."""
    try:
        with Path(path).open("rb") as file:
            return _parsed(file, path)
    except OSError as error:
        raise AiflameError(f"cannot read {path}: {error.strerror or error}") from None


def _by_written_name(tree: Tree) -> Tree:
    """The tree in which frames that are written alike are merged."""
    name = pl.col("name").str.replace_all(r"[;]", ":").str.replace_all(_MOVES_THE_CURSOR, " ")
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


def _parsed(file: BinaryIO, path: str | Path) -> Tree:
    """Builds nodes by comparing each stack with the previous one; equal siblings that are far apart are merged at the end."""
    rows: dict[bytes, int] = {ROOT.name.encode(): 0}
    parent, frame = array("i", [-1]), array("I", [0])
    ends, counts = array("i"), array("q")
    before: list[bytes] = []
    at = [0]
    for number, line in enumerate(file, 1):
        stack, _, count = line.rstrip().rpartition(b" ")
        if not stack:
            if not line.strip():
                continue
            raise AiflameError(f"{path}, line {number}: not a collapsed stack (`outer;inner 42`)")
        names = stack.split(b";")
        same = 0
        for one, other in zip(before, names, strict=False):
            if one != other:
                break
            same += 1
        del at[same + 1 :]
        node = at[same]
        for name in names[same:]:
            parent.append(node)
            frame.append(rows.setdefault(name, len(rows)))
            node = len(parent) - 1
            at.append(node)
        before = names
        ends.append(node)
        try:
            counts.append(int(count))
        except (ValueError, OverflowError):
            counts.append(_rounded(count, path, number))
    frames = frame_table(map(_frame, islice(rows, 1, None)))
    values = nodes.gather(np.array(ends, dtype=np.int32), np.array(counts, dtype=np.int64), len(parent))
    return assemble(frames, np.array(parent, dtype=np.int32), np.array(frame, dtype=np.uint32), {SAMPLES.name: values}, (SAMPLES,))


def _rounded(count: bytes, path: str | Path, number: int) -> int:
    try:
        value = float(count)
        if abs(value) < 2**63:
            return round(value)
    except ValueError:
        pass
    raise AiflameError(f"{path}, line {number}: ends with {count.decode(errors='replace')!r}, not with a count (`outer;inner 42`)")


def _frame(written: bytes) -> Frame:
    """The frame, with its kind from its marks."""
    name = written.decode("utf-8", "replace")
    if name in ("-", _GRAPH_REPLAY):
        return Frame(name, Kind.BOUNDARY)
    if name in _GPU_IDLE:
        return Frame(name, Kind.GPU_IDLE)
    if name.startswith(PYTHON_MARK):
        return Frame(name[len(PYTHON_MARK) :], Kind.PYTHON)
    if name.startswith("[") and name[-4:] not in MARKS.values():
        wait = name in _WAITS or name.endswith(" wait]")
        return Frame(name, Kind.WAIT if wait else Kind.UNATTRIBUTED if name.startswith(_OURS) else Kind.C)
    bare, mark = name[:-4], name[-4:]
    if mark == "_[k]":
        return Frame(bare, Kind.OS_KERNEL)
    if mark == "_[G]":
        copy = bare.startswith(_COPIES)
        return Frame(bare, Kind.GPU_COPY if copy else Kind.GPU_LINE if _SOURCE_LINE.search(bare) else Kind.GPU_KERNEL)
    if mark == "_[g]":
        cpu = _CPU_INSTRUCTION.search(bare)
        gpu = Kind.GPU_OFFSET if _OFFSET.search(bare) else Kind.GPU_STALL if _STALL.search(bare) else Kind.GPU_INSTRUCTION
        return Frame(bare, Kind.CPU_INSTRUCTION if cpu else gpu)
    if _SOURCE_LINE.search(name):
        return Frame(name, Kind.CPU_LINE)
    return Frame(name, Kind.CPP if "::" in name or "<" in name else Kind.C)

"""Stacks of code with the values of several metrics, and labels of each value (process, thread, step, layer …), for pprof
and OpenTelemetry.

It is made of a tree whose processes have frames of meaning below them (`LABELS`): they become labels, and only code stays in the stacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.prefixes import Prefix
from aiflame.attribute.tree import OF_LIMITS, Metric, Tree, assemble
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

MEANING = Prefix(("step", "phase", "layer", "op"), code=True)
"""The frames of meaning that become labels."""
LABELS: Mapping[str, Kind] = {
    "process": Kind.PROCESS,
    "thread": Kind.THREAD,
    "step": Kind.STEP,
    "phase": Kind.PHASE,
    "layer": Kind.LAYER,
    "op": Kind.OP,
}
"""Label → the kind of the frames that it is made of. `rank` comes beside them."""
NUMBERS = ("rank", "step")
"""Labels that are numbers; the others are texts."""
_NO_MEANING = [f"[no {name}]" for name in MEANING.columns]
_LINES = (Kind.CPU_LINE, Kind.GPU_LINE)
_STEP = "Step."


@dataclass(frozen=True, slots=True)
class Labelled:
    metrics: tuple[Metric, ...]
    places: pl.DataFrame
    """Distinct places in code: name, full_name, file, begin (line where the function begins), line (0: not known), module, kind."""
    parent: NDArray[np.int32]
    """Stacks as a trie; node 0 has no place."""
    place: NDArray[np.uint32]
    """Of each node, the row of `places`."""
    samples: pl.DataFrame
    """`stack` (a node), a column for each label (null: it has none), and one for each metric."""

    @property
    def labels(self) -> list[str]:
        return [name for name in (*LABELS, "rank") if name in self.samples.columns]

    def stack(self, node: int) -> list[int]:
        """The places of a stack, the innermost first."""
        rows = []
        while node > 0:
            rows.append(int(self.place[node]))
            node = int(self.parent[node])
        return rows


def together(trees: Sequence[Tree]) -> Tree:
    """Trees of one profile as one with all their metrics. Of a metric that several have, the first counts."""
    first, *others = trees
    if not others:
        return first
    parents, rows, frames = [first.parent], [first.frame.astype(np.int64)], [first.frames]
    begins, count, frame_count = [0], len(first), len(first.frames)
    for tree in others:
        shift = count - 1
        parents.append(np.where(tree.parent[1:] > 0, tree.parent[1:] + shift, 0).astype(np.int32))
        rows.append(tree.frame[1:].astype(np.int64) + frame_count)
        frames.append(tree.frames)
        begins.append(shift)
        count, frame_count = count + len(tree) - 1, frame_count + len(tree.frames)
    metrics: dict[str, Metric] = {}
    values: dict[str, NDArray[np.int64]] = {}
    for tree, begin in zip(trees, begins, strict=True):
        for metric in tree.metrics:
            if metric.name in metrics:
                continue
            metrics[metric.name] = metric
            values[metric.name] = np.zeros(count, dtype=np.int64)
            values[metric.name][begin + 1 : begin + len(tree)] = tree.values[metric.name][1:]
            values[metric.name][0] = tree.values[metric.name][0]
    return assemble(pl.concat(frames), np.concatenate(parents), np.concatenate(rows).astype(np.uint32), values, tuple(metrics.values()))


def without_limits(tree: Tree) -> Tree:
    """Times at a device's limits are estimates for `top`, no metrics of their own."""
    kept = tuple(metric for metric in tree.metrics if metric not in OF_LIMITS)
    return tree.with_values({metric.name: tree.values[metric.name] for metric in kept}, kept)


def labelled(tree: Tree, ranks: Mapping[str, int] | None = None) -> Labelled:
    """`ranks`: of each process that has one, by the name of its frame."""
    kinds = tree.kinds()
    frames = tree.frames
    value = np.zeros(len(tree), dtype=np.bool_)
    for metric in tree.metrics:
        value |= tree.values[metric.name] != 0
    is_code = _is_code(tree, kinds)
    is_line = is_code & np.isin(kinds, _LINES)
    function = nodes.nearest(tree.parent, is_code & ~is_line)
    is_line &= function >= 0
    # The stack outside of a line is that outside of its function: a place is a function with a line.
    outside = nodes.nearest(tree.parent, is_code, strict=True)
    above = np.where(is_line, outside[np.maximum(function, 0)], outside)
    inner = nodes.nearest(tree.parent, is_code)
    # A value that lies in no code has the frame that it lies in as its stack.
    code = np.concatenate([np.flatnonzero(is_code), np.flatnonzero(value & (inner < 0))])
    places, place_of = _places(frames, tree.frame, function, code, is_line)
    number = np.zeros(len(tree), dtype=np.int64)
    number[code] = 1 + np.arange(len(code))
    parent = np.where(above[code] >= 0, number[np.maximum(above[code], 0)], 0)
    merged, place, node_of = nodes.merge_siblings(
        np.concatenate([[-1], parent]).astype(np.int32), np.concatenate([[0], 1 + place_of]).astype(np.uint32)
    )
    at = np.flatnonzero(value)
    columns: dict[str, pl.Series] = {"stack": pl.Series(node_of[number[np.where(inner[at] >= 0, inner[at], at)]].astype(np.int64))}
    columns |= _labels(tree, kinds, at, ranks or {})
    sums = {metric.name: pl.Series(tree.values[metric.name][at]) for metric in tree.metrics}
    rows = pl.DataFrame(columns | sums)
    grouped = rows.group_by(list(columns), maintain_order=True).agg(pl.col(name).sum() for name in sums)
    return Labelled(tree.metrics, places, merged, np.where(place > 0, place.astype(np.int64) - 1, 0).astype(np.uint32), grouped)


def _is_code(tree: Tree, kinds: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """The nodes whose frames are places in code; the others are labels, or only part two frames."""
    names = tree.frames["name"]
    no_meaning = (names.is_in(_NO_MEANING) & (tree.frames["kind"] == int(Kind.UNATTRIBUTED))).to_numpy()
    between = ((names == "-") & (tree.frames["kind"] == int(Kind.BOUNDARY))).to_numpy()
    left_out = (no_meaning | between)[tree.frame] | np.isin(kinds, [int(Kind.ROOT), *map(int, LABELS.values())])
    is_code: NDArray[np.bool_] = ~left_out
    return is_code


def _places(
    frames: pl.DataFrame, frame: NDArray[np.uint32], function: NDArray[np.integer], at: Ints, is_line: NDArray[np.bool_]
) -> tuple[pl.DataFrame, Ints]:
    """The distinct places, and the place of each of the nodes `at`."""
    own = frame[at].astype(np.int64)
    of = np.where(is_line[at], frame[np.maximum(function[at], 0)], own)
    key = of << 32 | np.where(is_line[at], own + 1, 0)
    distinct, which = np.unique(key, return_inverse=True)
    functions, lines = frames[distinct >> 32], frames[np.maximum((distinct & 0xFFFFFFFF) - 1, 0)]
    has_line = pl.Series((distinct & 0xFFFFFFFF) > 0)
    columns = functions.select("name", "full_name", "module", "file", "kind", begin="line").with_columns(
        has_line=has_line, line_file=lines["file"], at_line=lines["line"]
    )
    there = pl.col("has_line")
    places = columns.select(
        pl.when(pl.col("name") == "").then(pl.lit("[unknown]")).otherwise("name").alias("name"),
        "full_name",
        pl.when(there & (pl.col("line_file") != "")).then("line_file").otherwise("file").alias("file"),
        "begin",
        pl.when(there).then("at_line").otherwise(0).alias("line"),
        "module",
        "kind",
    )
    return places, which.astype(np.int64)


def _labels(tree: Tree, kinds: NDArray[np.uint8], at: Ints, ranks: Mapping[str, int]) -> dict[str, pl.Series]:
    names = tree.frames["name"]
    columns: dict[str, pl.Series] = {}
    for label, kind in LABELS.items():
        of_kind = kinds == kind
        if not of_kind.any():
            continue
        nearest = nodes.nearest(tree.parent, of_kind)[at]
        there = nearest >= 0
        if label == "layer":
            texts = pl.Series(_paths(tree, of_kind), dtype=pl.String)
            nodes_of_layers = np.flatnonzero(of_kind)
            text = texts.gather(np.where(there, np.searchsorted(nodes_of_layers, np.maximum(nearest, 0)), 0))
        else:
            text = names.gather(tree.frame[np.maximum(nearest, 0)])
        column = pl.select(pl.when(pl.Series(there)).then(text).otherwise(None)).to_series()
        if label == "step":
            column = column.str.strip_prefix(_STEP).cast(pl.Int64, strict=False)
        if column.null_count() < len(column):
            columns[label] = column.alias(label)
    if ranks and "process" in columns:
        rank = columns["process"].replace_strict(ranks, default=None, return_dtype=pl.Int64)
        if rank.null_count() < len(rank):
            columns["rank"] = rank.alias("rank")
    return columns


def _paths(tree: Tree, of_layers: NDArray[np.bool_]) -> list[str]:
    """The whole path of the layer of each node that is one: `layers.3.attn`."""
    names = tree.frames["name"].to_list()
    outer = nodes.nearest(tree.parent, of_layers, strict=True)
    paths: dict[int, str] = {}
    for node in np.flatnonzero(of_layers).tolist():
        above, name = int(outer[node]), names[tree.frame[node]]
        paths[node] = f"{paths[above]}.{name}" if above >= 0 else name
    return list(paths.values())

"""Divides the time of compiled kernels over the layers and ops from which they were fused, in groupings by meaning. The division is an
estimate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest
from aiflame.attribute.meaning.fused_kernels import ESTIMATED, Division, KernelOrigins
from aiflame.attribute.tree import Frame, Metric, frame_table
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class Compiled:
    """The ops of compiled code in `context`: an item that ran such code has one op for its whole set. These ops follow all others."""

    origins: KernelOrigins
    first: int
    """The op's node for set 1."""
    models: frozenset[str]
    """Classes of models: frames that stand for a model as a whole."""

    def sets(self, op: Ints) -> Ints:
        return np.maximum(op - self.first + 1, 0)


@dataclass(frozen=True, slots=True)
class SplitOverOps:
    rows: pl.DataFrame
    """The divided rows, repeated for each part, with the part's layer and op."""
    division: Division
    """For each divided row: its source row, and its value."""
    forests: Mapping[str, Forest]
    """The forests, with the layers and ops that compiled code adds."""
    sets: Ints
    """For each row before the division, its set of ops."""
    compiled: Compiled | None

    def label(self, metric: Metric) -> Metric:
        """The metric's label, which says so if values of kernels were divided."""
        several = len(self.division.item) > len(self.sets)
        return replace(metric, label=metric.label + ESTIMATED) if several else metric

    def first(self) -> Ints:
        """For each row before the division, the first of its parts."""
        return np.searchsorted(self.division.item, np.arange(len(self.sets)))

    def divide(self, item: Ints, value: Ints) -> tuple[Ints, Ints, Ints]:
        """Divides other values of the original rows (`item`) in the same way: for each part, the place in `rows`, the place in `value`, and
        the part's value."""
        if self.compiled is None:
            return self.first()[item], np.arange(len(value)), value
        divided = self.compiled.origins.divide(self.sets[item], value)
        most = len(self.compiled.origins.parts) + 1
        key, wanted = self.division.item * most + self.division.part + 1, item[divided.item] * most + divided.part + 1
        at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
        # A part too small for any of the rows' values has no row.
        return np.where(key[at] == wanted, at, self.first()[item[divided.item]]), divided.item, divided.value


def compiled(profile: Tables, origins: KernelOrigins, ops: int) -> Compiled:
    """`ops`: the number of other ops."""
    roots = profile.table("layer_names").filter(pl.col("path") == "")["type"].unique().to_list()
    return Compiled(origins, ops + 1, frozenset(name.rpartition(".")[2] for name in roots))


def op_frames(origins: KernelOrigins) -> pl.DataFrame:
    """The ops of sets as frames: one frame names all ops from which a kernel was fused."""
    return frame_table([Frame(label, Kind.OP) for label in origins.labels[1:]])[1:]


def split_over_ops(rows: pl.DataFrame, value: Ints, compiled: Compiled | None, forests: Mapping[str, Forest]) -> SplitOverOps:
    """Divides rows with columns `op` and perhaps `layer` (nodes of the forests), and the value of each. Kernels that are not launched by
    the compiler's Python code, such as XLA's, are recognized by their name, if rows have one."""
    if compiled is None or "op" not in rows.columns or compiled.origins.parts.is_empty():
        whole = Division(np.arange(len(rows)), np.full(len(rows), -1), value)
        return SplitOverOps(rows, whole, forests, np.zeros(len(rows), dtype=np.int64), None)
    op = rows["op"].to_numpy().astype(np.int64)
    sets = compiled.sets(op)
    if "name" in rows.columns and "process" in rows.columns:
        process = rows["process"].to_numpy().astype(np.int64)
        sets = np.where((sets == 0) & (op == 0), compiled.origins.of_kernels(process, 0 * process, rows["name"]), sets)
    divided = compiled.origins.divide(sets, value)
    several = rows[divided.item]
    ops, op = _ops(forests["op"], several["op"].to_numpy().astype(np.int64), divided.part, compiled.origins.parts)
    several, forests = several.with_columns(op=pl.Series(op.astype(np.int32))), {**forests, "op": ops}
    if "layer" in rows.columns:
        layers, layer = _layers(forests["layer"], several["layer"].to_numpy().astype(np.int64), divided.part, compiled)
        several, forests = several.with_columns(layer=pl.Series(layer.astype(np.int32))), {**forests, "layer": layers}
    return SplitOverOps(several, divided, forests, sets, compiled)


def _ops(forest: Forest, op: Ints, part: Ints, parts: pl.DataFrame) -> tuple[Forest, Ints]:
    names = forest.frames["name"].to_list()
    rows = {name: row + 1 for row, name in enumerate(names)}
    used = np.unique(part[part >= 0])
    of_part = np.zeros(len(parts) + 1, dtype=np.int64)
    for row in used.tolist():
        name, backward = parts["op"][row], parts["backward"][row]
        text = f"{name.removesuffix('_backward')} (backward)" if backward else name
        if text not in rows:
            names.append(text)
            rows[text] = len(names)
        of_part[row] = rows[text]
    frames = [Frame(name, Kind.OP) for name in names[len(forest.frames) :]]
    return Forest.of_frames(pl.concat([forest.frames, frame_table(frames)[1:]])), np.where(part >= 0, of_part[part], op)


def _layers(forest: Forest, layer: Ints, part: Ints, compiled: Compiled) -> tuple[Forest, Ints]:
    """Adds the part's path to the layer whose call was compiled."""
    parts = compiled.origins.parts
    parent = (forest.parent[1:].astype(np.int64) - 1).tolist()  # node 0 is unused
    frames = [Frame(*row) for row in forest.frames[forest.frame[1:]].rows()]
    child = {(above, frame.name): node for node, (above, frame) in enumerate(zip(parent, frames, strict=True))}
    grown = {above for above in parent if above >= 0}
    types = dict(parts.filter(pl.col("type") != "").select("layer", "type").reverse().rows())
    pairs, which = np.unique(np.stack([layer, part]), axis=1, return_inverse=True)
    ends = []
    for base, row in pairs.T.tolist():
        path = parts["layer"][row] if row >= 0 else ""
        at = base - 1
        if path and at >= 0 and _is_model(frames[at], compiled) and at not in grown:
            at = parent[at]
        full = ""
        for name in _names(path):
            full = f"{full}.{name}" if full else name
            if (at, name) not in child:
                child[at, name] = len(frames)
                kind = parts["type"][row] if full == path else types.get(full, "")
                parent.append(at)
                frames.append(Frame(name, Kind.LAYER, full_name=f"{full} ({kind})" if kind else full if full != name else ""))
            at = child[at, name]
        ends.append(at)
    if not frames:
        return forest, layer
    new, node = Forest.of_chains(np.array(parent, dtype=np.int64), frame_table(frames)[1:])
    end = np.array(ends, dtype=np.int64)
    return new, np.where(end >= 0, np.append(node, 0)[end], 0)[which.reshape(-1)]


def _is_model(frame: Frame, compiled: Compiled) -> bool:
    return frame.name.partition(" (")[0] in compiled.models


def _names(path: str) -> list[str]:
    """`layers.3.attn` → `layers.3`, `attn`: a number stays with the name before it."""
    names: list[str] = []
    for part in path.split(".") if path else []:
        if part.isdecimal() and names:
            names[-1] += f".{part}"
        else:
            names.append(part)
    return names

"""Executions on devices, in pieces: kernels, then copies, each with its launch and its meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.chunks import count, pieces, take_or
from aiflame.attribute.arrays.lookup import find_rows
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.graphs import captured_stacks
from aiflame.attribute.devices.launches import LaunchTable
from aiflame.attribute.meaning.context import BRINGS, CONTEXT, Meaning
from aiflame.attribute.meaning.families import COLLECTIVE, families
from aiflame.attribute.meaning.phases import Phase
from aiflame.attribute.meaning.specializations import Specializations
from aiflame.profile.schema.enums import CopyKind
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

COPY_NAMES = {
    CopyKind.HOST_TO_DEVICE: "[copy host→device]",
    CopyKind.DEVICE_TO_HOST: "[copy device→host]",
    CopyKind.DEVICE_TO_DEVICE: "[copy device→device]",
    CopyKind.FILL: "[fill]",
    CopyKind.MAP: "[map]",
    CopyKind.PEER: "[copy device→other device]",
}
LONGEST_NS = 1 << 50
"""13 days: a longer kernel comes from a damaged record."""
NO_THREAD_ROW = -1
"""`thread` of an execution without a known launch."""

_RAN = ["process", "api", "correlation", "node", "item", "start_ns", "end_ns", "bytes"]
_OF_CAPTURE = ("phase", "layer", "op")
_NOTHING = {"step": -1, "phase": int(Phase.OTHER), BRINGS: False}
"""Context of an execution without a known launch; the other columns of CONTEXT are 0."""
Columns = dict[str, NDArray[Any]]
"""By name, an array with a value for each execution."""


@dataclass(frozen=True, slots=True)
class Items:
    """Numbers for the distinct kernels, and for the kinds of copies on each device."""

    rows: pl.DataFrame
    """item, name, device, kind"""
    shapes: pl.DataFrame
    """process, shape, item: sorted"""
    copies: pl.DataFrame
    """copy, device, item"""

    @staticmethod
    def of(profile: Tables) -> Items:
        shapes = profile.table("kernel_shapes").select("process", "name", "device", shape="id").unique(["process", "shape"], keep="first")
        copies = profile.scan("copies").select("kind", "device").unique().collect()
        names = pl.col("kind").replace_strict(
            {int(kind): name for kind, name in COPY_NAMES.items()}, default="[copy]", return_dtype=pl.String
        )
        copies = copies.select("device", name=names, copy="kind")
        kernel, copy = pl.lit(int(Kind.GPU_KERNEL), dtype=pl.UInt8), pl.lit(int(Kind.GPU_COPY), dtype=pl.UInt8)
        unknown = pl.DataFrame({"name": "[unknown kernel]", "device": ""}).select("name", "device", kind=kernel)
        distinct = pl.concat([shapes.select("name", "device", kind=kernel), copies.select("name", "device", kind=copy)]).unique()
        items = pl.concat([unknown, distinct]).with_row_index("item")
        of_shapes = shapes.join(items.filter(kind=int(Kind.GPU_KERNEL)), on=["name", "device"]).select("process", "shape", "item")
        of_copies = copies.join(items.filter(kind=int(Kind.GPU_COPY)), on=["name", "device"]).select("copy", "device", "item")
        return Items(items, of_shapes.sort("process", "shape"), of_copies.unique(["copy", "device"]))

    def of_shape(self, process: NDArray[np.uint32], shape: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The item of each shape; 0, an unknown kernel, if there is none."""
        keys, wanted = (
            each.astype(np.int64) << 32 | number for each, number in ((self._ints("process"), self._ints("shape")), (process, shape))
        )
        return take_or(self.shapes["item"].to_numpy(), find_rows(keys, wanted), 0)

    def _ints(self, name: str) -> Ints:
        return self.shapes[name].to_numpy().astype(np.int64)


@dataclass(frozen=True, slots=True)
class Records:
    """Kernels and copies, and everything that is joined with them."""

    profile: Tables
    items: Items
    specializations: Specializations
    meaning: Meaning | None
    """None if the caller needs no column of CONTEXT."""
    _launches: LaunchTable
    _captured: pl.DataFrame
    _context: Columns
    """CONTEXT and BRINGS of launches, in the order of their table."""
    _brought: NDArray[np.bool_]
    """For each item, whether it is a copy to a device."""
    _collective: NDArray[np.bool_]

    @staticmethod
    def of(profile: Tables, meaning: Meaning | None) -> Records:
        items = Items.of(profile)
        launches = LaunchTable.of(profile)
        names = items.rows["name"]
        collective = [name for name, family in families(profile, names).items() if family == COLLECTIVE]
        return Records(
            profile,
            items,
            Specializations.of(profile, items.rows),
            meaning,
            launches,
            captured_stacks(profile),
            _in_order(meaning.launches, launches) if meaning is not None else {},
            (names == COPY_NAMES[CopyKind.HOST_TO_DEVICE]).to_numpy(),
            names.is_in(collective).to_numpy(),
        )

    def __len__(self) -> int:
        return sum(count(self.profile.scan(name)) for name in ("kernels", "copies"))

    def pieces(self) -> Iterator[Columns]:
        """All kernels, then all copies, with the columns of _RAN; a damaged end counts as no duration."""
        longest = pl.col("start_ns") + LONGEST_NS
        end = pl.max_horizontal("start_ns", pl.min_horizontal("end_ns", longest))
        common = [pl.col("process"), pl.col("api").cast(pl.UInt32), *map(pl.col, ("correlation", "node", "start_ns")), end.alias("end_ns")]
        for piece in pieces(self.profile.scan("kernels").select(*common, "shape")):
            item = self.items.of_shape(piece["process"].to_numpy(), piece["shape"].to_numpy())
            yield _columns(piece.with_columns(item=pl.Series(item), bytes=pl.lit(0, dtype=pl.UInt64)))
        for piece in pieces(self.profile.scan("copies").select(*common, "kind", "device", "bytes")):
            numbered = piece.join(
                self.items.copies, left_on=["kind", "device"], right_on=["copy", "device"], how="left", maintain_order="left"
            )
            yield _columns(numbered.with_columns(pl.col("item").fill_null(0)))

    def columns_of(self, executions: Columns) -> Columns:
        """For each execution: process, thread, stack, graph (it ran for a graph's node), captured (see `captured_stacks`), item,
        specialization, launch (its number), and CONTEXT if meaning was asked for. A graph's kernels have the step and region of their
        replay; their phase, layer and op are those of their capture."""
        launches = self._launches
        launch = launches.find(executions["process"], executions["api"], executions["correlation"])
        graph = executions["node"] != 0
        graph_nodes = self._graph_nodes(executions, graph)
        captured = np.zeros(len(graph), dtype=np.uint32)
        variant = take_or(launches.variant, launch, 0) if len(launches.variant) else captured.copy()
        at = graph_nodes["row"].to_numpy()
        captured[at], variant[at] = (graph_nodes[name].fill_null(0).to_numpy() for name in ("captured", "variant"))
        columns = {
            "process": executions["process"],
            "thread": _or(launches.thread, launch, NO_THREAD_ROW),
            "stack": take_or(launches.stack, launch, 0),
            "graph": graph,
            "captured": captured,
            "item": executions["item"],
            "specialization": self.specializations.numbers(executions["process"], variant, executions["item"]),
            "launch": take_or(launches.id, launch, 0),
        }
        return columns | self._meant(executions["item"], launch, graph_nodes) if self.meaning is not None else columns

    def _graph_nodes(self, executions: Columns, graph: NDArray[np.bool_]) -> pl.DataFrame:
        """For executions of graph nodes: row, and the columns of `captured_stacks`."""
        row = np.flatnonzero(graph)
        of_graphs = pl.DataFrame({"row": row, "process": executions["process"][row], "node": executions["node"][row]})
        return of_graphs.join(self._captured, on=["process", "node"], how="left", maintain_order="left")

    def _meant(self, item: NDArray[np.uint32], launch: Ints, graph_nodes: pl.DataFrame) -> Columns:
        assert self.meaning is not None
        columns = {name: _or(column, launch, _NOTHING.get(name, 0)) for name, column in self._context.items()}
        brings = columns.pop(BRINGS).astype(np.bool_)
        nodes = self.meaning.nodes.select("process", *_OF_CAPTURE, made="node")
        captured = (
            graph_nodes.select("process", "row", "made").join(nodes, on=["process", "made"]) if len(graph_nodes) else graph_nodes.clear()
        )
        for name in _OF_CAPTURE if len(captured) else ():
            columns[name][captured["row"].to_numpy()] = captured[name].to_numpy()
        columns["phase"][self._brought[item] & brings] = int(Phase.DATA)
        columns["phase"][self._collective[item]] = int(Phase.COMMUNICATION)
        return columns


def _columns(piece: pl.DataFrame) -> Columns:
    return {name: piece[name].to_numpy() for name in _RAN}


def _or(column: NDArray[Any], row: Ints, nothing: int) -> NDArray[Any]:
    """The value at each row as a signed number; `nothing` for row -1."""
    signed = np.int64 if column.dtype.itemsize > 2 and column.dtype.kind == "u" else np.int32
    if not len(column):
        return np.full(len(row), nothing, dtype=signed)
    return np.where(row < 0, signed(nothing), column[row].astype(signed))


def _in_order(context: pl.DataFrame, launches: LaunchTable) -> Columns:
    """The context of launches in the order of `launches`, in which it usually is already."""
    key = ["process", "id"]
    there = len(context) == len(launches.id) and all(np.array_equal(context[name].to_numpy(), getattr(launches, name)) for name in key)
    if not there:
        rows = pl.DataFrame({name: getattr(launches, name) for name in key}).cast({name: context.schema[name] for name in key})
        context = rows.join(context, on=key, how="left", maintain_order="left")
    return {name: context[name].to_numpy() for name in (*CONTEXT, BRINGS)}

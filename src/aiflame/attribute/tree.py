"""The calling-context tree, from which views, tables and exports are made.

It consists of columns, not objects: node `i` has `parent[i] < i`, a row of `frames`, and for each metric its own ("self") value. Node 0 is
the root. Values are integers, so totals are exact under every transform.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.profile.schema.kinds import Kind as Kind
from aiflame.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    unit: str
    """ns, samples, bytes or µJ."""
    label: str


CPU_TIME = Metric("cpu-time", "ns", "CPU time")
WALL_TIME = Metric("wall-time", "ns", "wall-clock time")
GPU_TIME = Metric("gpu-time", "ns", "GPU time")
GPU_STALLS = Metric("gpu-stalls", "samples", "GPU samples, divided over launches by their time")
GPU_LATENCY = Metric("gpu-latency", "samples", "GPU samples in whose cycle nothing was issued, divided over launches by their time")
BYTES = Metric("bytes", "bytes", "bytes copied")
ENERGY = Metric("energy", "µJ", "energy")
COULD_WIN = Metric("could-win", "ns", "GPU time that could be won")
DRAM_BYTES = Metric("dram-bytes", "bytes", "bytes read from and written to the GPU's memory")
L2_BYTES = Metric("l2-bytes", "bytes", "bytes through the GPU's L2 cache")
PCIE_BYTES = Metric("pcie-bytes", "bytes", "bytes over PCIe")
NVLINK_BYTES = Metric("nvlink-bytes", "bytes", "bytes over NVLink")
TENSOR = Metric("tensor", "ns", "time at the full rate of tensor cores")
SM_ACTIVITY = Metric("sm-activity", "ns", "time with work on multiprocessors, averaged over them")
LAUNCHES = Metric("launches", "launches", "launches")
"""Used beside GPU time, bytes and energy: how often each kernel or copy ran."""
OF_LIMITS = tuple(
    Metric(f"limits-{name}", "ns", label)
    for name, label in (
        ("counted", "GPU time of kernels with hardware counters"),
        ("limit", "their time at the device's limit"),
        ("by_memory", "the part of it that the memory limits"),
        ("error", "the standard error of it"),
        ("active", "their time in which multiprocessors had work"),
        ("warps", "their time, times the share of the warps that fit"),
        ("waited", "time in which the device waited for their launch"),
    )
)
"""Used beside GPU time if hardware counters were recorded."""

FRAME_COLUMNS: Mapping[str, type[pl.DataType]] = {
    "name": pl.String,  # short name, for people
    "kind": pl.UInt8,  # Kind
    "file": pl.String,  # source file, "" if unknown
    "line": pl.UInt32,  # line, 0 if unknown
    "module": pl.String,  # library or executable, "" for Python
    "full_name": pl.String,  # original name, "" if equal to name
    "approximate": pl.Boolean,  # reached by scanning the stack
}


class Frame(NamedTuple):
    """A row of `Tree.frames`."""

    name: str
    kind: Kind
    file: str = ""
    line: int = 0
    module: str = ""
    full_name: str = ""
    approximate: bool = False


ROOT = Frame("all", Kind.ROOT)


def frame_table(frames: Iterable[Frame]) -> pl.DataFrame:
    """Frames as a table, with the root's first."""
    columns = list(zip(ROOT, *frames, strict=True))
    return pl.DataFrame(dict(zip(FRAME_COLUMNS, columns, strict=True)), schema=FRAME_COLUMNS)


@dataclass(frozen=True, slots=True)
class Tree:
    frames: pl.DataFrame
    """Distinct frames, FRAME_COLUMNS; row 0 is the root's."""
    parent: NDArray[np.int32]
    """Parent of each node: -1 for node 0, otherwise smaller than the node."""
    frame: NDArray[np.uint32]
    values: Mapping[str, NDArray[np.int64]]
    """Metric name → self value of each node."""
    metrics: tuple[Metric, ...]

    def __len__(self) -> int:
        return len(self.parent)

    def metric(self, name: str) -> Metric:
        return next(metric for metric in self.metrics if metric.name == name)

    def depths(self) -> NDArray[np.int32]:
        """The distance of each node from the root."""
        return nodes.depths(self.parent)

    def totals(self, metric: str) -> NDArray[np.int64]:
        """For each node its own value and all values below it."""
        return nodes.sum_up(self.parent, self.values[metric])

    def total(self, metric: str) -> int:
        return int(self.values[metric].sum())

    def kinds(self) -> NDArray[np.uint8]:
        """Kind of each node's frame."""
        return self.frames["kind"].to_numpy()[self.frame]

    def with_values(self, values: Mapping[str, NDArray[np.int64]], metrics: tuple[Metric, ...]) -> Tree:
        return replace(self, values=values, metrics=metrics)


def assemble(
    frames: pl.DataFrame,
    parent: NDArray[np.int32],
    frame: NDArray[np.uint32],
    values: Mapping[str, NDArray[np.int64]],
    metrics: tuple[Metric, ...],
) -> Tree:
    """A Tree from unordered nodes: equal frames become one row, unused ones are removed, and equal siblings become one node with the sum of
    their values.

    Every transform ends here. Nodes come out level by level, siblings beside each other; nodes and frames have an order that does not
    depend on the input's.
    """
    tree, place = merged(frames, parent, frame)
    return tree.with_values({name: nodes.gather(place, value, len(tree)) for name, value in values.items()}, metrics)


def merged(frames: pl.DataFrame, parent: NDArray[np.int32], frame: NDArray[np.uint32]) -> tuple[Tree, NDArray[np.int32]]:
    """The Tree of unordered nodes, without any metric, and the final node of each."""
    frames, row = _distinct_frames(frames, frame)
    parent, frame, place = nodes.merge_siblings(parent, row[frame])
    return Tree(frames, parent, frame, {}, ()), place


def from_stacks(stacks: Iterable[tuple[Sequence[Frame], int]], metric: Metric) -> Tree:
    """A Tree from stacks, each a sequence of frames from the outermost on with a value: for tests, and for formats that hold stacks."""
    rows: dict[Frame, int] = {ROOT: 0}
    children: dict[tuple[int, int], int] = {}
    parent, frame, value = [-1], [0], [0]
    for stack, weight in stacks:
        node = 0
        for item in stack:
            row = rows.setdefault(item, len(rows))
            below = children.setdefault((node, row), len(parent))
            if below == len(parent):
                parent.append(node)
                frame.append(row)
                value.append(0)
            node = below
        value[node] += weight
    return assemble(
        frame_table(list(rows)[1:]),
        np.array(parent, dtype=np.int32),
        np.array(frame, dtype=np.uint32),
        {metric.name: np.array(value, dtype=np.int64)},
        (metric,),
    )


def _distinct_frames(frames: pl.DataFrame, frame: NDArray[np.uint32]) -> tuple[pl.DataFrame, NDArray[np.uint32]]:
    """The frames in use, each once, sorted, with the root's first; and for each old row its new one."""
    used = np.bincount(frame, minlength=len(frames)) > 0
    used[0] = True
    old = np.flatnonzero(used)
    groups = (
        frames.select(list(FRAME_COLUMNS))
        .with_columns(pl.Series("old", np.arange(len(frames), dtype=np.uint32)))
        .filter(pl.Series(used))
        .sort(pl.col("old") > 0, *FRAME_COLUMNS)
        .group_by(list(FRAME_COLUMNS), maintain_order=True)
        .agg("old")
    )
    row = np.zeros(len(frames), dtype=np.uint32)
    if len(groups) == len(old):
        row[groups["old"].list.first().to_numpy()] = np.arange(len(old), dtype=np.uint32)
    else:
        lists = groups["old"]
        row[lists.explode().to_numpy()] = np.repeat(np.arange(len(groups), dtype=np.uint32), lists.list.len().to_numpy())
    return groups.drop("old"), row

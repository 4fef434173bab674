"""Computes in which regions each thread was at every moment, by one walk over the begins and ends of its regions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest
from aiflame.attribute.tree import FRAME_COLUMNS
from aiflame.profile.schema.enums import RegionKind
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

_WHOLE_PROCESS = -1
"""Used in place of a thread: threads without regions of their own are also in the frames of their process."""
ORDER = (RegionKind.FRAME, RegionKind.FREE, RegionKind.NESTED)
"""From outermost to innermost."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """From each moment until the next, the thread is at this node of the forest."""

    time_ns: Ints
    node: Ints

    def at(self, time_ns: Ints) -> Ints:
        path: Ints = self.node[np.maximum(np.searchsorted(self.time_ns, time_ns, side="right") - 1, 0)]
        return path


@dataclass(frozen=True, slots=True)
class Timelines:
    of_thread: dict[tuple[int, int], Timeline]
    """By process and thread."""

    def at(self, process: Ints, thread: Ints, time_ns: Ints) -> Ints:
        """The node at each moment, 0 if no region was open."""
        result = np.zeros(len(process), dtype=np.int64)
        if not self.of_thread or not len(process):
            return result
        order, bounds = _grouped(process, thread)
        for begin, end in pairwise(bounds):
            rows = order[begin:end]
            owner = int(process[rows[0]])
            line = self.of_thread.get((owner, int(thread[rows[0]]))) or self.of_thread.get((owner, _WHOLE_PROCESS))
            if line is not None:
                result[rows] = line.at(time_ns[rows])
        return result


def timelines(marked: pl.DataFrame) -> tuple[Forest, Timelines]:
    """The paths of all regions in `marked` (as Regions.intervals, in the same order), and for each thread its path at every moment."""
    frames, frame = _frames(marked)
    paths = _Paths()
    lines = {}
    rows = (
        marked.select("process", "thread", "kind", "begin_ns", "end_ns")
        .with_columns(pl.Series("frame", frame))
        .filter(pl.col("end_ns") > pl.col("begin_ns"))
    )
    of_process = rows.filter(pl.col("kind") == int(RegionKind.FRAME))
    if len(of_process):
        for (process,), those in of_process.group_by("process"):
            lines[int(str(process)), _WHOLE_PROCESS] = _walk(those, paths)
    of_threads = rows.filter(pl.col("kind") != int(RegionKind.FRAME))
    for (process, thread), those in of_threads.group_by("process", "thread"):
        owner = int(str(process))
        around = of_process.filter(pl.col("process") == owner) if len(of_process) else of_process
        lines[owner, int(str(thread))] = _walk(pl.concat([around, those]), paths)
    forest, place = Forest.of_chains(*paths.chains(frames))
    places = np.append(0, place)
    return forest, Timelines({key: Timeline(line.time_ns, places[line.node]) for key, line in lines.items()})


class _Paths:
    """Paths as nodes of a trie, numbered from 1; 0 is the empty one."""

    def __init__(self) -> None:
        self._children: dict[tuple[int, int], int] = {}

    def under(self, node: int, frame: int) -> int:
        return self._children.setdefault((node, frame), len(self._children) + 1)

    def chains(self, frames: pl.DataFrame) -> tuple[Ints, pl.DataFrame]:
        """For Forest.of_chains: the parent of each node, -1 for none, and its frame."""
        pairs = np.array(list(self._children), dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0] - 1, frames[pairs[:, 1]]


def _walk(regions: pl.DataFrame, paths: _Paths) -> Timeline:
    """Opens and closes one thread's regions in the order of time."""
    times: list[int] = []
    nodes: list[int] = []
    opened: list[tuple[int, int, int]] = []  # region, rank, node of the path so far
    frame = regions["frame"].to_list()
    rank = regions["kind"].replace_strict({int(kind): at for at, kind in enumerate(ORDER)}, return_dtype=pl.Int64).to_list()
    for time, region, begins in _events(regions):
        if begins:
            mine = rank[region]
            if not opened or opened[-1][1] <= mine:
                opened.append((region, mine, paths.under(opened[-1][2] if opened else 0, frame[region])))
            else:
                at = next(place for place, other in enumerate(opened) if other[1] > mine)
                _rebuild(opened, at, [(region, mine, 0), *opened[at:]], frame, paths)
        elif opened[-1][0] == region:
            opened.pop()
        else:
            at = next(place for place in range(len(opened) - 1, -1, -1) if opened[place][0] == region)
            _rebuild(opened, at, opened[at + 1 :], frame, paths)
        times.append(time)
        nodes.append(opened[-1][2] if opened else 0)
    return Timeline(np.array([np.iinfo(np.int64).min, *times], dtype=np.int64), np.array([0, *nodes], dtype=np.int64))


def _rebuild(opened: list[tuple[int, int, int]], at: int, now_open: list[tuple[int, int, int]], frame: list[int], paths: _Paths) -> None:
    """Makes the path of the open regions anew, from place `at` on."""
    del opened[at:]
    for region, rank, _ in now_open:
        opened.append((region, rank, paths.under(opened[-1][2] if opened else 0, frame[region])))


def _events(regions: pl.DataFrame) -> Iterator[tuple[int, int, bool]]:
    """Begins and ends (moment, row, whether it is a begin) in the order of time; ends come before begins of the same moment."""
    begin, end = regions["begin_ns"].to_numpy(), regions["end_ns"].to_numpy()
    rows = np.arange(len(regions))
    time = np.concatenate([end, begin])
    # Of regions that end at the same moment, the one that began last ends first.
    order = np.lexsort((np.concatenate([-rows, rows]), np.repeat([0, 1], len(rows)), time))
    which = np.concatenate([rows, rows])[order]
    return zip(time[order].tolist(), which.tolist(), (order >= len(rows)).tolist(), strict=True)


def _frames(marked: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """The distinct frames of regions, and the row of each region's."""
    named = marked.select(
        name=pl.when(pl.col("name") == "").then(pl.lit("[no name]")).otherwise("name"),
        module="domain",
        full_name=pl.when(pl.col("category") == "").then(pl.lit("")).otherwise(pl.format("{} [{}]", "name", "category")),
    )
    distinct = named.unique(maintain_order=True)
    row = named.join(distinct.with_row_index("row"), on=named.columns, how="left", maintain_order="left")["row"]
    empty = {"kind": int(Kind.REGION), "file": "", "line": 0, "approximate": False}
    frames = distinct.with_columns(pl.lit(value).alias(column) for column, value in empty.items())
    return frames.select(pl.col(name).cast(kind) for name, kind in FRAME_COLUMNS.items()), row.to_numpy().astype(np.int64)


def _grouped(process: Ints, thread: Ints) -> tuple[Ints, list[int]]:
    """An order in which the rows of each thread are adjacent, and the start of each thread's rows, with the end of all."""
    threads = int(thread.max()) + 1
    key = process.astype(np.int64) * threads + thread
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return order, [*starts.tolist(), len(order)]

"""Tree nodes of device work: the code that launched it, the kernel or copy, and the frames inside a kernel."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.inside import kernel_names, levels
from aiflame.attribute.forest import Forest, NodeIds, TreeBuilder
from aiflame.attribute.meaning.families import families
from aiflame.attribute.stacks.functions import Functions, add_threads
from aiflame.attribute.stacks.process_frames import NO_THREAD
from aiflame.attribute.stacks.thread_starts import STARTED, starts
from aiflame.attribute.tree import FRAME_COLUMNS, Frame, frame_table
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables

BOUNDARY = Frame("-", Kind.BOUNDARY)
GRAPH_REPLAY = Frame("[graph replay]", Kind.BOUNDARY)
NO_LAUNCH_FRAME = Frame("[unattributed: no launch]", Kind.UNATTRIBUTED)
NO_CAPTURE = Frame("[unattributed: graph node captured before recording]", Kind.UNATTRIBUTED)


def launched_at(builder: TreeBuilder, place: NodeIds, profile: Tables, trie: Functions, sites: pl.DataFrame) -> NodeIds:
    """The nodes of the launching code, below the given nodes of processes."""
    process, thread, stack, captured = (sites[name].to_numpy().astype(np.int64) for name in ("process", "thread", "stack", "captured"))
    launched, graph = thread >= 0, sites["graph"].to_numpy()
    marks = Forest.of_frames(frame_table([BOUNDARY, GRAPH_REPLAY, NO_CAPTURE, STARTED])[1:])
    boundary, replay, no_capture, started = range(1, 5)

    place = add_threads(builder, place, profile, process, thread, NO_THREAD)
    calling = np.where(launched, trie.on_threads(process, stack), 0)
    starting = starts(profile, trie, process, thread, calling)
    place = builder.add(place, trie.forest(), starting)
    place = builder.add(place, marks, np.where(starting > 0, started, 0))
    place = builder.add(place, trie.forest(), calling)
    capturing = np.where(graph, trie.on_threads(process, captured), 0)
    place = builder.add(place, marks, np.where(graph, replay, 0))
    place = builder.add(place, marks, np.where(graph & (capturing == 0), no_capture, 0))
    place = builder.add(place, trie.forest(), capturing)
    return builder.add(place, marks, np.where(launched | graph, boundary, 0))


def family_nodes(profile: Tables, names: pl.Series) -> tuple[Forest, Ints]:
    """Families of kernels as frames, and the node of each kernel's family; each kind of copy is a family."""
    of_name = families(profile, names)
    ordered = sorted({one for one in of_name.values() if one})
    node = {name: ordered.index(one) + 1 if one else 0 for name, one in of_name.items()}
    frames = frame_table([Frame(name, Kind.FAMILY) for name in ordered])[1:]
    return Forest.of_frames(frames), names.replace_strict(node, return_dtype=pl.Int64).to_numpy()


def item_nodes(profile: Tables, items: pl.DataFrame) -> tuple[Forest, Ints]:
    """Kernels and copies (name, device, kind) as frames, and the node of each. The frame's module is the device. Rows may have the names of
    a specialization (readable, detailed)."""
    text = pl.lit("")
    specialization = ["readable", "detailed"] if "readable" in items.columns else [pl.lit(None, dtype=pl.String)] * 2
    frames = items.join(kernel_names(profile), on="name", how="left", maintain_order="left").select(
        name=pl.coalesce(specialization[0], "short", "name"),
        kind=pl.col("kind").cast(pl.UInt8),
        file=text,
        line=pl.lit(0, dtype=pl.UInt32),
        module="device",
        full_name=pl.coalesce(specialization[1], "full", "name"),
        approximate=pl.lit(False),
    )
    frames = frames.with_columns(full_name=pl.when(pl.col("full_name") == pl.col("name")).then(text).otherwise("full_name"))
    distinct = frames.select(list(FRAME_COLUMNS)).unique(maintain_order=True)
    node = frames.join(distinct.with_row_index("node", offset=1), on=list(FRAME_COLUMNS), how="left", maintain_order="left")["node"]
    return Forest.of_frames(distinct), node.to_numpy().astype(np.int64)


def add_inside(
    builder: TreeBuilder, profile: Tables, points: pl.DataFrame, place: NodeIds, point: NDArray[np.integer], detail: str
) -> NodeIds:
    """Adds the frames inside a kernel at each `point` (row of `points`, as `Samples.points`)."""
    for level in levels(profile, points, detail):
        place = builder.add(place, level.forest, level.node[point])
    return place


def frames_on_process(builder: TreeBuilder, trie: Functions, rows: pl.DataFrame, kinds: dict[str, Kind]) -> NodeIds:
    """Frames (`name`, `device`) that are placed directly on their process (`process`)."""
    place = builder.add(np.zeros(len(rows), dtype=np.int64), trie.owners(), 1 + rows["process"].to_numpy().astype(np.int64))
    distinct = rows.select("name", "device").unique(maintain_order=True)
    frames = frame_table([Frame(name, kinds[name], module=device) for name, device in distinct.rows()])[1:]
    node = rows.join(distinct.with_row_index("node", offset=1), on=["name", "device"], how="left", maintain_order="left")["node"]
    return builder.add(place, Forest.of_frames(frames), node.to_numpy().astype(np.int64))

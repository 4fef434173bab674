"""Keeps only code that the program's author wrote: packages, libraries and the standard library are folded into the line that called
them."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.stacks.process_frames import GARBAGE_COLLECTOR, INTERPRETER_MODULE
from aiflame.attribute.tree import Frame, Tree, assemble, frame_table
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.python.packages import STANDARD_LIBRARY, library

_PYTHON = [int(Kind.PYTHON), int(Kind.CPU_LINE)]
_NATIVE = [int(kind) for kind in (Kind.C, Kind.CPP, Kind.CPU_LINE, Kind.CPU_INSTRUCTION)]
_SHARED = r"\.so\b"
_SUFFIX = r"(\.(cpython|abi3|pypy)[\w.-]*)?\.so[\d.]*$"


def packages(frames: pl.DataFrame) -> pl.Series:
    """The package or library of each frame's code: `torch`, `json`, `libc`. "" for the program's own code, and for frames that are not CPU
    code. Native functions are the program's own if they are in its executable."""
    kind, module = pl.col("kind"), pl.col("module")
    python = kind.is_in(_PYTHON) & (module == "")
    native = kind.is_in(_NATIVE) & (module != "") & (pl.col("name") != GARBAGE_COLLECTOR)
    return frames.select(
        package=pl.when(python)
        .then(library("file"))
        .when(native & module.str.contains(INTERPRETER_MODULE))
        .then(pl.lit(STANDARD_LIBRARY))
        .when(native & module.str.contains(_SHARED))
        .then(module.str.replace(_SUFFIX, ""))
        .when(kind == int(Kind.OS_KERNEL))
        .then(pl.lit("Linux"))
        .otherwise(pl.lit(""))
    ).to_series()


def own_code(tree: Tree) -> Tree:
    """Folds the functions of packages: `[torch]` has the time of all functions that own code called in torch. Own functions that a package
    calls back are placed under the own function that called the package. The total stays."""
    names = packages(tree.frames)
    foreign = (names != "").to_numpy()[tree.frame]
    foreign[0] = False
    if not foreign.any():
        return tree
    above = nodes.nearest(tree.parent, ~foreign, strict=True).astype(np.int32)
    # The outermost function of a run of foreign functions is the one that own code called.
    first = nodes.nearest(tree.parent, foreign & ~foreign[np.maximum(tree.parent, 0)])
    labels = names.to_frame("name").with_columns(kind=tree.frames["kind"]).with_row_index("frame").filter(pl.col("name") != "")
    distinct = labels.unique("name", keep="first", maintain_order=True).with_row_index("label")
    of_frame = np.zeros(len(tree.frames), dtype=np.int64)
    joined = labels.join(distinct.select("name", "label"), on="name", how="left", maintain_order="left")
    of_frame[joined["frame"].to_numpy()] = joined["label"].to_numpy()
    frame = np.where(foreign, len(tree.frames) + of_frame[tree.frame[np.maximum(first, 0)]], tree.frame.astype(np.int64))
    kept = ~foreign | np.any([value != 0 for value in tree.values.values()], axis=0)
    place = np.cumsum(kept) - 1
    parent = place[above[kept]]
    parent[0] = -1
    frames = pl.concat(
        [tree.frames, frame_table([Frame(f"[{name}]", Kind(kind)) for name, kind in distinct.select("name", "kind").rows()])[1:]]
    )
    values = {name: value[kept] for name, value in tree.values.items()}
    return assemble(frames, parent.astype(np.int32), frame[kept].astype(np.uint32), values, tree.metrics)

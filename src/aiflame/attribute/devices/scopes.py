"""Scopes as frames inside their kernel: the kernel's exact time is divided in the proportions of its recorded launches.

The weight of a scope is the warps' own time in it, without inner scopes. Time outside of all scopes is the kernel's own. Work beside the
warp (an asynchronous copy) is not part of any warp's time.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.apportion import scaled
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest
from aiflame.attribute.tree import Frame, frame_table
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

SCOPED = ", divided inside kernels by their recorded scopes"
_KEY = ["process", "name"]
_PARTS = ("region", "role", "loop")
"""Kinds of scopes that span several operations."""
_WEIGHTS = {"process": pl.UInt32, "name": pl.String, "node": pl.Int64, "weight": pl.Int64}


@dataclass(frozen=True, slots=True)
class Scopes:
    forest: Forest
    weights: pl.DataFrame
    """process, name (of a kernel, as compiled), node (of the forest, 0: the kernel itself), weight"""

    def divide(self, executions: pl.DataFrame, value: Ints) -> tuple[Ints, Ints, Ints]:
        """Divides the value of each row (`process`, `name`) that has scopes: row, node, value. Sums do not change."""
        rows = executions.select(pl.col("process").cast(pl.UInt32), "name").with_row_index("row")
        parts = rows.join(self.weights, on=_KEY).sort("row", "node")
        row, node = parts["row"].to_numpy().astype(np.int64), parts["node"].to_numpy()
        return row, node, scaled(row, parts["weight"].to_numpy(), value[row])


def scopes(profile: Tables) -> Scopes:
    """The scopes of a profile; empty if it has no records from inside kernels."""
    none = Scopes(Forest.of_frames(frame_table([])[1:]), pl.DataFrame(schema=_WEIGHTS))
    if not profile.has("intra_times"):
        return none
    kernel = ["process", "kernel"]
    kernels = profile.table("intra_kernels").select(*kernel, "name")
    launches = profile.table("intra_launches").select(*kernel, "launch", "warp_ns")
    times = profile.table("intra_times").join(launches.drop("warp_ns"), on=["process", "launch"])
    own = times.group_by(*kernel, "path").agg(weight=pl.col("own_ns").sum())
    paths = profile.table("intra_paths").join(own, on=[*kernel, "path"]).filter(~pl.col("beside")).sort(*kernel, "path")
    if paths.is_empty():
        return none
    named = paths.join(profile.table("intra_scopes").unique([*kernel, "scope"]), on=[*kernel, "scope"], how="left", maintain_order="left")
    forest, node = Forest.of_chains(_parents(named), _frames(named))
    inside = named.select(*kernel, pl.Series("node", node), "weight")
    totals = (
        launches.group_by(kernel).agg(whole=pl.col("warp_ns").sum()).join(inside.group_by(kernel).agg(pl.col("weight").sum()), on=kernel)
    )
    outside = totals.select(
        *kernel, pl.lit(0, pl.Int64).alias("node"), weight=(pl.col("whole") - pl.col("weight")).clip(lower_bound=0)
    )  # fmt: skip
    weights = (
        pl.concat([inside, outside])
        .join(kernels, on=kernel)
        .group_by(*_KEY, "node")
        .agg(pl.col("weight").sum().round().cast(pl.Int64))
        .filter(pl.col("weight").sum().over(_KEY) > 0)
        .sort(*_KEY, "node")
    )
    return Scopes(forest, weights.select(list(_WEIGHTS)))


def _parents(paths: pl.DataFrame) -> NDArray[np.int64]:
    """The row of the path around each path, -1: none. Paths are numbered within their kernel."""
    rows = {key: row for row, key in enumerate(paths.select("process", "kernel", "path").rows())}
    around = paths.select("process", "kernel", "parent").rows()
    return np.array([rows.get(key, -1) for key in around], dtype=np.int64)


def _frames(paths: pl.DataFrame) -> pl.DataFrame:
    frames = [
        Frame(
            name or f"scope {number}",
            Kind.GPU_SCOPE,
            file or "",
            line or 0,
            full_name=f"{name} ({op})" if op and kind not in _PARTS else "",
        )
        for name, number, file, line, op, kind in paths.select("name", "scope", "file", "line", "op", "kind").rows()
    ]
    return frame_table(frames)[1:]

"""CPU time by source file and line: each line's own time, and with its callees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from aiflame.analyze.top import totals_once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.metrics import CALL_LINE
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.tree import Metric, Tree
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.resolve.python.packages import package
from aiflame.values import dataclass

_FUNCTIONS = (Kind.PYTHON, Kind.C, Kind.CPP)


@dataclass(frozen=True, slots=True)
class SourceLines:
    metric: Metric
    total: int
    """Total of its scope; lines add up to less if some code has no source."""
    files: pl.DataFrame
    """path, package ("" for the program's own), self, total: the program's own files first, then those with the most time"""
    lines: pl.DataFrame
    """file (row of `files`), line, function, self, total: sorted by file and line"""

    def of_file(self, path: str) -> pl.DataFrame:
        """The lines of one file that took time."""
        row = self.files["path"].index_of(path)
        return self.lines.filter(pl.col("file") == row) if row is not None else self.lines.head(0)


def source_lines(profile: Tables, metric: str, *, steady: bool = False) -> SourceLines:
    """The lines for a metric of CPU samples, without the interpreter's own functions. `steady`: only their time in steady steps."""
    texts = profile.table("sources")["path"].to_list() if profile.has("sources") else []
    return lines_of(hide_interpreter_noise(tree(profile, metric, detail=CALL_LINE, steady=steady)), metric, texts)


def lines_of(of: Tree, metric: str, texts: Sequence[str] = ()) -> SourceLines:
    """The lines of a tree that has a line for each call. Time in code without a source counts as a callee of the line that calls it.
    `texts`: files whose text is in the profile; a native file counts as the program's own only then."""
    is_line = of.kinds() == Kind.CPU_LINE
    is_owner = is_line | np.isin(of.kinds(), _FUNCTIONS)
    row = of.frames.with_row_index("frame").filter(pl.col("kind") == int(Kind.CPU_LINE))
    places = row.select("frame", "module", path="file", line=pl.col("line").cast(pl.Int64))
    files = places.group_by("path", maintain_order=True).agg(pl.col("module").max()).with_row_index("file")
    lines = places.select("path", "line").unique(maintain_order=True).with_row_index("row")
    places = places.join(files.select("path", "file"), on="path").join(lines, on=["path", "line"])

    def sums(column: str, count: int) -> tuple[Ints, Ints]:
        item_of_frame = np.full(len(of.frames), count, dtype=np.int64)
        item_of_frame[places["frame"].to_numpy()] = places[column].to_numpy()
        item = item_of_frame[of.frame]
        at = nodes.nearest(of.parent, is_owner)
        own = nodes.gather(np.where(at >= 0, item[at], count), of.values[metric], count + 1)
        return own[:count], totals_once(of, item, is_line, metric, count + 1)[:count]

    (file_own, file_total), (own, total) = sums("file", len(files)), sums("row", len(lines))
    files = (
        files.with_columns(pl.Series("self", file_own), pl.Series("total", file_total), package=_package(texts))
        .with_columns(foreign=pl.col("package") != "")
        .with_columns(weight=pl.when("foreign").then("self").otherwise("total"))
        .sort("foreign", "weight", "total", "path", descending=[False, True, True, False])
        .with_row_index("place")
    )
    placed = (
        lines.with_columns(pl.Series("self", own), pl.Series("total", total))
        .join(_functions(of, is_line), on=["path", "line"], how="left")
        .join(files.select("path", "place"), on="path")
        .select(pl.col("place").cast(pl.Int64).alias("file"), "line", pl.col("function").fill_null(""), "self", "total")
        .sort("file", "line")
    )
    return SourceLines(of.metric(metric), of.total(metric), files.select("path", "package", "self", "total"), placed)


def _package(texts: Sequence[str]) -> pl.Expr:
    """The package of code, from the columns `path` and `module` ("" for Python)."""
    built_elsewhere = (pl.col("module") != "") & ~pl.col("path").is_in(list(texts))
    return pl.when(package("path") == "").then(pl.when(built_elsewhere).then("module").otherwise(pl.lit(""))).otherwise(package("path"))


def _functions(of: Tree, is_line: Mask) -> pl.DataFrame:
    """path, line, and the function that contains the line."""
    at = np.flatnonzero(is_line)
    names = of.frames["name"].gather(of.frame[of.parent[at]])
    lines = of.frames.select(path="file", line=pl.col("line").cast(pl.Int64))[of.frame[at].astype(np.int64)]
    return lines.with_columns(function=names).sort("path", "line", "function").unique(["path", "line"], keep="first")

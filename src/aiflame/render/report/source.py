"""Source lines of a metric of CPU samples as a block: its files, the program's own first, and the lines that took time."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from aiflame.analyze.kernel.source_text import Origin
from aiflame.analyze.source.lines import SourceLines
from aiflame.render.blocks import block

MOST_FILES = 300
_LEAST = 0.001
"""The smallest share of the time with which a file of a package is listed."""


def listed(source: SourceLines) -> pl.DataFrame:
    """The files that the view lists: rows of `source.files`."""
    enough = (pl.col("package") == "") | (pl.col("total") >= _LEAST * source.total)
    return source.files.with_row_index("row").filter(enough).head(MOST_FILES)


def source_block(source: SourceLines, texts: Mapping[str, int], origins: Mapping[str, Origin]) -> bytes:
    """`texts`: the number of the block `text.N` for each file that has one."""
    files = listed(source)
    lines = source.lines.join(
        files.with_row_index("number").select(pl.col("row").cast(pl.Int64), pl.col("number").cast(pl.Int64)), left_on="file", right_on="row"
    )
    functions = lines["function"].unique(maintain_order=True)
    numbers = lines.join(functions.to_frame().with_row_index("place"), on="function", how="left", maintain_order="left")
    head = {
        "metric": source.metric.name,
        "label": source.metric.label,
        "unit": source.metric.unit,
        "total": source.total,
        "files": [
            {
                "path": path,
                "package": package,
                "self": own,
                "total": total,
                "text": texts.get(path, -1),
                "origin": origins.get(path, Origin.MISSING).value,
            }
            for path, package, own, total in files.select("path", "package", "self", "total").rows()
        ],
    }
    return block(
        head,
        {
            "name": functions,
            "file": numbers["number"].to_numpy(),
            "line": numbers["line"].to_numpy(),
            "function": numbers["place"].to_numpy(),
            "self": numbers["self"].to_numpy(),
            "total": numbers["total"].to_numpy(),
        },
        frozenset({"file", "line"}),
    )

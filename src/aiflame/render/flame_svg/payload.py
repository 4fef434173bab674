"""The data inside an SVG flame graph: a block (`render/blocks.py`), in base64.

Columns: of the nodes, in depth-first order, `node.depth`, `node.frame` (row of the frames) and, for the head's metric N, `node.own.N` and
`node.folded.N`; of the frames `frame.name`, `frame.full`, `frame.kind`, `frame.shade`, `frame.file` and `frame.module` (rows of `file` and
`module`), `frame.line` and `frame.approximate`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.tree import Tree
from aiflame.render.blocks import Values, block
from aiflame.render.clean_text import cleaned
from aiflame.render.colors import shade_of
from aiflame.render.flame_svg.layout import Layout


def encode(tree: Tree, layout: Layout, head: Mapping[str, object]) -> str:
    """base64 text for the file; `head` goes to the script as it is."""
    used, frame = np.unique(layout.frame, return_inverse=True)
    columns: dict[str, Values] = {"node.depth": layout.depth, "node.frame": frame}
    columns |= {f"node.own.{metric}": row for metric, row in enumerate(layout.own)}
    columns |= {f"node.folded.{metric}": row for metric, row in enumerate(layout.folded)}
    columns |= _frames(tree.frames[used.astype(np.int64)])
    return base64.b64encode(block({**head, "foldedNodes": layout.folded_nodes}, columns)).decode()


def _frames(frames: pl.DataFrame) -> dict[str, Values]:
    return {
        "frame.name": frames["name"],
        "frame.full": frames["full_name"],
        "frame.kind": frames["kind"],
        "frame.shade": pl.Series(shade_of(cleaned(frames["name"]).to_list()), dtype=pl.UInt8),
        "frame.line": frames["line"],
        "frame.approximate": frames["approximate"].cast(pl.UInt8),
        **_distinct("file", frames["file"]),
        **_distinct("module", frames["module"]),
    }


def _distinct(name: str, column: pl.Series) -> dict[str, Values]:
    """Few distinct texts, each once."""
    return {f"frame.{name}": column.rank("dense") - 1, name: column.unique().sort()}

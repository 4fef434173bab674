"""The data inside an SVG flame graph: a JSON head, then the nodes' columns as byte planes, gzipped, in base64.

Little-endian: u32 length of the head, the head, then for each of its `columns` as many planes as it says, a byte of each node a
plane, lowest first. Planes of small numbers are runs of zeros, which gzip swallows at no cost.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.tree import Tree
from aiflame.render.clean_text import cleaned
from aiflame.render.colors import shade_of
from aiflame.render.flame_svg.layout import Layout

GZIP_LEVEL = 5


def encode(tree: Tree, layout: Layout, head: dict[str, object]) -> str:
    """base64 text for the file; `head` goes to the script as it is."""
    used, frame = np.unique(layout.frame, return_inverse=True)
    columns: list[tuple[str, NDArray[np.int64]]] = [("depth", layout.depth.astype(np.int64)), ("frame", frame.astype(np.int64))]
    columns += [("own", row) for row in layout.own]
    columns += [("folded", row) for row in layout.folded]

    packed = [(name, *_planes(values)) for name, values in columns]
    head = {
        **head,
        "nodes": len(layout),
        "foldedNodes": layout.folded_nodes,
        "columns": [[name, count] for name, count, _ in packed],
        "frames": _frames(tree.frames[used.astype(np.int64)]),
    }
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    raw = b"".join((struct.pack("<I", len(text)), text, *(planes for _, _, planes in packed)))
    return base64.b64encode(gzip.compress(raw, GZIP_LEVEL, mtime=0)).decode()


def _frames(frames: pl.DataFrame) -> dict[str, object]:
    names = cleaned(frames["name"])
    return {
        "name": names.to_list(),
        "full": cleaned(frames["full_name"]).to_list(),
        "kind": frames["kind"].to_list(),
        "shade": shade_of(names.to_list()),
        "line": frames["line"].to_list(),
        "approximate": frames["approximate"].cast(pl.UInt8).to_list(),
        **_dictionary("file", frames["file"]),
        **_dictionary("module", frames["module"]),
    }


def _dictionary(name: str, column: pl.Series) -> dict[str, object]:
    """Few distinct values, each once."""
    distinct = column.unique().sort()
    return {name: (column.rank("dense") - 1).to_list(), f"{name}s": cleaned(distinct).to_list()}


def _planes(values: NDArray[np.int64]) -> tuple[int, bytes]:
    """How many bytes the largest value takes, and those bytes of all values."""
    count = max(1, (int(values.max(initial=0)).bit_length() + 7) // 8)
    octets = np.ascontiguousarray(values, dtype="<i8").view(np.uint8).reshape(-1, 8)
    return count, np.ascontiguousarray(octets[:, :count].T).tobytes()

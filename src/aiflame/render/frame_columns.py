"""The columns of frames in a block (`render/blocks.py`) for any flame graph; `render/web/flame/model.js` holds them.

`frame.name`, `frame.full`, `frame.kind`, `frame.line`, and `frame.file` and `frame.module`, which are rows of `file` and `module`.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from aiflame.profile.schema.kinds import Kind
from aiflame.render.blocks import Values
from aiflame.render.colors import TONES

IN_ORDER = frozenset({"frame.file", "frame.module", "frame.kind", "frame.line"})
"""Columns whose neighbours are similar: blocks store differences."""


def frame_columns(frames: pl.DataFrame) -> dict[str, Values]:
    columns: dict[str, Values] = {
        "frame.name": frames["name"],
        "frame.full": frames["full_name"],
        "frame.kind": frames["kind"].to_numpy(),
        "frame.line": frames["line"].to_numpy(),
    }
    for name in ("file", "module"):
        distinct = frames.select(name).unique(maintain_order=True).with_row_index("row")
        columns[name] = distinct[name]
        columns[f"frame.{name}"] = frames.join(distinct, on=name, how="left", maintain_order="left")["row"].to_numpy()
    return columns


def kind_labels(kinds: Iterable[int]) -> dict[str, str]:
    """Labels of kinds, for a block's head."""
    return {str(kind): TONES[Kind(kind)].label for kind in sorted(set(kinds))}

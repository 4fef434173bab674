"""Numbers of phases, layers and ops as their names."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from aiflame.attribute.forest import Forest
from aiflame.attribute.meaning.phases import NAMES


def layer_paths(forest: Forest) -> list[str]:
    """Of each node its whole path, `layers.3.attn`; "" for node 0."""
    names = forest.frames["name"].to_list()
    paths = [""]
    for above, frame in zip(forest.parent[1:].tolist(), forest.frame[1:].tolist(), strict=True):
        paths.append(f"{paths[above]}.{names[frame]}" if above > 0 else names[frame])
    return paths


def op_names(forest: Forest) -> list[str]:
    names = forest.frames["name"].to_list()
    return ["", *(names[frame] for frame in forest.frame[1:].tolist())]


def gathered(names: list[str], rows: pl.Series) -> pl.Series:
    return pl.Series(rows.name, names, dtype=pl.String).gather(rows.cast(pl.UInt32))


def phase_names(phase: pl.Series) -> pl.Series:
    names: Mapping[int, str] = {int(phase): name for phase, name in NAMES.items()}
    return phase.to_frame("phase").select(pl.col("phase").replace_strict(names, default="", return_dtype=pl.String)).to_series()

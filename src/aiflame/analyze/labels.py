"""Turns numbers of phases, layers and ops into their names."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from aiflame.attribute.meaning.phases import NAMES


def gathered(names: list[str], rows: pl.Series) -> pl.Series:
    return pl.Series(rows.name, names, dtype=pl.String).gather(rows.cast(pl.UInt32))


def phase_names(phase: pl.Series) -> pl.Series:
    names: Mapping[int, str] = {int(phase): name for phase, name in NAMES.items()}
    return phase.to_frame("phase").select(pl.col("phase").replace_strict(names, default="", return_dtype=pl.String)).to_series()

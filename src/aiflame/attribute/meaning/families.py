"""The family of each kernel: gemm, attention, collective …"""

from __future__ import annotations

import polars as pl

from aiflame.profile.tables.interface import Tables
from aiflame.resolve.device.kernel_families import COPY, family

COLLECTIVE = "collective"


def families(profile: Tables, names: pl.Series) -> dict[str, str]:
    """The family of each kernel (as compiled) or copy; derived from the name if the profile has none."""
    recorded: dict[str, str] = {}
    if profile.has("kernel_names"):
        rows = profile.table("kernel_names")
        if "family" in rows.columns:
            recorded = dict(rows.select("name", pl.col("family").fill_null("")).rows())
    return {name: recorded.get(name) or (COPY if name.startswith("[") else family(name)) for name in names.unique()}

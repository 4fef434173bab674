"""The family of each kernel: gemm, attention, collective …"""

from __future__ import annotations

import polars as pl

from aiflame.profile.tables import Tables
from aiflame.resolve.device.kernel_families import COPY, family

COLLECTIVE = "collective"


def families(profile: Tables, names: pl.Series) -> dict[str, str]:
    """Of each of these kernels (as compiled) and copies; by their names where the profile does not tell."""
    told: dict[str, str] = {}
    if profile.has("kernel_names"):
        known = profile.table("kernel_names")
        if "family" in known.columns:
            told = dict(known.select("name", pl.col("family").fill_null("")).rows())
    return {name: told.get(name) or (COPY if name.startswith("[") else family(name)) for name in names.unique()}

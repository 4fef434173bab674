"""The family of each kernel: gemm, attention, collective …"""

from __future__ import annotations

import re

import polars as pl

from aiflame.attribute.stacks import Tables

COLLECTIVE = "collective"
_NCCL = re.compile(r"^(_Z\d+)?nccl", re.IGNORECASE)


def families(profile: Tables, names: pl.Series) -> dict[str, str]:
    """Of each of these kernels (as compiled) and copies, "" where it is in none."""
    told: dict[str, str] = {}
    if profile.has("kernel_names"):
        known = profile.table("kernel_names")
        if "family" in known.columns:
            told = dict(known.select("name", pl.col("family").fill_null("")).rows())
    return {name: told.get(name) or (COLLECTIVE if _NCCL.match(name) else "") for name in names.unique()}

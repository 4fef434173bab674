"""The profile's tables as Parquet files, one a table: docs/profile-format.md describes them."""

from __future__ import annotations

from pathlib import Path

from aiflame.attribute.arrays.chunks import count
from aiflame.profile.tables.interface import OpenedProfile, as_errors


def write(profile: OpenedProfile, folder: Path) -> dict[str, int]:
    """Writes into an empty folder; the number of rows of each table."""
    rows = {}
    with as_errors(profile.path):
        for name in profile.names():
            profile.scan(name).sink_parquet(folder / f"{name}.parquet", compression="zstd")
            rows[name] = count(profile.scan(name))
    return rows

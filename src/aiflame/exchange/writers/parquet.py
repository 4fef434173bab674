"""The profile's tables as Parquet files, one a table: docs/profile-format.md describes them."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import OpenedProfile


def write(profile: OpenedProfile, folder: Path) -> dict[str, int]:
    """Makes the folder, which must not be there or be empty; the rows of each table. The files appear together, or none does."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AiflameError(f"{folder} is there already: choose a new folder with -o")
    partial = folder.absolute().with_name(f".aiflame-{os.urandom(8).hex()}.partial")
    partial.mkdir(mode=0o700)
    try:
        rows = {}
        for name in profile.names():
            file = partial / f"{name}.parquet"
            profile.scan(name).sink_parquet(file, compression="zstd")
            rows[name] = pl.scan_parquet(file).select(pl.len()).collect().item()
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return rows

"""Stores the texts of the files whose code threads ran in the profile, beside those of GPU kernels."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile
from aiflame.resolve.device.sources import LARGEST, text_of
from aiflame.resolve.files.outside import Outside
from aiflame.resolve.python.packages import package

ROOM = 6 << 20
"""Bytes of all files. The program's own come first, then those with most places on stacks."""
MOST_FILES = 500
_CODE = [int(Kind.PYTHON), int(Kind.C), int(Kind.CPP)]


def keep_sources(profile: Profile, symbols: pl.DataFrame, outside: Outside) -> None:
    """Adds to the table `sources` the files that `symbols` name. `outside` decides which may be read, and checks that they have not changed
    since the program began."""
    if not outside.keeps_sources:
        return
    kept = profile.table("sources") if profile.has("sources") else pl.DataFrame(schema={"path": pl.String, "text": pl.String})
    texts: list[tuple[str, str]] = []
    room = ROOM
    for file in _files(symbols).filter(~pl.col("file").is_in(kept["path"].to_list()))["file"]:
        content = outside.source(Path(file), 0, LARGEST).content
        if content is not None and len(content) <= room and (text := text_of(content)) is not None:
            texts.append((file, text))
            room -= len(content)
    if texts:
        profile.write_table("sources", pl.concat([kept, pl.DataFrame(texts, schema=kept.schema, orient="row")]))


def _files(symbols: pl.DataFrame) -> pl.DataFrame:
    named = symbols.filter(pl.col("kind").is_in(_CODE) & (pl.col("line") > 0) & pl.col("file").str.starts_with("/"))
    files = named.group_by("file").agg(places=pl.len()).with_columns(foreign=package() != "")
    return files.sort("foreign", "places", "file", descending=[False, True, False]).head(MOST_FILES)

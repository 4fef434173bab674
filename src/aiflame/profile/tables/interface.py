"""The interface of a profile for its readers: its tables, and for an opened one also its name and its metadata.

A profile of one recorder (`store.Profile`) and one of many ranks (`ranked.Ranked`) both have it; neither imports the other.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.all_tables import TABLE, TABLES
from aiflame.profile.spool.process_spool import empty_frame
from aiflame.profile.tables import sql


class Tables(Protocol):
    """Tables by name; docs/profile-format.md lists them."""

    def has(self, name: str) -> bool:
        """True if the table has rows, or was derived."""

    def table(self, name: str) -> pl.DataFrame:
        """The whole table, in memory."""

    def scan(self, name: str) -> pl.LazyFrame:
        """The table, read when it is collected; without rows if none were recorded."""


class OpenedProfile(Tables, Protocol):
    """The result of `opening.open_profile`."""

    @property
    def path(self) -> Path:
        """The profile's name. Never open it, nor a path below it: `folder` is the way to its files."""

    @property
    def folder(self) -> Folder:
        """The folder that was recorded."""

    @property
    def meta(self) -> Meta:
        """The command, host and time of the recording."""

    def names(self) -> list[str]:
        """The tables that have rows, or were derived."""

    def sql(self, query: str) -> pl.DataFrame:
        """Runs SQL (Polars' dialect) over all tables, including tables of the schema without rows."""

    def unfinished(self) -> list[str]:
        """A line that readers must see first: the profile is still being recorded. Otherwise empty."""

    def notes(self) -> list[str]:
        """Failures to record or read something, each line once."""

    def kept_size(self, file: str) -> int | None:
        """The size of a file that `kept_files` names; None if it is missing."""

    def read_kept(self, file: str, most: int) -> bytes:
        """The first `most` bytes of a file that `kept_files` names."""


def collected(profile: OpenedProfile, name: str) -> pl.DataFrame:
    """A whole table. Errors in reading it name the profile."""
    with as_errors(profile.path):
        return profile.scan(name).collect()


def answer(profile: OpenedProfile, query: str) -> pl.DataFrame:
    """The answer to a query over a profile's tables."""
    names = [*profile.names(), *(table.name for table in TABLES if not profile.has(table.name))]
    return sql.answer(query, names, profile.scan)


def without_rows(profile: OpenedProfile, name: str) -> pl.DataFrame:
    """An empty table of the schema. Error for any other name."""
    if name not in TABLE:
        raise AiflameError(f"{profile.path} has no table {name!r}; it has {', '.join(profile.names())}")
    return _empty(name)


def with_later_columns(name: str, rows: pl.LazyFrame) -> pl.LazyFrame:
    """The rows of a recorded table with all columns of today's schema. A profile that an earlier version sealed lacks those that came
    later: they are 0 or empty, which means `not recorded` in every table."""
    if name not in TABLE:
        return rows
    written = rows.collect_schema()
    later = {column: kind for column, kind in _empty(name).schema.items() if column not in written}
    return (
        rows.with_columns(pl.lit(_NOTHING.get(kind.base_type(), 0), kind).alias(column) for column, kind in later.items())
        if later
        else rows
    )


_NOTHING: dict[type[pl.DataType], object] = {pl.String: "", pl.Binary: b""}


@functools.cache
def _empty(name: str) -> pl.DataFrame:
    return empty_frame(TABLE[name]).select(pl.lit(None, pl.UInt32).alias("process"), pl.all())


@contextlib.contextmanager
def as_errors(path: Path) -> Iterator[None]:
    """Raises errors of Polars and of the system as errors for people."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise AiflameError(f"cannot read {path}: {str(error).partition(chr(10))[0]}") from None

"""The tables of a report that `nsys export` wrote: an SQLite file, or a folder with a Parquet or Arrow file for each table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers.source import plain
from aiflame.exchange.readers.sqlite_pages import Kind

SUFFIXES = (".parquet", ".arrow")
_ARROW = b"ARROW1"
Answer = TypeVar("Answer")
_MOST_ROWS = 1 << 30
_MOST_FILES = 2000


class Tables(Protocol):
    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]: ...

    def read(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame: ...

    def read_many(self, tables: Mapping[str, Mapping[str, Kind]]) -> dict[str, pl.DataFrame]: ...

    def count(self, table: str) -> int: ...


@dataclass(frozen=True, slots=True)
class FolderTables:
    """`nsys export -t parquetdir` and `-t arrowdir`."""

    tables: Mapping[str, tuple[str, ...]]
    _files: Mapping[str, Path]

    @staticmethod
    def names(folder: Path) -> list[str]:
        """The tables that a folder has a file for."""
        try:
            files = [entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
        except OSError as error:
            raise AiflameError(f"cannot read {folder}: {error.strerror or error}") from None
        return sorted(name for name in files if name.endswith(SUFFIXES))[:_MOST_FILES]

    @staticmethod
    def open(folder: Path) -> FolderTables:
        files = {name.rpartition(".")[0]: folder / name for name in FolderTables.names(folder)}
        columns = {}
        for table, file in files.items():
            columns[table] = tuple(_guarded(file, lambda of: of.collect_schema().names()))
        return FolderTables(columns, files)

    def read(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        there = [name for name in columns if name in self.tables.get(table, ())]
        if not there:
            return pl.DataFrame(schema=dict(columns))
        if self.count(table) > _MOST_ROWS:
            raise AiflameError(f"{self._files[table]} has more than {_MOST_ROWS:,} rows")
        frame = _guarded(self._files[table], lambda of: of.select(there).collect())
        return frame.select(
            (pl.col(name).cast(kind, strict=False) if name in there else pl.lit(None, dtype=kind)).alias(name)
            for name, kind in columns.items()
        )

    def read_many(self, tables: Mapping[str, Mapping[str, Kind]]) -> dict[str, pl.DataFrame]:
        return {name: self.read(name, columns) for name, columns in tables.items()}

    def count(self, table: str) -> int:
        return int(_guarded(self._files[table], lambda of: of.select(pl.len()).collect()).item())


def _guarded(file: Path, ask: Callable[[pl.LazyFrame], Answer]) -> Answer:
    """A reader of damaged Parquet may fail in any way."""
    try:
        return ask(_opened(file))
    except (OSError, ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise AiflameError(f"cannot read {file}: {(str(error) or type(error).__name__).splitlines()[0]}") from None
    except pl.exceptions.PanicException:
        raise AiflameError(f"cannot read {file}: it is damaged") from None


def _opened(file: Path) -> pl.LazyFrame:
    if file.suffix == ".parquet":
        return pl.scan_parquet(file)
    with plain(file) as content:
        data = content.read()
    return (pl.read_ipc(data) if data.startswith(_ARROW) else pl.read_ipc_stream(data)).lazy()

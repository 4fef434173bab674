"""The tables of a report that `nsys export` wrote: an SQLite file, or a folder with a Parquet or Arrow file for each table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers.nsys.trial import try_arrow, try_parquet
from aiflame.exchange.readers.source import plain
from aiflame.exchange.readers.sqlite_pages import Kind
from aiflame.values import dataclass

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
            guarded(str(file), partial(_try, file))
            columns[table] = tuple(_asked(file, lambda of: of.collect_schema().names()))
        return FolderTables(columns, files)

    def read(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        there = [name for name in columns if name in self.tables.get(table, ())]
        if not there:
            return pl.DataFrame(schema=dict(columns))
        if self.count(table) > _MOST_ROWS:
            raise AiflameError(f"{self._files[table]} has more than {_MOST_ROWS:,} rows")
        return with_columns(_asked(self._files[table], lambda of: of.select(there).collect()), columns)

    def read_many(self, tables: Mapping[str, Mapping[str, Kind]]) -> dict[str, pl.DataFrame]:
        return {name: self.read(name, columns) for name, columns in tables.items()}

    def count(self, table: str) -> int:
        return int(_asked(self._files[table], lambda of: of.select(pl.len()).collect()).item())


def with_columns(frame: pl.DataFrame, columns: Mapping[str, Kind]) -> pl.DataFrame:
    """Exactly these columns; those that the frame lacks are empty."""
    return frame.select(
        (pl.col(name).cast(kind, strict=False) if name in frame.columns else pl.lit(None, dtype=kind)).alias(name)
        for name, kind in columns.items()
    )


def _asked(file: Path, ask: Callable[[pl.LazyFrame], Answer]) -> Answer:
    return guarded(str(file), lambda: ask(_opened(file)))


def guarded(file: str, ask: Callable[[], Answer]) -> Answer:
    """A reader of damaged Parquet or Arrow may fail in any way."""
    try:
        return ask()
    except (OSError, ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise AiflameError(f"cannot read {file}: {(str(error) or type(error).__name__).splitlines()[0]}") from None
    except pl.exceptions.PanicException:
        raise AiflameError(f"cannot read {file}: it is damaged") from None


def _try(file: Path) -> None:
    if file.suffix == ".parquet":
        try_parquet(file)
    else:
        try_arrow(str(file), _content(file))


def _opened(file: Path) -> pl.LazyFrame:
    if file.suffix == ".parquet":
        return pl.scan_parquet(file)
    data = _content(file)
    return (pl.read_ipc(data) if data.startswith(_ARROW) else pl.read_ipc_stream(data)).lazy()


def _content(file: Path) -> bytes:
    with plain(file) as content:
        return content.read()

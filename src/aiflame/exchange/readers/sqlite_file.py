"""Tables of an SQLite file from a stranger, read by columns.

Nothing of the file is run: it is opened read-only, without journals, views, triggers, indexes and generated columns; SQLite's
time and memory are bounded.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers import sqlite_pages
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.sqlite_pages import Kind
from aiflame.values import dataclass, replace

MAGIC = b"SQLite format 3\0"
INT, REAL, TEXT = pl.Int64(), pl.Float64(), pl.String()

_LONGEST_S = 600.0
_STEPS = 100_000
"""Instructions of SQLite between two looks at the clock."""
_LONGEST_VALUE = 64 << 20
_MOST_BYTES = 1 << 30
"""Of a table with texts, in memory."""
_PIECE = 100_000
"""Rows that SQLite writes into one text."""
_MOST_UNPACKED = 64 << 30
_NONE = -(1 << 63)
_ROW_NAMES = ("rowid", "_rowid_", "oid")


@dataclass(frozen=True, slots=True)
class SqliteFile:
    tables: Mapping[str, tuple[str, ...]]
    """The columns of each table."""
    _path: str
    _connection: sqlite3.Connection
    _said: str

    @staticmethod
    @contextlib.contextmanager
    def open(source: Source) -> Iterator[SqliteFile]:
        """A file that is packed is unpacked into a temporary one first."""
        with contextlib.ExitStack() as stack:
            path = source.path
            if not _is_plain(path):
                path = stack.enter_context(_unpacked(source))
            with _errors(str(source.path)):
                connection = stack.enter_context(contextlib.closing(_connection(str(path))))
                yield SqliteFile(_tables(connection), str(path), connection, str(source.path))

    def read(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        """These columns of a table, in no particular order; those that it lacks are null. A table that is not there has no rows."""
        with _errors(self._said):
            there = {name: kind for name, kind in columns.items() if name in self.tables.get(table, ())}
            frame = self._read(table, there) if there else pl.DataFrame()
            missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in columns.items() if name not in there]
            if frame.width:
                return frame.with_columns(missing).select(list(columns))
            return pl.DataFrame(schema=dict(columns))

    def read_many(self, tables: Mapping[str, Mapping[str, Kind]]) -> dict[str, pl.DataFrame]:
        """As `read`, several tables at once."""
        there = [name for name in tables if name in self.tables]
        with ThreadPoolExecutor(max_workers=max(min(len(there), 4), 1)) as workers:
            frames = dict(zip(there, workers.map(lambda name: self._own().read(name, tables[name]), there), strict=True))
        return {name: frames[name] if name in frames else self.read(name, columns) for name, columns in tables.items()}

    def _own(self) -> SqliteFile:
        """The same file over another connection, for a thread."""
        with _errors(self._said):
            return replace(self, _connection=_connection(self._path))

    def count(self, table: str) -> int:
        with _errors(self._said):
            return int(self._connection.execute(f"SELECT count(*) FROM {_quoted(table)} NOT INDEXED").fetchone()[0])

    def _read(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        numbers = {name: kind for name, kind in columns.items() if not isinstance(kind, pl.String)}
        texts = [name for name in columns if name not in numbers]
        row = next((name for name in _ROW_NAMES if name not in {one.lower() for one in self.tables[table]}), None)
        frame = sqlite_pages.columns(self._path, self._connection, table, columns)
        if frame is not None:
            return frame
        if row is None or texts or not self._has_rows(table, row):
            return self._by_rows(table, columns)
        return self._by_pieces(table, numbers, row)

    def _has_rows(self, table: str, row: str) -> bool:
        """False for tables WITHOUT ROWID."""
        try:
            self._connection.execute(f"SELECT {row} FROM {_quoted(table)} NOT INDEXED LIMIT 1").fetchone()
        except sqlite3.OperationalError:
            return False
        return True

    def _by_pieces(self, table: str, columns: Mapping[str, Kind], row: str) -> pl.DataFrame:
        """Many rows at once: SQLite writes each column of a piece into one text, which numpy parses. No Python object is made for a row."""
        texts = ", ".join(f"group_concat({_number(name, kind)})" for name, kind in columns.items())
        inner = ", ".join(_quoted(name) for name in columns)
        query = (
            f"SELECT max({row}), count(*), {texts} FROM "
            f"(SELECT {row}, {inner} FROM {_quoted(table)} NOT INDEXED WHERE {row} > ? ORDER BY {row} LIMIT {_PIECE})"
        )
        pieces: dict[str, list[np.ndarray]] = {name: [] for name in columns}
        last = None
        while True:
            # The smallest row number of all is left out by `>`; no tool writes it.
            piece = self._connection.execute(query, (_NONE if last is None else last,)).fetchone()
            if not piece[1]:
                break
            for (name, kind), text in zip(columns.items(), piece[2:], strict=True):
                pieces[name].append(_parsed(text, kind, piece[1]))
            last = piece[0]
            if piece[1] < _PIECE:
                break
        return pl.DataFrame([_series(name, np.concatenate(pieces[name]) if pieces[name] else [], kind) for name, kind in columns.items()])

    def _by_rows(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        fields = ", ".join(
            f"CAST({_quoted(name)} AS TEXT)" if isinstance(kind, pl.String) else _number(name, kind) for name, kind in columns.items()
        )
        size, parts = 0, []
        cursor = self._connection.execute(f"SELECT {fields} FROM {_quoted(table)} NOT INDEXED")
        while rows := cursor.fetchmany(10_000):
            part = [_column(name, values, kind) for (name, kind), values in zip(columns.items(), zip(*rows, strict=True), strict=True)]
            parts.append(pl.DataFrame(part))
            size += int(parts[-1].estimated_size())
            if size > _MOST_BYTES:
                raise AiflameError(f"{self._said}: its table {table} has more than {_MOST_BYTES >> 20} MB")
        return pl.concat(parts) if parts else pl.DataFrame(schema=dict(columns))


def _column(name: str, values: tuple[object, ...], kind: Kind) -> pl.Series:
    if isinstance(kind, pl.String):
        return pl.Series(name, [_readable(one) for one in values], dtype=pl.String)
    return _series(name, np.array(values, dtype=np.float64 if isinstance(kind, pl.Float64) else np.int64), kind)


def _is_plain(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@contextlib.contextmanager
def _unpacked(source: Source) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix="aiflame-", suffix=".sqlite") as file:
        size = 0
        for block, _ in source.blocks():
            size += len(block)
            if size > _MOST_UNPACKED:
                raise AiflameError(f"{source.path} has more than {_MOST_UNPACKED >> 30} GB once it is unpacked")
            file.write(block)
        file.flush()
        yield Path(file.name)


def _connection(path: str) -> sqlite3.Connection:
    # immutable: no lock, no journal and no write-ahead log, which a stranger may have put beside the file
    connection = sqlite3.connect(f"file:{quote(str(Path(path).resolve()))}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    ends = time.monotonic() + _LONGEST_S
    connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
    connection.text_factory = bytes
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _tables(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """Ordinary tables and their stored columns: neither views, virtual tables nor generated columns."""
    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND sql LIKE 'CREATE TABLE%'")
    names = [_text(name) for (name,) in named.fetchmany(10_000) if isinstance(name, bytes)]
    columns = {}
    for name in names:
        rows = connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
        columns[name] = tuple(_text(row[1]) for row in rows)
    return columns


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _number(name: str, kind: Kind) -> str:
    if isinstance(kind, pl.Float64):
        return f"ifnull(CAST({_quoted(name)} AS REAL), 9e999)"
    return f"ifnull(CAST({_quoted(name)} AS INTEGER), {_NONE})"


def _parsed(text: bytes, kind: Kind, count: int) -> np.ndarray:
    if isinstance(kind, pl.Float64):
        values = np.array(text.replace(b"Inf", b"inf").split(b","), dtype=np.float64)
    else:
        values = np.fromstring(text.decode("ascii"), dtype=np.int64, sep=",")
    if len(values) != count:
        raise sqlite3.DatabaseError("a column of numbers cannot be read")
    return values


def _series(name: str, values: np.ndarray | Sequence[int], kind: Kind) -> pl.Series:
    series = pl.Series(name, values, dtype=kind)
    none = series.is_infinite() if isinstance(kind, pl.Float64) else series == _NONE
    return series.set(none, None) if none.any() else series


def _readable(value: object) -> str | None:
    return _text(value) if isinstance(value, bytes) else None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if "interrupt" in str(error):
            raise AiflameError(f"{path} takes longer than {_LONGEST_S:.0f} s to read") from None
        raise AiflameError(f"cannot read {path} as an SQLite database: {error}") from None
    except (ValueError, OverflowError) as error:
        raise AiflameError(f"cannot read {path} as an SQLite database: {error}") from None

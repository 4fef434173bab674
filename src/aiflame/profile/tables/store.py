"""The sealed profile of one recorder: its tables as Polars frames. `opening.py` makes it."""

from __future__ import annotations

import contextlib
import errno
import io
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import FILE_NAME as META_FILE
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.tables.index import Index, Part, open_part, verify, write_part
from aiflame.profile.tables.interface import answer, as_errors, with_later_columns, without_rows
from aiflame.profile.tables.parquet_pages import NotOurs, sizes
from aiflame.values import dataclass

KEPT = "kept"
_ALONE = "derive.lock"

_MOST_ROWS, _MOST_ROWS_A_BYTE = 1 << 20, 64
"""Every row that aiflame writes has a number, which takes at least a tenth of a byte."""
_MOST_UNPACKED, _MOST_UNPACKED_A_BYTE = 128 << 20, 256
"""Bytes of unpacked pages. Tables of real recordings unpack to at most ten times their size."""
_MOST_TEXTS, _MOST_TEXTS_A_BYTE = 1 << 30, 4096
"""Bytes of texts, counted for each row: a million rows may share the long name of one function."""
_SMALL = 64 << 10
"""A part of at most this size is read at once, so that it needs no descriptor until its table is collected."""
_KEPT_ROWS, _KEPT_UNPACKED = 1 << 10, 64 << 10
_KEPT_BYTES = 256 << 10
"""Tables of at most this many rows and bytes stay in memory once they are read, as long as all of the profile's together take no more:
readers ask for most tables a dozen times, and a thousand ranks may be open at once."""


@dataclass(slots=True)
class SealedTables:
    """A folder of sealed tables, and its index."""

    folder: Folder
    index: Index


class Profile:
    """The sealed profile of one recorder (`interface.OpenedProfile`). Tables are read, and their files verified, when they are asked for.

    `folder` is the recording. Derived tables are written to `place`: the profile itself if it is ours, otherwise a folder of ours. If
    `place` is None, they stay in memory.
    """

    def __init__(self, folder: Folder, meta: Meta, tables: Sequence[SealedTables], place: Folder | None, growing: str = "") -> None:
        """`growing`: the note of a profile that is still being recorded."""
        self._growing = growing
        self.folder, self.place = folder, place
        self.meta = meta
        self._tables = tuple(tables)
        """The first has the tables in `place`, if there is one."""
        self._in_memory: dict[str, pl.DataFrame] = {}
        self._verified: dict[str, int] = {}
        """File → bytes of its pages when unpacked, for verified files."""
        self._kept: dict[tuple[Part, ...], pl.DataFrame] = {}
        self._room = _KEPT_BYTES

    @property
    def path(self) -> Path:
        """The profile's name. Never open it, nor a path below it."""
        return self.folder.path

    @property
    def is_ours(self) -> bool:
        return self.place is self.folder

    def has(self, name: str) -> bool:
        """True if the table has rows, or was derived."""
        return name in self._in_memory or any(name in tables.index.tables for tables in self._tables)

    def names(self) -> list[str]:
        """The tables that have rows, or were derived."""
        return list(dict.fromkeys([*(name for tables in reversed(self._tables) for name in tables.index.tables), *self._in_memory]))

    def table(self, name: str) -> pl.DataFrame:
        table = self._kept_or_scan(name)
        if isinstance(table, pl.DataFrame):
            return table.clone()
        with as_errors(self.path):
            return table.collect()

    def scan(self, name: str) -> pl.LazyFrame:
        """The table, read when it is collected; without rows if none were recorded."""
        return self._kept_or_scan(name).lazy()

    def _kept_or_scan(self, name: str) -> pl.DataFrame | pl.LazyFrame:
        """A table that is in memory, or small enough to stay there; otherwise a scan."""
        if name in self._in_memory:
            return self._in_memory[name]
        if not self.has(name):
            return without_rows(self, name)
        with as_errors(self.path):
            folder, parts = self._parts(name)
            unpacked = sum(self._verified[part.file] for part in parts)
            if sum(part.rows for part in parts) > _KEPT_ROWS or unpacked > _KEPT_UNPACKED:
                return with_later_columns(name, _scan(folder, parts))
            return self._kept_or_read(name, folder, parts)

    def write_table(self, name: str, frame: pl.DataFrame) -> None:
        """Stores a derived table; replaces an earlier one of that name."""
        if name in TABLE or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise AiflameError(f"{name!r} cannot be the name of a derived table")
        if self.place is None:
            self._in_memory[name] = frame
            return
        if self.is_ours and self.meta.id and self.folder.entry(META_FILE) is None:
            raise AiflameError(f"{self.path} is being removed")  # new files would keep the remover from removing the folder
        tables = self._tables[0]
        try:
            with tables.folder.locked("lock"):
                part = write_part(tables.folder, name, uuid.uuid4().hex, frame)
                file = part.file.partition("/")[2]
                tables.folder.folder(name).sync_tree()
                newest = Index.read(tables.folder) or tables.index
                tables.index = Index({**newest.tables, name: (part,)})
                tables.index.write(tables.folder)
                self._verified[part.file] = int(frame.estimated_size())
                for old in tables.folder.folder(name).entries():  # replaced by another process, or left by one that was killed here
                    if old.name != file:
                        tables.folder.folder(name).remove_tree(old.name)
        except OSError as error:
            raise AiflameError(f"cannot write into {self.place.path}: {error.strerror or error}") from None

    def copy_tables(self, to: Folder) -> None:
        """Writes all tables, recorded and derived ones, into a new folder of tables."""
        parts: dict[str, tuple[Part, ...]] = {}
        for name in self.names():
            if name in self._in_memory:
                parts[name] = (write_part(to, name, uuid.uuid4().hex, self._in_memory[name]),)
                continue
            folder, parts[name] = self._parts(name)
            for part in parts[name]:
                file = part.file.partition("/")[2]
                with open_part(folder, part) as source, io.BufferedWriter(to.make_folder(name).new_file(file)) as target:
                    shutil.copyfileobj(source, target)
        Index(parts).write(to)

    def write_meta(self, meta: Meta) -> None:
        """Replaces the profile's metadata, here and in `place`."""
        self.meta = meta
        if self.place is not None:
            try:
                meta.write(self.place)
            except OSError as error:
                raise AiflameError(f"cannot write into {self.place.path}: {error.strerror or error}") from None

    def sql(self, query: str) -> pl.DataFrame:
        """Runs SQL (Polars' dialect) over all tables, including tables of the schema without rows."""
        return answer(self, query)

    def unfinished(self) -> list[str]:
        """A note for readers that the profile is still being recorded. Otherwise empty."""
        return [self._growing] if self._growing else []

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Runs a long computation in one process at a time: the next process will use its tables."""
        if self.place is None:
            yield
            return
        with self._tables[0].folder.locked(_ALONE):
            self._tables[0].index = Index.read(self._tables[0].folder) or self._tables[0].index
            yield

    def notes(self) -> list[str]:
        """Failures to record or read something, each line once."""
        return list(dict.fromkeys([*self.meta.degraded, *self.table("notes")["text"].to_list()]))

    def kept_size(self, file: str) -> int | None:
        """The size of a file that `kept_files` names; None if it is missing."""
        try:
            entry = self.folder.entry(KEPT, *file.split("/"))
        except AiflameError:
            return None
        return entry.size if entry is not None and entry.is_file else None

    def read_kept(self, file: str, most: int) -> bytes:
        """The first `most` bytes of a file that `kept_files` names."""
        with contextlib.suppress(AiflameError), self.folder.file(KEPT, *file.split("/")) as content:
            return content.read(most) if content is not None else b""
        return b""

    def refuse_cut_short(self) -> None:
        """Error if a file is missing or shorter than it was written."""
        for tables in self._tables:
            for part in (part for parts in tables.index.tables.values() for part in parts):
                entry = tables.folder.entry(*part.file.split("/"))
                if entry is None:
                    raise AiflameError(f"cannot read {tables.folder.path / part.file}: No such file or directory")
                if entry.size != part.bytes:
                    raise AiflameError(f"{tables.folder.path / part.file} is cut short")

    def _parts(self, name: str) -> tuple[Folder, tuple[Part, ...]]:
        """The table's files, verified once."""
        tables = next(tables for tables in self._tables if name in tables.index.tables)
        try:
            return tables.folder, self._verify(tables.folder, tables.index.tables[name])
        except AiflameError:
            # A derived table may have been replaced by another process since we opened.
            newest = Index.read(tables.folder)
            if newest is None or newest.tables.get(name) == tables.index.tables[name]:
                raise
            tables.index = newest
            return tables.folder, self._verify(tables.folder, newest.tables.get(name, ()))

    def _verify(self, folder: Folder, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        for part in parts:
            if part.file not in self._verified or not folder.has_file(*part.file.split("/")):
                verify(folder, part)
                self._verified[part.file] = _unpacked(folder, part)
        return parts

    def _kept_or_read(self, name: str, folder: Folder, parts: tuple[Part, ...]) -> pl.DataFrame:
        frame = self._kept.get(parts)
        if frame is None:
            frame = with_later_columns(name, _scan(folder, parts)).collect()
            if (size := int(frame.estimated_size())) <= self._room:
                self._kept[parts] = frame
                self._room -= size
        return frame


def _scan(folder: Folder, parts: tuple[Part, ...]) -> pl.LazyFrame:
    """Polars gets bytes or descriptors, never a name; it maps a file that is given as a descriptor."""
    if sum(part.bytes for part in parts) > _SMALL:
        try:
            with contextlib.ExitStack() as opened:
                files: list[IO[bytes]] = [opened.enter_context(open_part(folder, part)) for part in parts]
                return pl.scan_parquet(files, glob=False)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
    return pl.scan_parquet([_content(folder, part) for part in parts], glob=False)


def _unpacked(folder: Folder, part: Part) -> int:
    """The bytes of a file's pages when unpacked. Refuses small files with huge content: equal values take almost no space on disk, so the
    sizes are added up before memory is allocated."""
    path = f"{folder.path / part.file}"
    with open_part(folder, part) as file:
        try:
            unpacked_sizes = sizes(file, part.bytes)
        except NotOurs as error:
            raise AiflameError(f"cannot read {path}: {error}") from None
    if unpacked_sizes.rows != part.rows or unpacked_sizes.rows > _MOST_ROWS + _MOST_ROWS_A_BYTE * part.bytes:
        raise AiflameError(f"{path} says that it has {unpacked_sizes.rows:,} rows in {part.bytes:,} bytes: aiflame writes no such table")
    unpacked, texts = _MOST_UNPACKED + _MOST_UNPACKED_A_BYTE * part.bytes, _MOST_TEXTS + _MOST_TEXTS_A_BYTE * part.bytes
    if unpacked_sizes.unpacked > unpacked or (unpacked_sizes.texts > texts and _text_bytes(folder, part) > texts):
        raise AiflameError(f"{path} would take far more memory than a table of {part.bytes:,} bytes that aiflame wrote: it is not read")
    return unpacked_sizes.unpacked


def _text_bytes(folder: Folder, part: Part) -> int:
    """The bytes of the texts of all rows. A text that several rows share counts for each of them, although it is in memory once."""
    with as_errors(folder.path), open_part(folder, part) as file:
        frame = pl.scan_parquet(file, glob=False)
        kinds = frame.collect_schema()
        lengths = [pl.col(name).str.len_bytes() for name in kinds if kinds[name] == pl.String]
        lengths += [pl.col(name).bin.size() for name in kinds if kinds[name] == pl.Binary]
        return int(frame.select(pl.sum_horizontal(length.cast(pl.UInt64).sum() for length in lengths)).collect().item() or 0)


def _content(folder: Folder, part: Part) -> bytes:
    with open_part(folder, part) as file:
        return file.read(part.bytes)

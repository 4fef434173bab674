"""A profile, opened: its tables as Polars frames."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from ..errors import AiflameError
from . import sql
from .files import locked, sync
from .index import Index, Part, verify, write_part
from .job import FOLDER as RANKS
from .job import is_ranked, rank_folders
from .meta import FILE_NAME as META_FILE
from .meta import Meta
from .schema import TABLE, TABLES
from .seal import SEALED, SPOOL, is_sealed, seal
from .spool import empty_frame

SUFFIX = ".aiflame"


class Profile:
    """A sealed profile. Tables are read, and their files verified, when they are asked for."""

    def __init__(self, path: Path, meta: Meta, index: Index) -> None:
        self.path = path
        self.meta = meta
        self._index = index
        self._verified: set[str] = set()

    @staticmethod
    def open(path: str | Path, progress: Callable[[float], None] | None = None) -> Profile:
        """Opens a profile, of one or of many ranks; seals it first when its recorder did not, telling `progress` the share done."""
        path = Path(path)
        _refuse_what_is_none(path)
        if is_ranked(path):
            from .ranked import open_ranks

            return open_ranks(path, progress)
        meta = Meta.read(path)
        if not is_sealed(path):
            seal(path, progress)
            meta = Meta.read(path)
        index = Index.read(path / SEALED)
        if index is None:
            raise AiflameError(f"{path / SEALED} is damaged (its index is missing or wrong): record again or restore it from a copy")
        return Profile(path, meta, index)

    def has(self, name: str) -> bool:
        """Whether the table has rows, or was derived."""
        return name in self._index.tables

    def names(self) -> list[str]:
        """The tables that have rows, or were derived."""
        return list(self._index.tables)

    def table(self, name: str) -> pl.DataFrame:
        with _as_errors(self.path):
            return self.scan(name).collect()

    def scan(self, name: str) -> pl.LazyFrame:
        """The table, to be read when collected; without rows when nothing of its kind was recorded."""
        if not self.has(name):
            return without_rows(name, self).lazy()
        files = [self.path / SEALED / part.file for part in self._parts(name)]
        with _as_errors(self.path):
            if _is_text(self.path):
                return pl.scan_parquet(files, glob=False)
            contents: list[bytes] = [file.read_bytes() for file in files]
            return pl.scan_parquet(contents, glob=False)

    def write_table(self, name: str, frame: pl.DataFrame) -> None:
        """Keeps a derived table in the profile; replaces the one of that name."""
        if name in TABLE or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise AiflameError(f"{name!r} cannot be the name of a derived table")
        folder = self.path / SEALED
        try:
            with locked(folder / "lock"):
                part = write_part(folder, f"{name}/{uuid.uuid4().hex}.parquet", frame)
                sync(folder / part.file)
                newest = Index.read(folder) or self._index
                self._index = Index({**newest.tables, name: (part,)})
                self._index.write(folder)
                self._verified.add(part.file)
                for old in (folder / name).iterdir():  # replaced, or left by somebody who was killed here
                    if old != folder / part.file:
                        old.unlink()
        except OSError as error:
            raise AiflameError(f"cannot write into {self.path}: {error.strerror or error}") from None

    def sql(self, query: str) -> pl.DataFrame:
        """Runs SQL (Polars' dialect) over all tables, those of the schema without rows too."""
        names = [*self.names(), *(table.name for table in TABLES if not self.has(table.name))]
        return sql.answer(query, names, self.scan)

    def notes(self) -> list[str]:
        """What could not be recorded or read, each line once."""
        return list(dict.fromkeys([*self.meta.degraded, *self.table("notes")["text"].to_list()]))

    def kept(self, file: str) -> Path | None:
        """A file that `kept_files` names. A profile may come from a stranger: what it names must lie in its own folder."""
        try:
            folder = (self.path / "kept").resolve()
            path = (folder / file).resolve()
            return path if path.is_relative_to(folder) and path.is_file() else None
        except (OSError, ValueError):
            return None

    def refuse_cut_short(self) -> None:
        """Error when a file is not there, or not as long as it was written."""
        for part in (part for parts in self._index.tables.values() for part in parts):
            path = self.path / SEALED / part.file
            try:
                size = path.stat().st_size
            except OSError as error:
                raise AiflameError(f"cannot read {path}: {error.strerror or error}") from None
            if size != part.bytes:
                raise AiflameError(f"{path} is cut short")

    def _parts(self, name: str) -> tuple[Part, ...]:
        """The table's files, verified once."""
        try:
            return self._verify(self._index.tables[name])
        except AiflameError:
            # A derived table may have been replaced by another process since we opened.
            newest = Index.read(self.path / SEALED)
            if newest is None or newest.tables.get(name) == self._index.tables[name]:
                raise
            self._index = newest
            return self._verify(newest.tables.get(name, ()))

    def _verify(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        for part in parts:
            if part.file not in self._verified or not (self.path / SEALED / part.file).exists():
                verify(self.path / SEALED, part)
                self._verified.add(part.file)
        return parts


def newest(folder: str | Path) -> Path:
    """The profile in a folder that was recorded last."""
    found = [path for path in Path(folder).glob(f"*{SUFFIX}") if _looks_like_one(path)]
    if not found:
        raise AiflameError(f"no profile (*{SUFFIX}) in {Path(folder).resolve()}: record one with `aiflame record -- COMMAND`, or name one")
    return max(found, key=_recorded)


def _recorded(path: Path) -> float:
    path = next(iter(rank_folders(path).values()), path)
    with contextlib.suppress(AiflameError):
        if started := Meta.read(path).started.realtime_ns:
            return started / 1e9
    return path.stat().st_mtime


def _looks_like_one(path: Path) -> bool:
    return path.is_dir() and any((path / part).exists() for part in (META_FILE, SPOOL, SEALED, RANKS))


def _refuse_what_is_none(path: Path) -> None:
    try:
        if not path.exists():
            raise AiflameError(f"{path} does not exist: name a profile, a folder NAME{SUFFIX} made by `aiflame record`")
        if path.is_dir() and not any(path.iterdir()):
            raise AiflameError(f"{path} is empty: not a profile")
        if not _looks_like_one(path):
            raise AiflameError(f"{path} is not a profile: a profile is a folder made by `aiflame record`")
    except OSError as error:
        raise AiflameError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise AiflameError(f"{str(path)!r} is no path: name a profile, a folder NAME{SUFFIX}") from None


def without_rows(name: str, profile: Profile) -> pl.DataFrame:
    if name not in TABLE:
        raise AiflameError(f"{profile.path} has no table {name!r}; it has {', '.join(profile.names())}")
    return empty_frame(TABLE[name]).select(pl.lit(None, pl.UInt32).alias("process"), pl.all())


@contextlib.contextmanager
def _as_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise AiflameError(f"cannot read {path}: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _is_text(path: Path) -> bool:
    """Polars opens no file whose name is not UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True

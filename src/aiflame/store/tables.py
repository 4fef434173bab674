"""The tables of a store, and the parts of an hour: written once, merged when the hour is over.

Ids are hashes of content, so that parts of any hours fit together: a frame has the same id in all of them, and so has a stack.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.store.layout import HOURS, PARTIAL, parts

COLUMNS: Mapping[str, Mapping[str, type[pl.DataType]]] = {
    "windows": {
        "window": pl.UInt64,
        "process": pl.UInt64,  # the same for all windows of a process
        "begin_ns": pl.Int64,  # since 1970
        "took_ns": pl.Int64,
        "pid": pl.UInt32,
        "command": pl.String,
        "user": pl.String,
        "cgroup": pl.String,
        "rank": pl.Int32,  # -1: none
        "version": pl.String,  # of the code
        "notes": pl.String,  # of its recording, on lines: CPU time without samples …
    },
    "values": {
        "window": pl.UInt64,
        "thread": pl.String,
        "phase": pl.String,
        "layer": pl.String,
        "op": pl.String,
        "metric": pl.String,
        "unit": pl.String,
        "stack": pl.UInt64,  # 0: none
        "value": pl.Int64,
    },
    "stacks": {
        "stack": pl.UInt64,
        "parent": pl.UInt64,  # 0: none
        "depth": pl.UInt16,
        "frame": pl.UInt64,
    },
    "frames": {
        "frame": pl.UInt64,
        "name": pl.String,
        "kind": pl.UInt8,  # as in `profile.schema.kinds.Kind`
        "module": pl.String,
        "file": pl.String,
        "begin": pl.UInt32,  # the line where the function begins
        "line": pl.UInt32,
    },
    "processes": {
        "process": pl.UInt64,
        "pid": pl.UInt32,
        "begin_ns": pl.Int64,  # since 1970: its start
        "found_ns": pl.Int64,  # since 1970: the agent saw it first
        "seen_ns": pl.Int64,  # since 1970: the agent saw it last
        "command": pl.String,
        "cgroup": pl.String,
        "rank": pl.Int32,
        "cpu_ns": pl.Int64,  # that it has used in all, by then
        "windows": pl.UInt32,  # so far
        "obstacle": pl.String,  # why it is not recorded
    },
}
_KEYS = {"windows": "window", "stacks": "stack", "frames": "frame"}
"""Tables with one row for each id."""

Tables = dict[str, pl.DataFrame]


def empty() -> Tables:
    return {name: pl.DataFrame(schema=dict(columns)) for name, columns in COLUMNS.items()}


def together(tables: Iterable[Tables]) -> Tables:
    """Windows that several have count once: the agent was killed between adding and removing them."""
    frames_of: dict[str, list[pl.DataFrame]] = {name: [frame] for name, frame in empty().items()}
    seen = pl.Series(dtype=pl.UInt64)
    for one in tables:
        again = one["windows"]["window"].is_in(seen.implode()) if len(seen) else pl.repeat(False, len(one["windows"]), eager=True)
        old = one["windows"].filter(again)["window"]
        for name, columns in COLUMNS.items():
            frame = one[name].select(pl.col(column).cast(kind) for column, kind in columns.items())
            frames_of[name].append(
                frame.filter(~pl.col("window").is_in(old.implode())) if len(old) and "window" in frame.columns else frame
            )
        seen = seen.append(one["windows"]["window"])
    result = {name: pl.concat(frames) for name, frames in frames_of.items()}
    for name, key in _KEYS.items():
        result[name] = result[name].unique(key, keep="first", maintain_order=True)
    return result


def latest(processes: pl.DataFrame) -> pl.DataFrame:
    """For each process and each time that an agent has found it, the row that was written last."""
    return processes.sort("seen_ns").unique(["process", "found_ns"], keep="last", maintain_order=True)


def write(store: Folder, hour: str, tables: Tables) -> None:
    """Adds a part to an hour: it appears whole, or not at all."""
    into = store.folder(HOURS).make_folder(hour)
    name = os.urandom(8).hex()
    try:
        part = into.new_folder(f"{name}{PARTIAL}")
        for table, columns in COLUMNS.items():
            frame = tables[table].select(pl.col(column).cast(kind) for column, kind in columns.items())
            buffer = io.BytesIO()  # a full disk is then an OSError
            frame.write_parquet(buffer, compression="zstd", compression_level=6)
            with part.create(f"{table}.parquet") as file:
                file.write(buffer.getbuffer())
        into.rename(f"{name}{PARTIAL}", name)
        into.sync()
    except BaseException:
        into.remove_tree(f"{name}{PARTIAL}")
        raise


def merge(store: Folder, hour: str) -> bool:
    """Makes one part of the parts of an hour. False: it had no more than one."""
    old = parts(store, hour)
    if len(old) < 2:
        return False
    whole = together(read(store, hour, part) for part in old)
    order = {"values": ["window", "metric", "thread", "stack"], "stacks": ["depth", "parent"], "windows": ["begin_ns", "window"]}
    for name, columns in order.items():
        whole[name] = whole[name].sort(columns)
    whole["processes"] = latest(whole["processes"])
    write(store, hour, whole)
    for part in old:
        store.folder(HOURS, hour).remove_tree(part)
    return True


def read(store: Folder, hour: str, part: str, names: Collection[str] = COLUMNS) -> Tables:
    """The tables of a part; empty ones if it has been merged or removed meanwhile, and where they are not named."""
    folder = store.folder(HOURS, hour, part)
    result = empty()
    for table in names:
        columns = COLUMNS[table]
        with _as_errors(folder, table), folder.file(f"{table}.parquet") as file:
            if file is None:
                return empty()
            frame = pl.read_parquet(file)
            result[table] = frame.select(pl.col(name).cast(kind) for name, kind in columns.items())
    return result


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def _as_errors(folder: Folder, table: str) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise AiflameError(f"{folder.path / table}.parquet is damaged: remove its folder ({str(error)[:80]})") from None

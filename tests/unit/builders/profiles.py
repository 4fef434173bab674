"""Sealed profiles made from lists of rows: code that reads tables is tested without a recording.

    profile = sealed(tmp_path / "p.aiflame", processes=[{"pid": 7}], stacks=[{"parent": 0, "frame": native(1, 0x1040)}])

A row names the columns that matter. Unless given, process is 0, id is the row's position, and other columns are 0 or empty.
"""

from __future__ import annotations

import time
from collections.abc import Container
from pathlib import Path
from typing import Any, cast

import polars as pl

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.profile.opening import open_profile
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.enums import FrameKind, LeafFlag
from aiflame.profile.spool.process_spool import empty_frame
from aiflame.profile.tables.index import Index, Part, write_part
from aiflame.profile.tables.store import Profile
from aiflame.resolve.files.outside import Outside

Row = dict[str, Any]

_EMPTY: dict[Any, Any] = {pl.String: "", pl.Binary: b""}


def sealed(path: Path, meta: Meta | None = None, /, **tables: list[Row]) -> Profile:
    folder = path / "tables"
    folder.mkdir(parents=True)
    (meta or Meta()).write(Folder.open(path))
    tables.setdefault("processes", [{"pid": 1000}])
    parts: dict[str, tuple[Part, ...]] = {}
    for name, rows in tables.items():
        parts[name] = (write_part(Folder.open(folder), name, "00000", _frame(name, rows)),)
    Index(parts).write(Folder.open(folder))
    return cast(Profile, open_profile(path))


def as_sealed_before(profile: Profile, tables: Container[str] = TABLE, **lacks: tuple[str, ...]) -> Profile:
    """The profile as a version sealed it that had no other tables, and in these no such columns."""
    folder = Folder.open(profile.path / "tables")
    index = Index.read(folder)
    assert index is not None
    for name, columns in lacks.items():
        index.tables[name] = (write_part(folder, name, "0", profile.table(name).drop(columns)),)
    Index({name: parts for name, parts in index.tables.items() if name in tables or name not in TABLE}).write(folder)
    return cast(Profile, open_profile(profile.path))


def this_machine(*debug_roots: Path, began: float | None = None) -> Outside:
    """Files that may be read for a profile that this user has just recorded here."""
    now = time.time()
    return Outside(allowed=True, began=now if began is None else began, ended=now, debug_roots=debug_roots)


def stack(*words: int) -> list[Row]:
    """Rows of `stacks` for one stack, outermost frame first."""
    return [{"parent": depth, "frame": word} for depth, word in enumerate(words)]


def ran(*kernels: Row) -> dict[str, list[Row]]:
    """The tables `kernel_shapes` and `kernels` of rows that have the columns of both: `sealed(path, **ran({"name": "gemm", …}))`."""
    shapes: list[Row] = []
    rows = []
    for kernel in kernels:
        columns = {column.name for column in TABLE["kernel_shapes"].columns} - {"api"}
        shape = {"process": kernel.get("process", 0), **{name: value for name, value in kernel.items() if name in columns}}
        if shape not in shapes:
            shapes.append(shape)
        number = 1 + [other for other in shapes if other["process"] == shape["process"]].index(shape)
        rows.append({"shape": number, **{name: value for name, value in kernel.items() if name not in columns}})
    return {"kernel_shapes": shapes, "kernels": rows}


def native(module: int, vaddr: int, *, exact: bool = False) -> int:
    """The word of a native frame: a return address, or the pc itself."""
    return FrameKind.NATIVE << 60 | module << 40 | vaddr | (LeafFlag.EXACT_PC if exact else 0)


def python(code: int, offset: int) -> int:
    """The word of a Python frame at a byte offset."""
    return FrameKind.PYTHON << 60 | code << 32 | offset + 1


def _frame(name: str, rows: list[Row]) -> pl.DataFrame:
    if name not in TABLE:
        return pl.DataFrame(rows)
    schema = {"process": pl.UInt32(), **empty_frame(TABLE[name]).schema}
    seen: dict[int, int] = {}
    whole = []
    for row in rows:
        process = row.get("process", 0)
        seen[process] = row.get("id", seen.get(process, 0) + 1)
        defaults = {column: _EMPTY.get(kind, 0) for column, kind in schema.items()}
        whole.append({**defaults, "process": process, "id": seen[process], **row})
    return pl.DataFrame(whole, schema=schema)

"""Tables of a sealed profile, written part by part from arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.spool.process_spool import empty_frame
from aiflame.profile.tables.index import Index, Part, write_part

Column = NDArray[Any] | Sequence[str] | int | float | str


class Tables:
    """Tables of a sealed profile in the making."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: dict[str, list[Part]] = {}
        self._rows: dict[str, int] = {}
        folder.mkdir(parents=True)

    def add(self, table: str, count: int, /, **columns: Column) -> None:
        """Rows of a table of the schema, in process 0; a column that is not given is 0 or empty."""
        first = self._rows.get(table, 0)
        self._rows[table] = first + count
        columns = {"process": 0, "id": np.arange(first + 1, first + count + 1), **columns}
        kinds = {"process": pl.UInt32(), **empty_frame(TABLE[table]).schema}
        unknown = set(columns) - set(kinds)
        assert not unknown, f"{table} has no columns {unknown}"
        nothing = {pl.String(): "", pl.Binary(): b""}
        rows = {column: columns.get(column, nothing.get(kind, 0)) for column, kind in kinds.items()}
        self.keep(table, frame_of(count, rows, kinds))

    def rows(self, table: str) -> int:
        return self._rows.get(table, 0)

    def keep(self, name: str, frame: pl.DataFrame) -> None:
        """A part of any table."""
        parts = self._parts.setdefault(name, [])
        parts.append(write_part(Folder.open(self._folder), name, f"{len(parts):05}", frame))

    def finish(self) -> None:
        Index({name: tuple(parts) for name, parts in self._parts.items()}).write(Folder.open(self._folder))


def frame_of(count: int, rows: Mapping[str, object], kinds: dict[str, pl.DataType]) -> pl.DataFrame:
    series = []
    for name, kind in kinds.items():
        value = rows[name]
        if isinstance(value, (np.ndarray, list, pl.Series)):
            series.append(pl.Series(name, value).cast(kind))
        else:
            series.append(pl.Series(name, [value], dtype=kind).new_from_index(0, count))
    return pl.DataFrame(series)
